"""The stores of windows inside a ``transformWithState`` of your own.

A processor opens ``muntin.stores`` over a variable of its state. What it flushes is committed by
Spark with the batch: exactly once, and with the source's offsets.
"""

from __future__ import annotations

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from muntin.model.errors import OptionError
from muntin.spark.host.state import SparkBlobs
from muntin.stores.paged import BLOB_PAGE_BYTES, PagedKeyValue


class SparkState:
    """A variable of a processor's state, in which stores are opened; see ``spark_state``."""

    def __init__(self, blobs: SparkBlobs, page_bytes: int) -> None:
        self._blobs = blobs
        self._page_bytes = page_bytes
        self._opened: PagedKeyValue | None = None

    def open(self) -> PagedKeyValue:
        """The rows of the grouping key that is being processed, as its last flush left them.

        Call it in ``handleInputRows`` or ``handleExpiredTimer``, anew each time: Spark's state
        holds one key at a time. What was opened before is closed, so that it can't write
        into the state of another key.

        Returns:
            What ``MessageStore``, ``WindowStore`` and ``SessionStore`` stand on. A flush counts
            when Spark commits the batch; a task that fails after it is repeated from the batch
            before.

        Raises:
            StateCorruptedError: When the state can't be read back as it was written.
        """
        self.close()
        self._opened = PagedKeyValue(self._blobs, page_bytes=self._page_bytes)
        return self._opened

    def close(self) -> None:
        """Close what is open, without flushing."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def spark_state(
    handle: StatefulProcessorHandle, name: str = "stores", *, page_bytes: int = BLOB_PAGE_BYTES
) -> SparkState:
    """Keep stores in Spark's state; call it in the ``init`` of a processor.

    Rows lie in pages, a blob each. Opening reads the list of a key's pages, one call of the state
    store; then a page costs one call when it is first asked for, and one when it is flushed.

    Args:
        handle: What Spark gives to ``init``.
        name: The name of the state variable; no two variables of a processor share one.
        page_bytes: How great a page may grow, bytes of keys and values. Small pages are for
            many keys with a few rows touched at a time.

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
