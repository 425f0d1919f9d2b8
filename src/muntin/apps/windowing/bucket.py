"""A step of one bucket: a batch is inserted, rows are deleted, and figures are emitted.

Deletion follows from the batch's clock and its rows alone, so a batch that is repeated deletes the
same rows again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from muntin.apps.windowing import ledger
from muntin.apps.windowing.division import DIVIDED, taken_over
from muntin.apps.windowing.history import COUNT, SUM, History
from muntin.apps.windowing.ledger import Place
from muntin.apps.windowing.options import Options
from muntin.apps.windowing.packing import Packed, cut
from muntin.apps.windowing.tuples import SCHEMA, TIME
from muntin.model.counts import summed
from muntin.model.errors import SpecChangedError
from muntin.state.blobs import Blobs
from muntin.state.manifest import Manifest, Run, load
from muntin.state.runs import FrameCache, Frames

# A turn of the deleter ends after so many chunks, or after twice what came in with the batch:
# a batch stays bounded, and what waits gets less.
_CHUNKS_A_TURN = 10_000
# Times of inserted rows are emitted in steps of so many milliseconds, the newest so many of them.
STEP, _STEPS = 10, 1000
_DAY_AHEAD = 86_400_000


@dataclass
class TableProgress:
    """What a bucket emits after a batch. Times are milliseconds since the epoch.

    Attributes:
        bucket: Its number.
        clock: The batch's clock; ``None`` while the bucket knows none.
        inserted: How many rows the batch brought.
        deleted: How many it took.
        chunks: In how many deletions.
        rows: How many rows there are.
        bytes: What they take.
        backlog: How many of them are too old or too many, and wait to be deleted.
        oldest: The time of the oldest.
        greatest: The greatest value.
        averages: Of each span the sum and the number of its rows.
        times: How many of the batch's rows have which time, in steps of ``STEP``.
        rejected: Rows that were put aside, by reason; reported by one bucket for all.
        totals: All rows ever inserted and deleted.
    """

    bucket: int
    clock: int | None
    inserted: int
    deleted: int
    chunks: int
    rows: int
    bytes: int
    backlog: int
    oldest: int | None
    greatest: int | None
    averages: list[tuple[int, int]] = field(default_factory=list)
    times: list[tuple[int, int]] = field(default_factory=list)
    rejected: dict[str, int] = field(default_factory=dict)
    totals: tuple[int, int] = (0, 0)


class Bucket:
    """One bucket, opened over what its store held at the last commit.

    Raises:
        SpecChangedError: When the store was written with other buckets.
        StateCorruptedError: When a blob can't be read.
    """

    def __init__(self, options: Options, number: int, blobs: Blobs, cache: FrameCache) -> None:
        self.options = options
        self.number = number
        self._blobs = blobs
        self._frames = Frames(blobs, cache)
        stored = load(blobs, "windowing")
        if stored is None:
            stored = Manifest("windowing")
        else:
            _same(stored.spec, options)
        extra = stored.extra
        self.history = History(blobs, cache, stored, stored.spec.get("width", options.width))
        self.clock: int | None = extra.get("clock")
        self._latest: int | None = extra.get("latest")
        self._wakes: int | None = extra.get("wakes")
        counts = stored.counts
        self._totals = counts.get("inserted", 0), counts.get("deleted", 0)
        self._ledger = stored.tables.get("ledger", [])
        self._divided: list[Any] | None = extra.get(DIVIDED)
        self.wall = stored.wall or 0

    def step(self, packed: Sequence[Packed], clock: int) -> TableProgress:
        """Insert, delete, and report.

        Args:
            packed: What the tasks sent, in their order.
            clock: The batch's clock, milliseconds.
        """
        if self._divided is not None:
            self._take_over(self._divided)
        self._tick(packed, clock)
        self.wall = max(self.wall, clock)
        frames = [p.parts[self.number] for p in packed if self.number in p.parts]
        rows = pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)
        place = self._limit([p.ledger for p in packed if p.ledger is not None])
        dead = self.history.insert(rows)
        deleted, chunks = self._delete(place, len(rows))
        self._totals = (self._totals[0] + len(rows), self._totals[1] + dead + deleted)
        self._save()
        rejected = summed(one.rejected for one in packed)
        return self._progress(rows, dead + deleted, chunks, place, rejected)

    def _take_over(self, marks: Sequence[Any]) -> None:
        """Make the state of tuples that were in other buckets."""
        rows, begin = taken_over(self.history.stored(), marks)
        parts = cut(rows, self.options.buckets)
        self.history.begin(begin)
        self.history.insert(parts.get(self.number, rows.clear()))
        if self.options.maxrows:
            whole = ledger.added(ledger.counted(parts), [], None)
            self._ledger = [self._written(whole)] if len(whole) else []
        self._divided = None

    def _tick(self, packed: Sequence[Packed], clock: int) -> None:
        """Move the clock: by the wall, or by the greatest time seen, a day ahead at most."""
        if self.options.clock == "wall":
            now: int | None = clock
        else:
            seen = [p.latest for p in packed if p.latest is not None]
            known = [] if self._latest is None else [self._latest]
            now = max([*known, *(min(time, clock + _DAY_AHEAD) for time in seen)], default=None)
            self._latest = now
        if now is not None:
            self.clock = now if self.clock is None else max(self.clock, now)

    def _limit(self, news: list[pl.DataFrame]) -> Place | None:
        """Up to where rows are too old, or too many."""
        history, clock = self.options.history, self.clock
        aged: Place | None = None
        if history is not None and clock is not None:
            aged = (clock - history + 1, 0)
        if not self.options.maxrows:
            return aged
        known = pl.DataFrame(schema=ledger.SCHEMA)
        for run in self._ledger:
            known = self._frames.read(run.number)
            self._frames.remove(run.number)
        whole = ledger.added(known, news, None if aged is None else aged[0])
        surplus = ledger.boundary(whole, self.options.maxrows, self.number)
        if surplus is not None:
            whole = whole.filter(pl.col(TIME) >= surplus[0] - 1)
        self._ledger = [self._written(whole)] if len(whole) else []
        return max((place for place in (aged, surplus) if place is not None), default=None)

    def _written(self, counted: pl.DataFrame) -> Run:
        times = counted[TIME]
        ends = int(times.min()), int(times.max())  # type: ignore[arg-type]
        return Run(self._frames.write(counted), len(counted), *ends)

    def _delete(self, place: Place | None, inserted: int) -> tuple[int, int]:
        """Delete in chunks; returns how many rows went, and in how many chunks."""
        chunk = self.options.deletechunksize
        if place is None:
            return 0, 0
        if self.options.inline:
            # Each insert may take one chunk with it; where nothing is inserted, nothing goes.
            return self._nibble(place, inserted * chunk)
        if self._wakes is not None and self.wall < self._wakes:
            return 0, 0
        done = self._nibble(place, max(_CHUNKS_A_TURN * chunk, 2 * inserted))
        caught_up = not self.history.before(place)
        self._wakes = self.wall + self.options.deleteyieldtime if caught_up else None
        return done

    def _nibble(self, place: Place, most: int) -> tuple[int, int]:
        """Delete the oldest rows before a place, whole chunks of them and one that is less."""
        waiting = self.history.before(place)
        count = min(waiting, most)
        if count <= 0:
            return 0, 0
        end = place if count == waiting else self.history.place_of(count)
        return self.history.delete_before(end), -(-count // self.options.deletechunksize)

    def _progress(
        self,
        rows: pl.DataFrame,
        deleted: int,
        chunks: int,
        place: Place | None,
        rejected: dict[str, int],
    ) -> TableProgress:
        history = self.history
        return TableProgress(
            self.number,
            self.clock,
            len(rows),
            deleted,
            chunks,
            history.count,
            history.bytes,
            0 if place is None else history.before(place),
            history.oldest,
            history.greatest,
            self._averages(),
            _times(rows),
            rejected,
            self._totals,
        )

    def _averages(self) -> list[tuple[int, int]]:
        """Of each span that ends now: the sum and the number of its rows; none is from later."""
        if self.clock is None:
            return [(0, 0) for _ in self.options.spans]
        cells = self.history.cells(self.clock - max(self.options.spans) + 1, self.clock)
        found = []
        for span in self.options.spans:
            inside = cells.filter(pl.col(TIME) > self.clock - span)
            found.append((int(inside[SUM].sum()), int(inside[COUNT].sum())))
        return found

    def _save(self) -> None:
        spec = {
            "buckets": self.options.buckets,
            "width": self.history.width,
            "counted": bool(self.options.maxrows),
        }
        extra = {
            "clock": self.clock,
            "latest": self._latest,
            "wakes": self._wakes,
            **self.history.extra,
        }
        tables = {**self.history.tables, "ledger": self._ledger}
        inserted, deleted = self._totals
        counts = {"inserted": inserted, "deleted": deleted}
        manifest = Manifest("windowing", spec, None, self.wall, counts, tables=tables, extra=extra)
        self._blobs.save(manifest.dumps())


def _same(emitted: dict[str, Any], options: Options) -> None:
    if emitted["buckets"] != options.buckets:
        raise SpecChangedError(
            f"the checkpoint has {emitted['buckets']} buckets, the options say {options.buckets}: "
            f"give buckets={emitted['buckets']}, or another checkpoint"
        )
    if options.maxrows and not emitted["counted"]:
        raise SpecChangedError(
            "the checkpoint's run had no maxrows, so what it kept wasn't counted: "
            "give maxrows=0, or another checkpoint"
        )


def _times(rows: pl.DataFrame) -> list[tuple[int, int]]:
    if not len(rows):
        return []
    step = (pl.col(TIME) // STEP).alias("step")
    counted = rows.group_by(step).len().sort("step").tail(_STEPS)
    return [(number * STEP, n) for number, n in counted.iter_rows()]
