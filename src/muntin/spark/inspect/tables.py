"""Reads tables of agents from another process while the query runs, for ``open_table``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from os import PathLike
from typing import Any

import polars as pl
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from muntin.engine import columns
from muntin.hosts.inspect.snapshot import StateView
from muntin.model.axis import MIN_POSITION, read_position, to_datetime
from muntin.model.errors import OptionError
from muntin.spark.agents.schemas import make_agent_table_schema
from muntin.spark.host.checkpoint import Checkpoint
from muntin.spark.host.shards import slots
from muntin.spark.session import active_session
from muntin.state.manifest import parse_manifest
from muntin.tables.emitted import to_table_frame
from muntin.tables.opened import RunNumbers, StoredTable, list_blob_numbers
from muntin.tables.partition import read_tables
from muntin.tables.shard import TableEntry
from muntin.tables.spec import TableSpec

TimeOption = datetime | str | None
Between = tuple[int | None, int | None]


def open_table(
    checkpoint: str | PathLike[str],
    name: str,
    *,
    batch: int | None = None,
    default: Callable[[], Any] | None = None,
    value_type: Any = None,
    spark: SparkSession | None = None,
) -> OpenTable:
    """Read a table that agents keep on Spark, from any process, while the query runs or after.

    The table is a snapshot of one committed batch. A key is looked up in its own shard. Fetched
    data is cached, so further reads of it cost nothing.

    Args:
        checkpoint: The folder that the query was started with.
        name: The table's name.
        batch: The number of a batch that is still kept; by default the newest one.
        default: Returns the value of a key that has none, where the table's own default isn't plain
            data.
        value_type: The class of values (a dataclass, a pydantic model), where they aren't plain
            data; without it they are dictionaries.
        spark: The session; by default the active one, or a new ``muntin.session()``.

    Returns:
        The table at that batch, with all methods that read.

    Raises:
        OptionError: When the folder isn't a checkpoint of tables, or the table or batch doesn't
            exist.

    Example:
        >>> views = open_table("checkpoints/shop", "views")  # doctest: +SKIP
        >>> views["/home"].now()  # doctest: +SKIP
    """
    opened = Checkpoint(active_session(spark), checkpoint, batch)
    return OpenTable(opened, name, default, value_type)


class OpenTable:
    """A table at one batch, as ``open_table`` returns it.

    Attributes:
        batch: The number of the batch.
        spec: The definition of the table.
        table: The table with the interface that agents use, such as ``table[key]`` and
            ``table.items()``.
    """

    def __init__(
        self, opened: Checkpoint, name: str, default: Callable[[], Any] | None, value_type: Any
    ) -> None:
        self.checkpoint = opened
        self.batch = opened.batch
        if opened.any_manifest.kind != "tables":
            hint = "write muntin.open_state(checkpoint)"
            raise OptionError("CHECKPOINT", opened.folder, "holds no tables", hint)
        self._arguments = (name, default, value_type)
        self._slots = slots(len(opened.shards))
        texts = [opened.manifests[slot] for slot in self._slots]
        self._opened = StoredTable(name, texts, self._blobs, default, value_type)
        self.spec = self._opened.spec
        self.table = self._opened.handle

    def __repr__(self) -> str:
        return f"<{self.spec} at batch {self.batch}>"

    def __getitem__(self, key: Any) -> Any:
        """Return the value of a key; for a table with windows, the windows of the key."""
        return self.table[key]

    def __contains__(self, key: Any) -> bool:
        return next(self._opened.snapshot(key), None) is not None

    @property
    def watermark(self) -> datetime | None:
        """The watermark of the table; ``None`` before the first write."""
        marks = [self._opened.get_shard(part).watermark for part in self._opened.parts]
        return None if max(marks) == MIN_POSITION else to_datetime(max(marks))

    @property
    def schema(self) -> StructType:
        """The columns of ``fetch``: those of ``table()`` without ``emission`` and ``revision``."""
        return StructType(make_agent_table_schema(self.spec).fields[:-2])

    def fetch(
        self, key: Any = None, *, start: TimeOption = None, end: TimeOption = None
    ) -> pl.DataFrame:
        """Return the entries that haven't expired, as a Polars frame.

        Args:
            key: Only return entries of this key.
            start: Only return windows that end after this time.
            end: Only return windows that begin at this time or before.

        Returns:
            ``key``, ``window_start`` and ``window_end`` where there are windows, and ``value``.

        Raises:
            OptionError: When a time isn't valid, or a value doesn't fit its column.
        """
        return self.to_frame(self._opened.snapshot(key), _between(start, end))

    def to_frame(
        self, entries: Iterable[TableEntry], between: Between = (None, None)
    ) -> pl.DataFrame:
        """Return the entries between two times, in the columns of ``fetch``."""
        return self.checkpoint.fit_to_schema(_frame(self.spec, between, entries), self.schema)

    def find_entries(self, key: Sequence[str]) -> tuple[int | None, list[TableEntry]]:
        """Return the clock of the partition that holds a key, and the key's entries."""
        form: Any = None
        for form in _forms(key):
            entries = list(self._opened.snapshot(form))
            if entries:
                break
        mark = self._opened.get_shard(self._opened.find_partition(self.spec.name, form)).watermark
        return None if mark == MIN_POSITION else mark, entries

    def frame(self, *, start: TimeOption = None, end: TimeOption = None) -> DataFrame:
        """Return the entries as a Spark DataFrame that workers read, in no order."""
        return self.checkpoint.frame(self._view(start, end))

    def changes(self, since: int) -> pl.DataFrame:
        """Return the changes since an earlier batch, in the shards that the change feed lists.

        Args:
            since: The number of that batch.

        Returns:
            The columns of ``fetch`` and ``change``: current rows of ``new`` or ``changed`` entries,
            and ``gone`` with the earlier row of an entry that was deleted or of a session that was
            merged into another. Entries that only expired aren't included.

        Raises:
            OptionError: When the batch isn't kept any more, or the state store keeps no changes.
        """
        view = self._view()
        return self.checkpoint.changes(view, since).sort(view.identity)

    def _view(self, start: TimeOption = None, end: TimeOption = None) -> StateView:
        between, spec, arguments, schema = (
            _between(start, end),
            self.spec,
            self._arguments,
            self.schema,
        )
        name, *rest = arguments

        def rows(manifest: str, blobs: Mapping[int, bytes]) -> pl.DataFrame:
            held = StoredTable(name, [manifest], lambda asked: {0: blobs}, *rest)
            return _frame(spec, between, held.snapshot())

        return StateView(
            schema,
            _frame(spec, between, ()),
            [column for column in schema.names if column != "value"],
            lambda manifest: list_blob_numbers(read_tables(manifest).get(name, {})),
            rows,
            set_clock=partial(_carry_clock, name),
        )

    def _blobs(self, wanted: RunNumbers) -> Mapping[int, Mapping[int, bytes]]:
        """Return blobs by the number of their partition."""
        blobs_by_slot = self.checkpoint.read_blobs(
            {self._slots[n]: runs for n, runs in wanted.items()}
        )
        return {n: blobs_by_slot[self._slots[n]] for n in wanted}


def one_table(opened: Checkpoint, key: Sequence[str], table: str | None) -> str:
    """Return the name of the table that is asked for, or of the only one."""
    names = list(opened.any_manifest.spec)
    if table is None and len(names) > 1:
        hint = f"give one: --table {names[0]} (or {', '.join(names[1:])})"
        raise OptionError("--key", ", ".join(key), "may be in several tables", hint)
    return table or names[0]


def _forms(key: Sequence[str]) -> list[Any]:
    """Return the values that a key written as text may stand for."""
    (text,) = key if len(key) == 1 else (tuple(key),)
    if isinstance(text, str) and text.lstrip("-").isdigit():
        return [text, int(text)]
    return [text]


def _frame(spec: TableSpec, between: Between, entries: Iterable[TableEntry]) -> pl.DataFrame:
    """Return the entries between two times as a frame."""
    low, high = between
    entries_between = [
        one
        for one in entries
        if one.window is None
        or ((low is None or one.window[1] > low) and (high is None or one.window[0] <= high))
    ]
    return to_table_frame(spec, entries_between, 0).drop(columns.EMISSION, columns.REVISION)


def _carry_clock(name: str, then: str, now: str) -> str:
    manifest, clock = parse_manifest(then), parse_manifest(now).extra["tables"][name]
    if name in manifest.extra["tables"]:
        reached = {part: clock[part] for part in ("watermark", "closed")}
        manifest.extra["tables"][name] |= reached
    return manifest.dumps()


def _between(start: TimeOption, end: TimeOption) -> Between:
    return read_position("start", start, "time"), read_position("end", end, "time")
