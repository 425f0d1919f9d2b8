"""Reads a table as of a commit, from outside the app that writes it.

The manifest describes a table except for its functions, so the state suffices to read it, with the
same handles as an agent has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from muntin.model.errors import OptionError
from muntin.state.blobs import ReadBlobs
from muntin.state.manifest import parse_manifest
from muntin.tables.app import App
from muntin.tables.copartition import find_partition
from muntin.tables.partition import Partition, Rules, read_tables
from muntin.tables.shard import TableEntry, TableShard
from muntin.tables.spec import TableSpec
from muntin.tables.table import SetTable, Table
from muntin.tables.windowed import WindowedTable

RunNumbers = Mapping[int, Sequence[int]]
Fetch = Callable[[RunNumbers], Mapping[int, Mapping[int, bytes]]]
"""Fetches blobs by partition and number."""


class StoredTable:
    """The partitions of one table as of a commit, from the manifest of each.

    ``default`` and ``value_type`` are those of ``TableSpec.from_manifest``.
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
        tables_by_partition = [read_tables(parse_manifest(text, "tables")) for text in manifests]
        manifest_entries = {
            name: part for tables in tables_by_partition for name, part in tables.items()
        }
        if table not in manifest_entries:
            hint = f"give one of {', '.join(manifest_entries)}"
            raise OptionError("name", table, "isn't a table of this state", hint)
        self.spec = TableSpec.from_manifest(table, manifest_entries[table], default, value_type)
        specs = {
            name: TableSpec.from_manifest(name, part) for name, part in manifest_entries.items()
        }
        specs[table] = self.spec
        self.runs = {
            n: list_blob_numbers(tables.get(table, {}))
            for n, tables in enumerate(tables_by_partition)
        }
        rules = Rules(specs, {})
        self._parts = [Partition(rules, number) for number in range(len(manifests))]
        for number, (part, text) in enumerate(zip(self._parts, manifests, strict=True)):
            part.begin(ReadBlobs(text, self._make_loader(number)), part.wall)
        self.app = App("outside")
        self.app.redefine_table(self.spec)
        # The handles expect a running app; this object has the members that reading needs.
        self.app.running = self  # type: ignore[assignment]

    @property
    def handle(self) -> Table | WindowedTable:
        """The table as agents have it, for reading only."""
        if self.spec.windows is not None:
            return WindowedTable(self.app, self.spec.name)
        return (SetTable if self.spec.sets else Table)(self.app, self.spec.name)

    @property
    def parts(self) -> list[Partition]:
        """All partitions, with their blobs fetched."""
        self._load(range(len(self._parts)))
        return self._parts

    def find_partition(self, table: str, key: Any) -> Partition:
        """Find the partition of a key of a table."""
        return self._parts[
            find_partition(table, key, [self.get_shard(part) for part in self._parts])
        ]

    def read_wall_clock(self) -> int:
        """Return the wall clock in microseconds since the epoch."""
        return time.time_ns() // 1000

    def get_shard(self, part: Partition) -> TableShard:
        """Return the table's shard in a partition."""
        return part.shards[self.spec.name]

    def snapshot(self, key: Any = None) -> Iterator[TableEntry]:
        """Iterate over all entries, or over those of a key."""
        parts = self.parts if key is None else [self.find_partition(self.spec.name, key)]
        for part in parts:
            for entry in self.get_shard(part).snapshot():
                if key is None or entry.key == key:
                    yield entry

    def _make_loader(self, number: int) -> Callable[[], Mapping[int, bytes]]:
        def load_blobs() -> Mapping[int, bytes]:
            self._load([number])
            return self._blobs[number]

        return load_blobs

    def _load(self, wanted: Sequence[int]) -> None:
        missing = {number: self.runs[number] for number in wanted if number not in self._blobs}
        if missing:
            self._blobs.update(self._fetch(missing))


def list_blob_numbers(stored: Mapping[str, Any]) -> list[int]:
    """Return the blob numbers in a table's manifest entry."""
    return [n for runs in stored.get("runs", {}).values() for run in runs for n in run.blobs]
