"""Tables read from outside, as a commit left them: the same handles, over partitions that are read.

A manifest says what a table is, apart from its functions; so with nothing but the state one can
ask it what an agent could.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from muntin.model.errors import OptionError
from muntin.state.blobs import ReadBlobs
from muntin.state.manifest import loads
from muntin.tables.app import App
from muntin.tables.copartition import home
from muntin.tables.partition import Partition, Rules, tables_of
from muntin.tables.shard import Emitted, TableShard
from muntin.tables.spec import TableSpec
from muntin.tables.table import SetTable, Table
from muntin.tables.windowed import WindowedTable

RunNumbers = Mapping[int, Sequence[int]]
Fetch = Callable[[RunNumbers], Mapping[int, Mapping[int, bytes]]]
"""Gives blobs by partition and number."""


class Opened:
    """The partitions of one table, as a commit left them.

    Args:
        table: Its name.
        manifests: The manifest of each partition, in their order.
        fetch: What gives blobs.
        default: Makes the value of a key that has none, where the state doesn't say.
        value_type: What values are, where it isn't plain.
    """

    def __init__(
        self,
        table: str,
        manifests: Sequence[str],
        fetch: Fetch,
        default: Callable[[], Any] | None = None,
        value_type: Any = None,
    ) -> None:
        self._fetch = fetch
        self._blobs: dict[int, Mapping[int, bytes]] = {}
        stored = [tables_of(loads(text, "tables")) for text in manifests]
        known = {name: part for one in stored for name, part in one.items()}
        if table not in known:
            hint = f"give one of {', '.join(known)}"
            raise OptionError("name", table, "isn't a table of this state", hint)
        self.spec = TableSpec.read(table, known[table], default, value_type)
        specs = {name: TableSpec.read(name, part) for name, part in known.items()}
        specs[table] = self.spec
        self.runs = {n: numbers_of(one.get(table, {})) for n, one in enumerate(stored)}
        rules = Rules(specs, {}, None)
        self._parts = [Partition(rules, number) for number in range(len(manifests))]
        for number, (part, text) in enumerate(zip(self._parts, manifests, strict=True)):
            part.begin(ReadBlobs(text, self._of(number)), part.wall)
        self.app = App("outside")
        self.app.define(self.spec)
        # The handles of an open app, over partitions that nobody works on.
        self.app.running = self  # type: ignore[assignment]

    @property
    def handle(self) -> Table | WindowedTable:
        """The table as agents have it; to be read only."""
        if self.spec.windows is not None:
            return WindowedTable(self.app, self.spec.name)
        return (SetTable if self.spec.sets else Table)(self.app, self.spec.name)

    @property
    def parts(self) -> list[Partition]:
        """All partitions, fetched."""
        self._load(range(len(self._parts)))
        return self._parts

    def partition_of(self, table: str, key: Any) -> Partition:
        """The partition that a key of a table lies in."""
        return self._parts[home(table, key, [self.shard(part) for part in self._parts])]

    def wall(self) -> int:
        """The wall clock, microseconds."""
        return time.time_ns() // 1000

    def shard(self, part: Partition) -> TableShard:
        """The table in a partition."""
        return part.shards[self.spec.name]

    def snapshot(self, key: Any = None) -> Iterator[Emitted]:
        """Every entry, or those of a key."""
        parts = self.parts if key is None else [self.partition_of(self.spec.name, key)]
        for part in parts:
            for one in self.shard(part).snapshot():
                if key is None or one.key == key:
                    yield one

    def _of(self, number: int) -> Callable[[], Mapping[int, bytes]]:
        def fetched() -> Mapping[int, bytes]:
            self._load([number])
            return self._blobs[number]

        return fetched

    def _load(self, wanted: Sequence[int]) -> None:
        missing = {number: self.runs[number] for number in wanted if number not in self._blobs}
        if missing:
            self._blobs.update(self._fetch(missing))


def numbers_of(stored: Mapping[str, Any]) -> list[int]:
    """The blobs of a table's part of a manifest."""
    return [n for runs in stored.get("runs", {}).values() for run in runs for n in run.blobs]
