"""How the state of agents' tables is divided among other partitions; see ``Division``.

An entry goes where the agents' events with its key go. Where a table has noted one way in which its
keys lie, that follows from the key; where it has noted several, nobody can say.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from muntin.model.errors import OptionError
from muntin.state.manifest import Manifest
from muntin.tables import copartition
from muntin.tables.cells import PLACE, keys_of
from muntin.tables.partition import Partition, Rules, tables_of
from muntin.tables.spec import TableSpec

Stored = Mapping[str, Any]
"""A table's part of a manifest."""


class _Journal(NamedTuple):
    """What a run is of.

    Attributes:
        partitionings: How the table's keys lie.
        paired: Whether an entry is under a pair that its key is the first of.
        dropped: The greatest place that has expired; ``None`` where none has.
    """

    partitionings: tuple[copartition.Partitioning, ...]
    paired: bool
    dropped: int | None


class TableDivision:
    """Tables of agents.

    Raises:
        OptionError: When a table's keys lie in several ways, or were stored in several.
    """

    def __init__(self, manifests: Sequence[Manifest]) -> None:
        tables = [tables_of(one) for one in manifests]
        specs = {n: TableSpec.read(n, part) for one in tables for n, part in one.items()}
        partitionings = {
            name: _partitionings([one[name] for one in tables if name in one]) for name in specs
        }
        for name, known in partitionings.items():
            _check(specs[name], known, [one[name] for one in tables if name in one])
        self._blobs: dict[int, _Journal] = {}
        rules = Rules(specs, {}, None)
        for number, one in enumerate(tables):
            part = Partition(rules, number)
            for name, stored in one.items():
                shard = part.shards[name]
                shard.begin(None, stored)
                dropped = shard.dropped()
                for journal, runs in stored["runs"].items():
                    kind = _Journal(tuple(partitionings[name]), shard.paired, dropped.get(journal))
                    self._blobs |= dict.fromkeys((n for run in runs for n in run.blobs), kind)

    def divided(self, blob: int, rows: pl.DataFrame, shards: int) -> Mapping[int, pl.DataFrame]:
        partitionings, paired, dropped = self._blobs[blob]
        if dropped is not None:
            # Another partition may not have come as far.
            rows = rows.filter(pl.col(PLACE) > dropped)
        keys = [key[0] for key in keys_of(rows)] if paired else keys_of(rows)
        owner = np.array(
            copartition.partitions_of([copartition.own(key, partitionings) for key in keys], shards)
        )
        return {n: rows.filter(owner == n) for n in np.unique(owner).tolist()}

    def extra(self, manifests: Sequence[Manifest]) -> dict[str, Any]:
        kept = [one.extra for one in manifests]
        names = dict.fromkeys(name for one in kept for name in one["tables"])
        return {
            "version": f"{secrets.randbits(62):x}",
            "batch": max(one["batch"] for one in kept),
            "marks": _newest(one["marks"] for one in kept),
            "moved": _newest(one["moved"] for one in kept),
            "zones": {topic: zone for one in kept for topic, zone in one["zones"].items()},
            "tables": {
                name: _together([one["tables"][name] for one in kept if name in one["tables"]])
                for name in names
            },
        }


def _newest(by_clock: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The greatest time of each clock."""
    found: dict[str, int] = {}
    for times in by_clock:
        for clock, time in times.items():
            found[clock] = max(time, found.get(clock, time))
    return found


def _together(parts: Sequence[Stored]) -> dict[str, Any]:
    """What partitions know of a table: as far as the slowest of those that wrote it has come."""
    wrote = [part for part in parts if part["feeds"]] or list(parts)
    latest = [part["latest"] for part in parts if part["latest"] is not None]
    closed = [part["closed"] for part in wrote]
    return {
        **wrote[0],
        "watermark": min(part["watermark"] for part in wrote),
        "closed": None if None in closed else min(closed),
        "latest": max(latest, default=None),
        "feeds": list(dict.fromkeys(feed for part in parts for feed in part["feeds"])),
        "lies": _partitionings(parts),
    }


def _partitionings(parts: Sequence[Stored]) -> list[copartition.Partitioning]:
    return list(dict.fromkeys((count, way) for part in parts for count, way in part["lies"]))


def _check(
    spec: TableSpec, partitionings: Sequence[copartition.Partitioning], parts: Sequence[Stored]
) -> None:
    """Refuse a table whose keys may belong to several partitions, or that isn't one everywhere."""
    counts = [count for count, _ in partitionings]
    # That keys which are no tuples lie by the whole of them isn't noted.
    elsewhere = any(runs for part in parts[1:] for runs in part["runs"].values())
    if len(set(counts)) < len(counts) or ((0, copartition.NOTHING) in partitionings and elsewhere):
        hint = "partition its streams in one way, with source(key=...) or stream.group_by(...)"
        problem = "is written by streams that are partitioned in several ways"
        raise OptionError("CHECKPOINT", spec.name, problem, hint)
    if len({part["span"] for part in parts}) > 1:
        hint = "start it anew with as many buckets"
        raise OptionError("CHECKPOINT", spec.name, "is stored in several ways", hint)
    # Of windows that share panes, a part of one that has expired may be there for the others.
    if spec.summed and len({part["closed"] for part in parts if part["feeds"]}) > 1:
        hint = "let the query run until all of its topics have gone on, and stop it"
        raise OptionError("CHECKPOINT", spec.name, "hasn't come equally far in its buckets", hint)
