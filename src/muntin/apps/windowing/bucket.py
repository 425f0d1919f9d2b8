"""A step of one bucket: a batch is inserted, rows are deleted, and progress is emitted.

Deletion follows from the batch's clock and its rows alone, so a batch that is repeated deletes the
same rows again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import polars as pl

from muntin.apps.windowing import ledger
from muntin.apps.windowing.division import DIVIDED, taken_over
from muntin.apps.windowing.history import COUNT, SUM, History
from muntin.apps.windowing.ledger import Place
from muntin.apps.windowing.options import Options
from muntin.apps.windowing.packing import LEDGER, ROWS, cut
from muntin.apps.windowing.tuples import SCHEMA, TIME
from muntin.engine.operator import Part, StepOutput
from muntin.model.axis import MILLISECOND
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

_P = TypeVar("_P", int, Place)


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
        answers: Of each call from outside: its name, how many rows it deleted here, and how many of
            those that it named are left.
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
    answers: list[tuple[str, int, int]] = field(default_factory=list)


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

    def run(self, parts: Sequence[Part], wall: int | None, *, final: bool) -> StepOutput:
        """See ``Step``."""
        clock = None if wall is None else wall // MILLISECOND
        return StepOutput({}, asdict(self.step(parts, clock)))

    def step(self, parts: Sequence[Part], clock: int | None) -> TableProgress:
        """Insert, delete, and report.

        Args:
            parts: What the tasks sent, in their order.
            clock: The batch's clock, milliseconds; ``None`` where the tasks may know it.
        """
        if self._divided is not None:
            self._take_over(self._divided)
        headers = [part.header for part in parts]
        walls = [clock, *(header.get("wall") for header in headers)]
        known = _greatest(*walls)
        wall = self.wall if known is None else known
        self.wall = max(self.wall, wall)
        self._tick([header.get("latest") for header in headers], wall)
        rows = pl.concat([pl.DataFrame(schema=SCHEMA), *_named(parts, ROWS)])
        limit = self._limit(_named(parts, LEDGER))
        dead = self.history.insert(rows)
        if self.options.bucketrows:
            limit = _greatest(limit, self._beyond(self.options.bucketrows))
        deleted = [self._delete(limit, len(rows))]
        calls = [call for header in headers for call in header.get("calls", ())]
        answers = [self._answer(call) for call in sorted(calls, key=lambda call: call["id"])]
        deleted += [count for _, count, _ in answers]
        self._totals = (self._totals[0] + len(rows), self._totals[1] + dead + sum(deleted))
        self._save()
        history = self.history
        return TableProgress(
            bucket=self.number,
            clock=self.clock,
            inserted=len(rows),
            deleted=dead + sum(deleted),
            chunks=sum(-(-count // self.options.deletechunksize) for count in deleted),
            rows=history.count,
            bytes=history.bytes,
            backlog=0 if limit is None else history.before(limit),
            oldest=history.oldest,
            greatest=history.greatest,
            averages=self._averages(),
            times=_times(rows),
            rejected=summed(header.get("rejected", {}) for header in headers),
            totals=self._totals,
            answers=answers,
        )

    def _take_over(self, marks: Sequence[Any]) -> None:
        """Make the state of tuples that were in other buckets."""
        rows = taken_over(self.history.stored(), marks)
        parts = cut(rows, self.options.buckets)
        self.history.clear()
        self.history.insert(parts.get(self.number, rows.clear()))
        if self.options.maxrows:
            whole = ledger.added(ledger.counted(parts), [], None)
            self._ledger = [self._written(whole)] if len(whole) else []
        self._divided = None

    def _tick(self, latest: Sequence[int | None], wall: int) -> None:
        """Move the clock: by the wall, or by the greatest time seen, a day ahead at most."""
        now: int | None = wall
        if self.options.clock == "event":
            seen = [min(time, wall + _DAY_AHEAD) for time in latest if time is not None]
            now = self._latest = _greatest(self._latest, *seen)
        self.clock = _greatest(self.clock, now)

    def _limit(self, news: list[pl.DataFrame]) -> Place | None:
        """Up to where rows are too old, or too many of the whole table."""
        history, clock = self.options.history, self.clock
        aged = None if history is None or clock is None else (clock - history + 1, 0)
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
        return _greatest(aged, surplus)

    def _beyond(self, most: int) -> Place | None:
        """Up to where rows aren't among the newest so many of this bucket."""
        surplus = self.history.count - most
        return self.history.place_of(surplus) if surplus > 0 else None

    def _written(self, counted: pl.DataFrame) -> Run:
        times = counted[TIME]
        ends = int(times.min()), int(times.max())  # type: ignore[arg-type]
        return Run(self._frames.write(counted), len(counted), *ends)

    def _delete(self, limit: Place | None, inserted: int) -> int:
        """Delete in chunks what is beyond the limits; returns how many rows went."""
        chunk = self.options.deletechunksize
        if limit is None:
            return 0
        if self.options.inline:
            # Each insert may take one chunk with it; where nothing is inserted, nothing goes.
            return self._nibble(limit, inserted * chunk)
        if self._wakes is not None and self.wall < self._wakes:
            return 0
        deleted = self._nibble(limit, max(_CHUNKS_A_TURN * chunk, 2 * inserted))
        caught_up = not self.history.before(limit)
        self._wakes = self.wall + self.options.deleteyieldtime if caught_up else None
        return deleted

    def _answer(self, call: Mapping[str, Any]) -> tuple[str, int, int]:
        """Do what a call from outside asks for; see ``TableProgress.answers``."""
        before, kept, most = call["before"], call["bucketrows"], call["most"]
        aged = None if before is None else (before, 0)
        limit = _greatest(aged, None if kept is None else self._beyond(kept))
        if limit is None or not self.history.count:
            return call["id"], 0, 0
        # Else rows that are still to come would go as well.
        limit = min(limit, self.history.end)
        deleted = self._nibble(limit, self.history.count if most is None else most)
        return call["id"], deleted, self.history.before(limit)

    def _nibble(self, limit: Place, most: int) -> int:
        """Delete the oldest rows before a place, so many at most; returns how many went."""
        waiting = self.history.before(limit)
        count = min(waiting, most)
        if count <= 0:
            return 0
        return self.history.delete_before(
            limit if count == waiting else self.history.place_of(count)
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


def _named(parts: Sequence[Part], name: str) -> list[pl.DataFrame]:
    """The frames of a name."""
    return [part.frames[name] for part in parts if name in part.frames]


def _greatest(*known: _P | None) -> _P | None:
    """The greatest of moments or places, any of which may not be known."""
    return max((one for one in known if one is not None), default=None)


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
