"""Tables of agents read from outside, while the query runs: ``open_table``."""

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
from muntin.model.axis import MIN_POSITION, as_datetime, position
from muntin.model.errors import OptionError
from muntin.spark.agents.rows import table_frame, table_schema
from muntin.spark.host.checkpoint import Checkpoint
from muntin.spark.host.shards import slots
from muntin.spark.session import active_session
from muntin.state.manifest import parse_manifest
from muntin.tables.opened import RunNumbers, StoredTable, list_blob_numbers
from muntin.tables.partition import read_tables
from muntin.tables.shard import TableEntry
from muntin.tables.spec import TableSpec

Given = datetime | str | None
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

    Returns:
        The table at that batch, with all verbs that read.

    Raises:
        OptionError: When the folder holds no tables, no such table, or has no such batch.

    Example:
        >>> views = open_table("checkpoints/shop", "views")  # doctest: +SKIP
        >>> views["/home"].now()  # doctest: +SKIP
    """
    opened = Checkpoint(active_session(spark), checkpoint, batch)
    return OpenTable(opened, name, default, value_type)


class OpenTable:
    """A table at one batch; made by ``open_table``.

    Attributes:
        batch: The batch.
        spec: What the table is.
        table: The table as agents have it: ``table[key]``, ``table.items()`` and the like.
    """

    def __init__(
        self, opened: Checkpoint, name: str, default: Callable[[], Any] | None, value_type: Any
    ) -> None:
        self.checkpoint = opened
        self.batch = opened.batch
        if opened.first.kind != "tables":
            hint = "write muntin.open_state(checkpoint)"
            raise OptionError("CHECKPOINT", opened.given, "holds no tables", hint)
        self._given = (name, default, value_type)
        self._slots = slots(len(opened.shards))
        texts = [opened.manifests[slot] for slot in self._slots]
        self._opened = StoredTable(name, texts, self._blobs, default, value_type)
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
        marks = [self._opened.get_shard(part).watermark for part in self._opened.parts]
        return None if max(marks) == MIN_POSITION else as_datetime(max(marks))

    @property
    def schema(self) -> StructType:
        """The columns of ``fetch``: those of ``table()`` without ``emission`` and ``revision``."""
        return StructType(table_schema(self.spec).fields[:-2])

    def fetch(self, key: Any = None, *, start: Given = None, end: Given = None) -> pl.DataFrame:
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
        return self.framed(self._opened.snapshot(key), _between(start, end))

    def framed(
        self, entries: Iterable[TableEntry], between: Between = (None, None)
    ) -> pl.DataFrame:
        """Entries that lie between two times as the columns of ``fetch``."""
        return self.checkpoint.show(_frame(self.spec, between, entries), self.schema)

    def of_text(self, key: Sequence[str]) -> tuple[int | None, list[TableEntry]]:
        """Return the clock of the partition that holds a key, and the key's entries."""
        form: Any = None
        for form in _forms(key):
            found = list(self._opened.snapshot(form))
            if found:
                break
        mark = self._opened.get_shard(self._opened.find_partition(self.spec.name, form)).watermark
        return None if mark == MIN_POSITION else mark, found

    def frame(self, *, start: Given = None, end: Given = None) -> DataFrame:
        """Return the entries as a Spark DataFrame that workers read, in no order."""
        return self.checkpoint.frame(self._view(start, end))

    def changes(self, since: int) -> pl.DataFrame:
        """Return the changes since an earlier batch, in the buckets that the change feed lists.

        Args:
            since: The number of that batch.

        Returns:
            The columns of ``fetch`` and ``change``: ``new``, ``changed`` (both as they are now) or
            ``gone`` (deleted, or a session that grew into another; as it was). What only expired
            isn't shown.

        Raises:
            OptionError: When the batch isn't kept, or the state store keeps no changes.
        """
        view = self._view()
        return self.checkpoint.changes(view, since).sort(view.identity)

    def _view(self, start: Given = None, end: Given = None) -> StateView:
        between, spec, given, schema = _between(start, end), self.spec, self._given, self.schema
        name, *rest = given

        def rows(manifest: str, blobs: Mapping[int, bytes]) -> pl.DataFrame:
            held = StoredTable(name, [manifest], lambda asked: {0: blobs}, *rest)
            return _frame(spec, between, held.snapshot())

        return StateView(
            schema,
            _frame(spec, between, ()),
            [column for column in schema.names if column != "value"],
            lambda manifest: list_blob_numbers(read_tables(manifest).get(name, {})),
            rows,
            judged=partial(_judged, name),
        )

    def _blobs(self, wanted: RunNumbers) -> Mapping[int, Mapping[int, bytes]]:
        """Blobs by the number of their partition."""
        found = self.checkpoint.blobs({self._slots[n]: runs for n, runs in wanted.items()})
        return {n: found[self._slots[n]] for n in wanted}


def one_table(opened: Checkpoint, key: Sequence[str], table: str | None) -> str:
    """The table that is asked for, or the only one; refused where there are several."""
    known = list(opened.first.spec)
    if table is None and len(known) > 1:
        hint = f"say which: --table {known[0]} (or {', '.join(known[1:])})"
        raise OptionError("--key", ", ".join(key), "may be in several tables", hint)
    return table or known[0]


def _forms(key: Sequence[str]) -> list[Any]:
    """Return the values that a key written as text may stand for."""
    (text,) = key if len(key) == 1 else (tuple(key),)
    if isinstance(text, str) and text.lstrip("-").isdigit():
        return [text, int(text)]
    return [text]


def _frame(spec: TableSpec, between: Between, entries: Iterable[TableEntry]) -> pl.DataFrame:
    """The entries that lie between two times."""
    low, high = between
    found = [
        one
        for one in entries
        if one.window is None
        or ((low is None or one.window[1] > low) and (high is None or one.window[0] <= high))
    ]
    return table_frame(spec, found, 0).drop(columns.EMISSION, columns.REVISION)


def _judged(name: str, then: str, now: str) -> str:
    manifest, clock = parse_manifest(then), parse_manifest(now).extra["tables"][name]
    if name in manifest.extra["tables"]:
        reached = {part: clock[part] for part in ("watermark", "closed")}
        manifest.extra["tables"][name] |= reached
    return manifest.dumps()


def _between(start: Given, end: Given) -> Between:
    return position("start", start, "time"), position("end", end, "time")
