"""Tables of agents read from outside, while the query runs: ``open_table``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from muntin.engine import columns
from muntin.engine.reading import differences
from muntin.model.axis import instant
from muntin.model.errors import OptionError
from muntin.spark.agents.rows import table_frame, table_schema
from muntin.spark.host.checkpoint import Checkpoint
from muntin.spark.host.internals.versions import arrow_schema
from muntin.spark.host.schema import to_batches
from muntin.spark.host.shards import slots
from muntin.spark.host.state import MANIFEST
from muntin.spark.inspect.windows import active, moment
from muntin.tables.moments import BEGINNING
from muntin.tables.opened import Opened, RunNumbers
from muntin.tables.shard import Emitted, TableShard
from muntin.tables.spec import TableSpec

Place = datetime | str | None


def open_table(
    checkpoint: str,
    name: str,
    *,
    batch: int | None = None,
    default: Callable[[], Any] | None = None,
    value_type: Any = None,
    spark: SparkSession | None = None,
) -> OpenTable:
    """Read a table that agents keep on Spark from outside, while the query runs or after.

    What is read is a snapshot of one committed batch. A key is looked up in its own bucket; what
    was fetched stays here, so that further questions about it cost nothing.

    Args:
        checkpoint: The folder that the query was started with.
        name: The table's name.
        batch: The number of a batch that is still kept; the newest one where it isn't given.
        default: Makes the value of a key that has none, where the table's own isn't plain data.
        value_type: What values are (a dataclass, a pydantic model), where they aren't plain data;
            without it they are dictionaries.
        spark: The session; the active one, or a new ``muntin.session()``.

    Raises:
        OptionError: When the folder holds no tables, no such table, or has no such batch.

    Example:
        >>> views = open_table("checkpoints/shop", "views")  # doctest: +SKIP
        >>> views["/home"].now()  # doctest: +SKIP
    """
    opened = Checkpoint(active(spark), checkpoint, batch)
    return OpenTable(opened, name, default, value_type)


class OpenTable:
    """A table at one batch; made by ``open_table``.

    Attributes:
        batch: The batch.
        spec: What the table is.
        table: The table as agents have it: ``table[key]``, ``table.items()`` and the like.
    """

    def __init__(
        self,
        opened: Checkpoint,
        name: str,
        default: Callable[[], Any] | None,
        value_type: Any,
    ) -> None:
        self.checkpoint = opened
        self.batch = opened.batch
        if opened.first.kind != "tables":
            hint = "write muntin.open_state(checkpoint)"
            raise OptionError("CHECKPOINT", opened.given, "holds no tables", hint)
        self._own = (name, default, value_type)
        self._slots = slots(len(opened.read))
        self._opened = self._at(opened.manifests, None)
        self.spec = self._opened.spec
        self.table = self._opened.handle

    def __repr__(self) -> str:
        return f"<{self.spec} at batch {self.batch}>"

    def __getitem__(self, key: Any) -> Any:
        """The value of a key; of a table with windows, the windows of the key."""
        return self.table[key]

    def __contains__(self, key: Any) -> bool:
        return next(self._opened.snapshot(key), None) is not None

    @property
    def watermark(self) -> datetime | None:
        """Up to where the table's clock has come; ``None`` before the first write."""
        marks = [self._opened.shard(part).watermark for part in self._opened.parts]
        return None if max(marks) == BEGINNING else moment(max(marks))

    @property
    def schema(self) -> StructType:
        """The columns of ``fetch``: those of ``table()`` without ``emission`` and ``revision``."""
        return StructType(table_schema(self.spec).fields[:-2])

    def fetch(self, key: Any = None, *, start: Place = None, end: Place = None) -> pl.DataFrame:
        """The entries that haven't expired, as a Polars frame.

        Args:
            key: Only those of this key.
            start: Only windows that reach beyond this time.
            end: Only those that begin there or before.

        Returns:
            ``key``, ``window_start`` and ``window_end`` where there are windows, and ``value``.

        Raises:
            OptionError: When a time can't be one, or a value doesn't fit its column.
        """
        between = _between(start, end)
        return self._typed([one for one in self._opened.snapshot(key) if _within(one, between)])

    def frame(self, *, start: Place = None, end: Place = None) -> DataFrame:
        """The same as a Spark DataFrame, put together by the workers, in no order."""
        between, spec, schema = _between(start, end), self.spec, self.schema
        slots_of, (name, default, value_type) = self._slots, self._own
        numbers = [MANIFEST, *(n for runs in self._opened.runs.values() for n in runs)]

        def emitted(table: pa.Table) -> pa.Table:
            rows = zip(table["number"].to_pylist(), table["blob"].to_pylist(), strict=True)
            blobs = dict(rows)
            text = blobs.pop(MANIFEST).decode()
            held = Opened(name, [text], lambda asked: {0: blobs}, default, value_type)
            found = [one for one in held.snapshot() if _within(one, between)]
            return _table(spec, found, schema)

        asked = F.col("slot").isin(list(slots_of)) & F.col("number").isin(numbers)
        return self.checkpoint.state().where(asked).groupBy("slot").applyInArrow(emitted, schema)

    def changes(self, since: int) -> pl.DataFrame:
        """What has changed since an earlier batch, in the buckets that the change feed names.

        Args:
            since: The number of that batch.

        Returns:
            The columns of ``fetch`` and ``change``: ``new``, ``changed`` (both as they are now) or
            ``gone`` (deleted, or a session that grew into another; as it was). What only expired
            isn't shown.

        Raises:
            OptionError: When the batch isn't kept, or the state store keeps no changes.
        """
        opened = self.checkpoint
        opened.earlier(since)
        upstream = [self._slots.index(slot) for slot in opened.upstream(since)]
        then = self._at(opened.texts(since), since)
        was, now = [], []
        for bucket in upstream:
            shard = self._shard(self._opened, bucket)
            was += [
                one
                for one in self._shard(then, bucket).snapshot()
                if one.window is None or not shard.expired(one.window)
            ]
            now += list(shard.snapshot())
        identity = [name for name in self.schema.names if name != "value"]
        return differences(self._typed(was), self._typed(now), identity).sort(identity)

    def _shard(self, opened: Opened, bucket: int) -> TableShard:
        return opened.shard(opened.parts[bucket])

    def _at(self, texts: Mapping[int, str], batch: int | None) -> Opened:
        """The table's partitions as a batch left them."""
        missing = [slot for slot in self._slots if slot not in texts]
        if missing:
            hint = "wait until its first batch is done"
            raise OptionError("CHECKPOINT", self.checkpoint.given, "isn't whole yet", hint)
        name, default, value_type = self._own

        def fetch(wanted: RunNumbers) -> Mapping[int, Mapping[int, bytes]]:
            by_slot = {self._slots[bucket]: runs for bucket, runs in wanted.items()}
            found = self.checkpoint.blobs(by_slot, batch)
            return {bucket: found[self._slots[bucket]] for bucket in wanted}

        ordered = [texts[slot] for slot in self._slots]
        return Opened(name, ordered, fetch, default, value_type)

    def _typed(self, emitted: list[Emitted]) -> pl.DataFrame:
        frame = pl.from_arrow(_table(self.spec, emitted, self.schema))
        assert isinstance(frame, pl.DataFrame)
        return frame


def _table(spec: TableSpec, emitted: list[Emitted], schema: StructType) -> pa.Table:
    frame = table_frame(spec, emitted, 0).drop(columns.EMISSION, columns.REVISION)
    arrow = arrow_schema(schema)
    return pa.Table.from_batches(to_batches(frame, schema), schema=arrow)


def _between(start: Place, end: Place) -> tuple[int | None, int | None]:
    low = None if start is None else instant("start", start)
    return low, None if end is None else instant("end", end)


def _within(one: Emitted, between: tuple[int | None, int | None]) -> bool:
    low, high = between
    if one.window is None:
        return True
    return (low is None or one.window[1] > low) and (high is None or one.window[0] <= high)
