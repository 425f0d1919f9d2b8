"""How the application's table is divided among other buckets; see ``Division``.

Only tuples say whose they are. Cells and the ledger count tuples of many, so they are counted anew
out of the tuples when a bucket is opened for its first batch. Until then a bucket has, beside its
own tuples, those of others that it has to count: all of them where a limit of rows is kept, else
those of the millisecond in which deletion stands, since how many of them are gone is known by the
order of their arrival alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from muntin.apps.windowing.packing import owners
from muntin.apps.windowing.tuples import SCHEMA, TIME
from muntin.model.errors import OptionError
from muntin.state.manifest import Manifest

DIVIDED = "divided"
# In which of the buckets before a tuple was.
_WAS = "was"


class WindowingDivision:
    """The tuples of the windowing application.

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
            blob: bucket
            for bucket, one in enumerate(manifests)
            for run in one.tables.get("rows", ())
            for blob in run.blobs
        }

    def divided(self, blob: int, rows: pl.DataFrame, shards: int) -> Mapping[int, pl.DataFrame]:
        if blob not in self._was:
            return {}
        bucket = self._was[blob]
        mark = self._marks[bucket]
        rows = rows.with_columns(pl.lit(bucket, dtype=pl.Int32).alias(_WAS))
        asked = pl.lit(self._counted)
        if mark is not None:
            rows = rows.filter(pl.col(TIME) >= mark[0])
            asked = asked | (pl.col(TIME) == mark[0])
        owner = pl.Series(owners(rows, shards))
        return {n: rows.filter(asked | (owner == n)) for n in range(shards)}

    def extra(self, manifests: Sequence[Manifest]) -> dict[str, Any]:
        kept = [one.extra for one in manifests]
        wakes = [one["wakes"] for one in kept]
        return {
            **{name: _greatest(one[name] for one in kept) for name in ("clock", "latest")},
            # Where one had more to delete, all go on at once.
            "wakes": None if None in wakes else max(wakes),
            DIVIDED: self._marks,
        }


DIVISIONS = {"windowing": WindowingDivision}
"""By the kind of query; see ``muntin.spark.rescale``."""


def taken_over(frames: Sequence[pl.DataFrame], marks: Sequence[Any]) -> pl.DataFrame:
    """The tuples that other buckets had left.

    Args:
        frames: What ``divided`` gave for this bucket.
        marks: Up to where each of them had deleted.

    Returns:
        All of them, those of other buckets too, by the bucket that they were in.
    """
    found = [pl.DataFrame(schema=SCHEMA)]
    for bucket, mark in enumerate(marks):
        mine = [frame.filter(pl.col(_WAS) == bucket).select(SCHEMA.names()) for frame in frames]
        rows = pl.concat([pl.DataFrame(schema=SCHEMA), *mine])
        if mark is not None:
            there = pl.col(TIME) == mark[0]
            rows = pl.concat([rows.filter(there)[mark[1] :], rows.filter(~there)])
        found.append(rows)
    return pl.concat(found)


def _greatest(places: Iterable[int | None]) -> int | None:
    return max((place for place in places if place is not None), default=None)
