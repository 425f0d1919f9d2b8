"""Divides the application's table among another number of shards; see ``Division``.

Only tuples have an owner. Cells and the ledger count tuples of many owners, so they are recomputed
from the tuples when a shard is opened for its first batch. Until then a shard also has
tuples of others that it needs to count: all of them if there is a limit of rows, otherwise
those of the millisecond in which deletion stands, because their order of arrival determines how
many of them are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from muntin.apps.windowing.packing import assign_to_shards
from muntin.apps.windowing.tuples import TIME, TUPLE_SCHEMA
from muntin.model.errors import OptionError
from muntin.state.manifest import Manifest

DIVIDED = "divided"
# The column with the previous shard of a tuple.
_WAS = "was"


class WindowingDivision:
    """Divides the tuples of the windowing application.

    Raises:
        OptionError: When they were divided already, and no batch has followed.
    """

    def __init__(self, manifests: Sequence[Manifest]) -> None:
        if any(DIVIDED in one.extra for one in manifests):
            hint = "let it run one batch, and stop it"
            raise OptionError("CHECKPOINT", "windowing", "has just been divided", hint)
        self._counted = bool(manifests[0].spec["counted"])
        self._marks = [one.extra.get("mark") for one in manifests]
        self._was = {
            blob: shard
            for shard, one in enumerate(manifests)
            for run in one.tables.get("rows", ())
            for blob in run.blobs
        }

    def divide(self, blob: int, rows: pl.DataFrame, shards: int) -> Mapping[int, pl.DataFrame]:
        if blob not in self._was:
            return {}
        shard = self._was[blob]
        mark = self._marks[shard]
        rows = rows.with_columns(pl.lit(shard, dtype=pl.Int32).alias(_WAS))
        is_wanted = pl.lit(self._counted)
        if mark is not None:
            rows = rows.filter(pl.col(TIME) >= mark[0])
            is_wanted = is_wanted | (pl.col(TIME) == mark[0])
        owner = pl.Series(assign_to_shards(rows, shards))
        return {n: rows.filter(is_wanted | (owner == n)) for n in range(shards)}

    def extra(self, manifests: Sequence[Manifest]) -> dict[str, Any]:
        extras = [one.extra for one in manifests]
        wakes = [one["wakes"] for one in extras]
        return {
            **{name: _find_greatest(one[name] for one in extras) for name in ("clock", "latest")},
            # If one shard has a backlog, all continue to delete at once.
            "wakes": None if None in wakes else max(wakes),
            DIVIDED: self._marks,
        }


DIVISIONS = {"windowing": WindowingDivision}
"""Divisions by kind of query; see ``muntin.spark.rescale``."""


def collect_tuples(frames: Sequence[pl.DataFrame], marks: Sequence[Any]) -> pl.DataFrame:
    """Return the remaining tuples of the previous shards.

    Args:
        frames: The frames that ``divide`` returned for this shard.
        marks: The positions up to which each previous shard had deleted.

    Returns:
        All tuples, including those of other shards, by their previous shard.
    """
    frames_by_shard = [pl.DataFrame(schema=TUPLE_SCHEMA)]
    for shard, mark in enumerate(marks):
        own_frames = [
            frame.filter(pl.col(_WAS) == shard).select(TUPLE_SCHEMA.names()) for frame in frames
        ]
        rows = pl.concat([pl.DataFrame(schema=TUPLE_SCHEMA), *own_frames])
        if mark is not None:
            is_at_mark = pl.col(TIME) == mark[0]
            rows = pl.concat([rows.filter(is_at_mark)[mark[1] :], rows.filter(~is_at_mark)])
        frames_by_shard.append(rows)
    return pl.concat(frames_by_shard)


def _find_greatest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
