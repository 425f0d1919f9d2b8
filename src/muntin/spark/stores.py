"""Stores of windows for use inside a ``transformWithState`` of your own.

A processor opens ``muntin.stores`` over a variable of its state. Spark commits flushed rows with
the batch: exactly once, and together with the source's offsets.
"""

from __future__ import annotations

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from muntin.model.errors import OptionError
from muntin.spark.host.state import SparkBlobs
from muntin.stores.paged import BLOB_PAGE_BYTES, PagedKeyValue


class SparkState:
    """A variable of a processor's state that holds stores, as ``spark_state`` returns it."""

    def __init__(self, blobs: SparkBlobs, page_bytes: int) -> None:
        self._blobs = blobs
        self._page_bytes = page_bytes
        self._opened: PagedKeyValue | None = None

    def open(self) -> PagedKeyValue:
        """Open the rows of the grouping key that is being processed, after its last flush.

        Call it anew in each ``handleInputRows`` or ``handleExpiredTimer``, since Spark's state
        holds one key at a time. The rows that were opened before are closed, so that they can't be
        written into the state of another key.

        Returns:
            The storage for ``MessageStore``, ``WindowStore`` and ``SessionStore``. A flush counts
            when Spark commits the batch; a task that fails after it is repeated from the batch
            before.

        Raises:
            StateCorruptedError: When the state is damaged.
        """
        self.close()
        self._opened = PagedKeyValue(self._blobs, page_bytes=self._page_bytes)
        return self._opened

    def close(self) -> None:
        """Close the open rows, without flushing."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def spark_state(
    handle: StatefulProcessorHandle, name: str = "stores", *, page_bytes: int = BLOB_PAGE_BYTES
) -> SparkState:
    """Keep stores in Spark's state; call it in the ``init`` of a processor.

    Rows are stored in pages, each of which is a blob. Opening reads the list of a key's pages with
    one call of the state store. Then each page costs one call when it is first read, and one when
    it is flushed.

    Args:
        handle: The handle that Spark passes to ``init``.
        name: The name of the state variable, which must be unique in the processor.
        page_bytes: The largest size of a page, bytes of keys and values. Choose small pages for
            many keys of which a few rows are used at a time.

    Raises:
        OptionError: When the name is empty, or ``page_bytes`` is below 1.

    Source: the Samza SQL window operator design, whose stores are flushed together with the
    offset; KIP-94.

    Example:
        >>> from pyspark.sql import Row
        >>> from pyspark.sql.streaming import StatefulProcessor
        >>> from pyspark.sql.streaming.tws_tester import TwsTester
        >>> from muntin.stores import WindowStore
        >>> class PerMinute(StatefulProcessor):
        ...     def init(self, handle):
        ...         self.state = spark_state(handle)
        ...
        ...     def handleInputRows(self, key, rows, timerValues):
        ...         with self.state.open() as kv:
        ...             windows = WindowStore(kv, retention="1 hour")
        ...             for row in rows:
        ...                 start = row.at // 60_000_000 * 60_000_000
        ...                 windows.put("n", start, (windows.get("n", start) or 0) + 1)
        ...             windows.flush()
        ...             for window in windows.fetch("n"):
        ...                 yield Row(minute=window.time // 60_000_000, n=window.value)
        >>> tester = TwsTester(PerMinute())
        >>> tester.test("AA", [Row(at=5_000_000), Row(at=61_000_000)])
        [Row(minute=0, n=1), Row(minute=1, n=1)]
        >>> tester.test("AA", [Row(at=62_000_000)])
        [Row(minute=0, n=1), Row(minute=1, n=2)]
    """
    if not name:
        raise OptionError("name", name, "names no state variable", "give it a name")
    if page_bytes < 1:
        raise OptionError("page_bytes", page_bytes, "is no size", "give 65536, for instance")
    return SparkState(SparkBlobs(handle, name), page_bytes)
