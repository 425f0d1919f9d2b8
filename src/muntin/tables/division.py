"""Divides the state of agents' tables among another number of partitions (``Division``).

An entry goes where events with its key go. If a table recorded one way in which its keys are
partitioned, that follows from the key; if it recorded several, the table can't be divided.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from muntin.model.axis import MIN_POSITION
from muntin.model.errors import OptionError
from muntin.state.manifest import Manifest
from muntin.tables import copartition
from muntin.tables.cells import POSITION_COLUMN, read_keys
from muntin.tables.partition import Partition, Rules, read_tables
from muntin.tables.spec import TableSpec

ManifestEntry = Mapping[str, Any]
"""The manifest entry of a table."""


class _Journal(NamedTuple):
    """The table that a run belongs to, as far as its division depends on it.

    Attributes:
        partitionings: How the table's keys are partitioned.
        paired: True if entries are stored under pairs that start with the key.
        dropped: The last position that has expired; ``None`` if none has.
    """

    partitionings: tuple[copartition.Partitioning, ...]
    paired: bool
    dropped: int | None


class TableDivision:
    """Divides the tables of agents.

    Raises:
        OptionError: When the keys of a table are partitioned in several ways, or its partitions
            store it in several ways.
    """

    def __init__(self, manifests: Sequence[Manifest]) -> None:
        tables = [read_tables(stored_tables) for stored_tables in manifests]
        specs = {
            n: TableSpec.from_manifest(n, part)
            for stored_tables in tables
            for n, part in stored_tables.items()
        }
        partitionings = {
            name: _collect_partitionings(
                [stored_tables[name] for stored_tables in tables if name in stored_tables]
            )
            for name in specs
        }
        for name, recorded in partitionings.items():
            _check_divisible(
                specs[name],
                recorded,
                [stored_tables[name] for stored_tables in tables if name in stored_tables],
            )
        self._blobs: dict[int, _Journal] = {}
        rules = Rules(specs, {})
        for number, stored_tables in enumerate(tables):
            part = Partition(rules, number)
            for name, stored in stored_tables.items():
                shard = part.shards[name]
                shard.begin(None, stored)
                dropped = shard.last_dropped()
                for journal, runs in stored["runs"].items():
                    kind = _Journal(tuple(partitionings[name]), shard.paired, dropped.get(journal))
                    self._blobs |= dict.fromkeys((n for run in runs for n in run.blobs), kind)

    def divide(self, blob: int, rows: pl.DataFrame, shards: int) -> Mapping[int, pl.DataFrame]:
        partitionings, paired, dropped = self._blobs[blob]
        if dropped is not None:
            # The watermark of another partition may be lower.
            rows = rows.filter(pl.col(POSITION_COLUMN) > dropped)
        keys = [key[0] for key in read_keys(rows)] if paired else read_keys(rows)
        owner = np.array(
            copartition.assign_partitions(
                [copartition.derive_partition_key(key, partitionings) for key in keys], shards
            )
        )
        return {n: rows.filter(owner == n) for n in np.unique(owner).tolist()}

    def extra(self, manifests: Sequence[Manifest]) -> dict[str, Any]:
        extras = [one.extra for one in manifests]
        names = dict.fromkeys(name for one in extras for name in one["tables"])
        return {
            "version": f"{secrets.randbits(62):x}",
            "batch": max(one["batch"] for one in extras),
            "marks": _merge_clocks(one["marks"] for one in extras),
            "moved": _merge_clocks(one["moved"] for one in extras),
            "silent_since": max(one.get("silent_since", MIN_POSITION) for one in extras),
            "zones": {topic: zone for one in extras for topic, zone in one["zones"].items()},
            "tables": {
                name: _merge_entries(
                    [one["tables"][name] for one in extras if name in one["tables"]]
                )
                for name in names
            },
        }


def _merge_clocks(by_clock: Iterable[Mapping[str, int]]) -> dict[str, int]:
    merged: dict[str, int] = {}
    for times in by_clock:
        for clock, time in times.items():
            merged[clock] = max(time, merged.get(clock, time))
    return merged


def _merge_entries(parts: Sequence[ManifestEntry]) -> dict[str, Any]:
    """Merge the manifest entries of a table; its slowest written partition sets the watermark."""
    wrote = [part for part in parts if part["feeds"]] or list(parts)
    latest = [part["latest"] for part in parts if part["latest"] is not None]
    closed = [part["closed"] for part in wrote]
    return {
        **wrote[0],
        "watermark": min(part["watermark"] for part in wrote),
        "closed": None if None in closed else min(closed),
        "latest": max(latest, default=None),
        "feeds": list(dict.fromkeys(feed for part in parts for feed in part["feeds"])),
        "lies": _collect_partitionings(parts),
    }


def _collect_partitionings(parts: Sequence[ManifestEntry]) -> list[copartition.Partitioning]:
    return list(dict.fromkeys((count, way) for part in parts for count, way in part["lies"]))


def _check_divisible(
    spec: TableSpec,
    partitionings: Sequence[copartition.Partitioning],
    parts: Sequence[ManifestEntry],
) -> None:
    """Refuse a table whose keys may belong to several partitions, or whose form differs."""
    counts = [count for count, _ in partitionings]
    # A key that isn't a tuple and is its own partition key isn't recorded.
    has_runs_elsewhere = any(runs for part in parts[1:] for runs in part["runs"].values())
    if len(set(counts)) < len(counts) or (
        (0, copartition.NOTHING) in partitionings and has_runs_elsewhere
    ):
        hint = "partition its streams in one way, with source(key=...) or stream.group_by(...)"
        problem = "is written by streams that are partitioned in several ways"
        raise OptionError("CHECKPOINT", spec.name, problem, hint)
    if len({part["span"] for part in parts}) > 1:
        hint = "start it anew with as many shards"
        raise OptionError("CHECKPOINT", spec.name, "is stored in several ways", hint)
    # Windows share panes: panes of an expired window may still be stored for later ones.
    if spec.shares_pane_sums and len({part["closed"] for part in parts if part["feeds"]}) > 1:
        hint = "let the query run until all of its topics have gone on, and stop it"
        raise OptionError("CHECKPOINT", spec.name, "hasn't come equally far in its shards", hint)
