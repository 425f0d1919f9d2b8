"""A step of one shard: inserts a batch, deletes rows, and reports progress.

Deletion depends only on the batch's clock and its rows, so a batch that is repeated deletes the
same rows again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import polars as pl

from muntin.apps.windowing import ledger
from muntin.apps.windowing.division import DIVIDED, collect_tuples
from muntin.apps.windowing.history import COUNT, SUM, History
from muntin.apps.windowing.ledger import RowPosition
from muntin.apps.windowing.options import Options
from muntin.apps.windowing.packing import LEDGER, ROWS, split_tuples
from muntin.apps.windowing.tuples import TIME, TUPLE_SCHEMA
from muntin.engine.operator import Part, StepOutput
from muntin.model.axis import MILLISECOND
from muntin.model.counts import add_counts
from muntin.model.errors import SpecChangedError
from muntin.model.facts import STORED_SHARDS
from muntin.state.blobs import Blobs
from muntin.state.manifest import Manifest, Run, load_manifest
from muntin.state.runs import FrameCache, Frames

# A step deletes at most this many chunks, or twice as many rows as the batch inserted: the step
# stays bounded, and the backlog shrinks.
_MAX_CHUNKS = 10_000
# Times of inserted rows are reported in steps of STEP milliseconds, the newest _STEPS of them.
STEP, _STEPS = 10, 1000
_DAY_AHEAD = 86_400_000

_P = TypeVar("_P", int, RowPosition)


@dataclass
class TableProgress:
    """The progress of a shard after a batch. Times are milliseconds since the epoch.

    Attributes:
        shard: The shard's number.
        clock: The batch's clock; ``None`` before the first.
        inserted: Number of rows the batch inserted.
        deleted: Number of rows it deleted.
        chunks: Number of deletions.
        rows: Number of rows in the shard.
        bytes: The size of the rows.
        backlog: Number of rows beyond the limits that wait to be deleted.
        oldest: The time of the oldest row.
        greatest: The greatest value.
        averages: The sum and the number of rows of each span.
        times: Number of the batch's rows by time, in steps of ``STEP``.
        rejected: Number of rejected rows by reason; reported by one shard for all.
        totals: Number of rows ever inserted and ever deleted.
        answers: For each call from outside: its name, the number of rows it deleted here, and the
            number of matching rows that are left.
    """

    shard: int
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


class TableShard:
    """One shard, opened with the state of the last commit.

    Raises:
        SpecChangedError: When the store was written with other shards.
        StateCorruptedError: When a blob can't be read.
    """

    def __init__(self, options: Options, number: int, blobs: Blobs, cache: FrameCache) -> None:
        self.options = options
        self.number = number
        self._blobs = blobs
        self._frames = Frames(blobs, cache)
        stored = load_manifest(blobs, "windowing")
        if stored is None:
            stored = Manifest("windowing")
        else:
            _check_same_spec(stored.spec, options)
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
        """Run the step (``Step``) and return its progress."""
        clock = None if wall is None else wall // MILLISECOND
        return StepOutput({}, asdict(self.step(parts, clock)))

    def step(self, parts: Sequence[Part], clock: int | None) -> TableProgress:
        """Insert, delete, and report.

        Args:
            parts: The parts from the tasks, in order.
            clock: The batch's clock, milliseconds; ``None`` if the parts may have it.
        """
        if self._divided is not None:
            self._rebuild(self._divided)
        headers = [part.header for part in parts]
        walls = [clock, *(header.get("wall") for header in headers)]
        clock_millis = _find_greatest(*walls)
        wall = self.wall if clock_millis is None else clock_millis
        self.wall = max(self.wall, wall)
        self._advance_clock([header.get("latest") for header in headers], wall)
        rows = pl.concat([pl.DataFrame(schema=TUPLE_SCHEMA), *_select_frames(parts, ROWS)])
        limit = self._find_limit(_select_frames(parts, LEDGER))
        deleted_on_arrival = self.history.insert(rows)
        if self.options.shardrows:
            limit = _find_greatest(limit, self._find_surplus(self.options.shardrows))
        deleted = [self._delete(limit, len(rows))]
        calls = [call for header in headers for call in header.get("calls", ())]
        answers = [self._answer_call(call) for call in sorted(calls, key=lambda call: call["id"])]
        deleted += [count for _, count, _ in answers]
        self._totals = (
            self._totals[0] + len(rows),
            self._totals[1] + deleted_on_arrival + sum(deleted),
        )
        self._save()
        history = self.history
        return TableProgress(
            shard=self.number,
            clock=self.clock,
            inserted=len(rows),
            deleted=deleted_on_arrival + sum(deleted),
            chunks=sum(-(-count // self.options.deletechunksize) for count in deleted),
            rows=history.count,
            bytes=history.bytes,
            backlog=0 if limit is None else history.count_before(limit),
            oldest=history.oldest,
            greatest=history.greatest,
            averages=self._compute_averages(),
            times=_count_times(rows),
            rejected=add_counts(header.get("rejected", {}) for header in headers),
            totals=self._totals,
            answers=answers,
        )

    def _rebuild(self, marks: Sequence[Any]) -> None:
        """Rebuild the state from tuples that were in other shards."""
        rows = collect_tuples(self.history.read_stored(), marks)
        parts = split_tuples(rows, self.options.shards)
        self.history.clear()
        self.history.insert(parts.get(self.number, rows.clear()))
        if self.options.maxrows:
            whole = ledger.merge_counts(ledger.count_tuples(parts), [], None)
            self._ledger = [self._write_ledger(whole)] if len(whole) else []
        self._divided = None

    def _advance_clock(self, latest: Sequence[int | None], wall: int) -> None:
        """Advance the clock: by the wall clock, or by the greatest time seen."""
        now: int | None = wall
        if self.options.clock == "event":
            seen = [min(time, wall + _DAY_AHEAD) for time in latest if time is not None]
            now = self._latest = _find_greatest(self._latest, *seen)
        self.clock = _find_greatest(self.clock, now)

    def _find_limit(self, news: list[pl.DataFrame]) -> RowPosition | None:
        """Return the position up to which rows are too old, or too many in the whole table."""
        history, clock = self.options.history, self.clock
        age_limit = None if history is None or clock is None else (clock - history + 1, 0)
        if not self.options.maxrows:
            return age_limit
        counts = pl.DataFrame(schema=ledger.LEDGER_SCHEMA)
        for run in self._ledger:
            counts = self._frames.read(run.number)
            self._frames.remove(run.number)
        merged = ledger.merge_counts(counts, news, None if age_limit is None else age_limit[0])
        surplus = ledger.find_boundary(merged, self.options.maxrows, self.number)
        if surplus is not None:
            merged = merged.filter(pl.col(TIME) >= surplus[0] - 1)
        self._ledger = [self._write_ledger(merged)] if len(merged) else []
        return _find_greatest(age_limit, surplus)

    def _find_surplus(self, most: int) -> RowPosition | None:
        """Return the position up to which rows aren't among the newest ``most`` of this shard."""
        surplus = self.history.count - most
        return self.history.find_position(surplus) if surplus > 0 else None

    def _write_ledger(self, counted: pl.DataFrame) -> Run:
        times = counted[TIME]
        ends = int(times.min()), int(times.max())  # type: ignore[arg-type]
        return Run(self._frames.write(counted), len(counted), *ends)

    def _delete(self, limit: RowPosition | None, inserted: int) -> int:
        """Delete rows beyond the limits in chunks; return the number of deleted rows."""
        chunk = self.options.deletechunksize
        if limit is None:
            return 0
        if self.options.inline:
            # Each insert may delete one chunk; without inserts, nothing is deleted.
            return self._delete_oldest(limit, inserted * chunk)
        if self._wakes is not None and self.wall < self._wakes:
            return 0
        deleted = self._delete_oldest(limit, max(_MAX_CHUNKS * chunk, 2 * inserted))
        caught_up = not self.history.count_before(limit)
        self._wakes = self.wall + self.options.deleteyieldtime if caught_up else None
        return deleted

    def _answer_call(self, call: Mapping[str, Any]) -> tuple[str, int, int]:
        """Execute a call from outside; see ``TableProgress.answers``."""
        before, shardrows, most = call["before"], call["shardrows"], call["most"]
        age_limit = None if before is None else (before, 0)
        limit = _find_greatest(
            age_limit, None if shardrows is None else self._find_surplus(shardrows)
        )
        if limit is None or not self.history.count:
            return call["id"], 0, 0
        # Otherwise rows that arrive later would be deleted as well.
        limit = min(limit, self.history.end)
        deleted = self._delete_oldest(limit, self.history.count if most is None else most)
        return call["id"], deleted, self.history.count_before(limit)

    def _delete_oldest(self, limit: RowPosition, most: int) -> int:
        """Delete at most ``most`` of the oldest rows before a position; return their number."""
        waiting = self.history.count_before(limit)
        count = min(waiting, most)
        if count <= 0:
            return 0
        return self.history.delete_before(
            limit if count == waiting else self.history.find_position(count)
        )

    def _compute_averages(self) -> list[tuple[int, int]]:
        """Return the sum and the number of rows of each span that ends now."""
        if self.clock is None:
            return [(0, 0) for _ in self.options.spans]
        cells = self.history.read_cells(self.clock - max(self.options.spans) + 1, self.clock)
        averages = []
        for span in self.options.spans:
            inside = cells.filter(pl.col(TIME) > self.clock - span)
            averages.append((int(inside[SUM].sum()), int(inside[COUNT].sum())))
        return averages

    def _save(self) -> None:
        spec = {
            STORED_SHARDS: self.options.shards,
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


def _select_frames(parts: Sequence[Part], name: str) -> list[pl.DataFrame]:
    """Return the frames with a name."""
    return [part.frames[name] for part in parts if name in part.frames]


def _find_greatest(*candidates: _P | None) -> _P | None:
    """Return the greatest of times or positions, ignoring ``None``."""
    return max((candidate for candidate in candidates if candidate is not None), default=None)


def _check_same_spec(emitted: dict[str, Any], options: Options) -> None:
    shards = emitted[STORED_SHARDS]
    if shards != options.shards:
        raise SpecChangedError(
            f"the checkpoint has {shards} shards, the options say {options.shards}: "
            f"give shards={shards}, or another checkpoint"
        )
    if options.maxrows and not emitted["counted"]:
        raise SpecChangedError(
            "the checkpoint's run had no maxrows, so what it kept wasn't counted: "
            "give maxrows=0, or another checkpoint"
        )


def _count_times(rows: pl.DataFrame) -> list[tuple[int, int]]:
    if not len(rows):
        return []
    step = (pl.col(TIME) // STEP).alias("step")
    counted = rows.group_by(step).len().sort("step").tail(_STEPS)
    return [(number * STEP, n) for number, n in counted.iter_rows()]
