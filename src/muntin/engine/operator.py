"""One shard of a windowed aggregation: takes what a batch came to, keeps it, tells what is due.

A shard owns some of the keys. It knows no Spark and no clock: whoever drives it says what time it
is, and commits the store after each step. A step is a function of the state and its input alone,
so a batch that is repeated from the same state tells the same again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.combine import Combined, Combiner
from muntin.engine.firing import Moment, due, may_be_due
from muntin.engine.overlap import compose, in_windows
from muntin.engine.panes import closed_before
from muntin.engine.results import overflows, results
from muntin.engine.runs import Blobs, FrameCache, Merge, Ranged, Runs, join_runs, ranged
from muntin.model.errors import StateCorruptedError
from muntin.model.spec import WindowSpec

FORMAT = 1
_SEGMENTS = 8
FIRED, LATE = "fired", "late"


@dataclass
class Told:
    """What a step tells.

    Attributes:
        results: Keys, ``window_start``, ``window_end`` (microseconds), aggregates, ``emission``,
            ``revision``; by window start, then key.
        rejected: The input columns and ``reason``.
        judged: The watermark that messages of this step were judged by.
        watermark: The watermark now.
        counts: Messages so far: ``seen``, ``counted``, ``filtered``, and each reason.
        pending: How many changed windows wait for their policy.
        rows: How many rows the state holds.
    """

    results: pl.DataFrame
    rejected: pl.DataFrame
    judged: int | None
    watermark: int | None
    counts: dict[str, int] = field(default_factory=dict)
    pending: int = 0
    rows: int = 0


class Shard:
    """The windows of some keys.

    Args:
        combiner: The query.
        blobs: The store, as the last commit left it.
        cache: Decoded blobs of this process.

    Raises:
        SpecChangedError: When the store was written by another spec.
        StateCorruptedError: When the manifest can't be read.
    """

    def __init__(self, combiner: Combiner, blobs: Blobs, cache: FrameCache) -> None:
        self.combiner = combiner
        self.spec: WindowSpec = combiner.spec
        self.keys = combiner.keys
        self.blobs = blobs
        stored = _read_manifest(blobs, self.spec)
        self.watermark: int | None = stored["watermark"]
        self.wall: int | None = stored["wall"]
        self.counts: dict[str, int] = stored["counts"]
        windows = self.spec.windows
        horizon = self.spec.lateness + self.spec.firing.retention
        panes = windows.panes_per_window + horizon // windows.slide * windows.panes_per_slide
        span = max(1, panes // _SEGMENTS)
        identity = [columns.WINDOW, *self.keys]
        by_key = self.spec.firing.early is not None or self.spec.firing.grace > 0

        def table(name: str, axis: str) -> Runs:
            merge: Merge = self.combiner.merge
            if name == "marks":
                merge = self._add_marks
            elif name != "cells":
                merge = self._merge_changes
            entries = stored["tables"].get(name, {})
            width = span if axis == columns.PANE else max(1, span // windows.panes_per_slide)
            # Only windows that speak before or after their time are asked for by key.
            asked = name in ("cells", "marks") and by_key
            return Runs(axis, width, blobs, cache, merge, entries, self.keys if asked else ())

        self._identity = identity
        self.cells = table("cells", columns.PANE)
        self.marks = table("marks", columns.WINDOW)
        self.early = table("early", columns.WINDOW)
        self.late = table("late", columns.WINDOW)

    def step(self, combined: Sequence[Combined], wall: int, *, final: bool = False) -> Told:
        """Take a batch in, and tell what is due.

        Args:
            combined: What the batch came to in this shard, judged by ``self.watermark``.
            wall: The wall clock, microseconds; the messages' own clock goes before it.
            final: Whether the input has ended, so that every window speaks now.

        Returns:
            What is to be told; the store holds the new state, not yet committed.
        """
        judged = self.watermark
        clocks = [c.clock for c in combined if c.clock is not None]
        if clocks:
            wall = max([*clocks, *([] if self.wall is None else [self.wall])])
        latest = max((c.latest for c in combined if c.latest is not None), default=None)
        self._advance(latest)
        firing, windows = self.spec.firing, self.spec.windows
        moment = Moment.of(
            windows, firing.grace, (judged, self.watermark), (self.wall, wall), final
        )
        fresh = [ranged(c.cells, columns.PANE) for c in combined if len(c.cells)]
        changes = self._changes(fresh, moment)
        told = [self._full(fresh, changes["early"], moment)]
        marks = [changes["late"].select(*self._identity, pl.lit(0).alias(FIRED), late="n")]
        for emission in ("late", "early"):
            spoken = self._changed(emission, changes[emission], fresh, moment, marks)
            told.append(spoken)
        frame = pl.concat([t for t in told if len(t)] or told[:1], how="diagonal")
        for part in combined:
            for name, n in part.counts.items():
                self.counts[name] = self.counts.get(name, 0) + n
        overflowed = overflows(frame, self.combiner)
        self._keep(fresh, marks, moment, final)
        self.wall = wall
        self._save()
        return Told(
            results(frame, self.combiner),
            pl.concat([*(c.rejected for c in combined), overflowed], how="diagonal"),
            judged,
            self.watermark,
            dict(self.counts),
            self.early.rows + self.late.rows,
            self.cells.rows + self.marks.rows,
        )

    def _advance(self, latest: int | None) -> None:
        if latest is not None:
            reached = latest - self.spec.lateness
            self.watermark = reached if self.watermark is None else max(self.watermark, reached)

    def _full(self, fresh: list[Ranged], changes: pl.DataFrame, moment: Moment) -> pl.DataFrame:
        """The windows whose end the watermark has just passed."""
        composed = self._compose(fresh, moment.before + 1, moment.after)
        if self.spec.firing.early is not None and len(composed):
            low, high = _bounds(composed, columns.WINDOW)
            if not self.spec.firing.accumulate:
                waiting = self._merge_changes([self._read(self.early, low, high), changes])
                composed = self._only_new(composed, waiting)
            composed = self._with_marks(composed, low, high)
        else:
            composed = composed.with_columns(pl.lit(0, dtype=pl.Int64).alias(FIRED))
        return composed.with_columns(
            pl.lit("full").alias(columns.EMISSION), pl.col(FIRED).alias(columns.REVISION)
        )

    def _changes(self, fresh: list[Ranged], moment: Moment) -> dict[str, pl.DataFrame]:
        """The windows that this batch changed, early and late, each once with its new messages."""
        firing = self.spec.firing
        late = self._touched(fresh, moment.closed_before + 1, moment.before)
        if firing.early is None:
            early = late.clear()
        else:
            # In delta mode a window's full firing tells only what is new, so its changes count.
            since = moment.after if firing.accumulate else moment.before
            early = self._touched(fresh, since + 1, None)
        return {"late": late, "early": early}

    def _touched(self, fresh: list[Ranged], low: int, high: int | None) -> pl.DataFrame:
        frames = [frame for frame, _, _ in fresh] or [self._no_cells()]
        if self.spec.firing.accumulate:
            frames = [f.select(*self.keys, columns.PANE, columns.MESSAGES) for f in frames]
        if high is not None and low > high:
            touched = in_windows(frames[0].clear(), None, None, self.combiner)
        else:
            touched = pl.concat(
                [in_windows(f, low, high, self.combiner) for f in frames], how="diagonal"
            )
        return self._merge_changes([touched.drop(columns.PANE)])

    def _changed(
        self,
        emission: str,
        changes: pl.DataFrame,
        fresh: list[Ranged],
        moment: Moment,
        marks: list[pl.DataFrame],
    ) -> pl.DataFrame:
        """The changed windows that are due, early or late; the others wait in their table."""
        firing = self.spec.firing
        policy = firing.late if emission == "late" else firing.early
        table = self.late if emission == "late" else self.early
        nothing = self._no_windows()
        if policy is None:
            return nothing
        window = pl.col(columns.WINDOW)
        closing = emission == "late" and table.low is not None and table.low <= moment.closed_after
        if (
            not may_be_due(policy, moment)
            and not closing
            and (emission == "early" or not self._closes(changes, moment))
        ):
            table.append(changes)
            return nothing
        if not len(changes) and table.low is None:
            return nothing
        waiting = self._merge_changes([self._read(table), changes])
        ready = due(policy, moment)
        if emission == "late":
            ready = ready | (window <= moment.closed_after)
        else:
            waiting = waiting.filter(window > moment.after)
        speaking, rest = waiting.filter(ready), waiting.filter(~ready)
        if table.low is not None or len(rest):
            table.rewrite(rest)
        if not len(speaking):
            return nothing
        return self._speak(emission, speaking, fresh, marks)

    def _closes(self, changes: pl.DataFrame, moment: Moment) -> bool:
        return len(changes) > 0 and _bounds(changes, columns.WINDOW)[0] <= moment.closed_after

    def _speak(
        self,
        emission: str,
        speaking: pl.DataFrame,
        fresh: list[Ranged],
        marks: list[pl.DataFrame],
    ) -> pl.DataFrame:
        low, high = _bounds(speaking, columns.WINDOW)
        who = speaking.select(self._identity)
        composed = self._compose(fresh, low, high, who.select(self.keys).unique())
        composed = composed.join(who, on=self._identity, how="semi")
        total = composed.select(*self._identity, total=columns.MESSAGES)
        if not self.spec.firing.accumulate:
            composed = self._only_new(composed, speaking)
        extra = [marks[0]] if emission == "late" else []
        composed = self._with_marks(composed, low, high, extra, who)
        revision = pl.col(FIRED)
        if emission == "late":
            # It spoke in full if it held anything but late messages when its time came.
            composed = composed.join(total, on=self._identity, how="left")
            revision = revision + (pl.col("total") > pl.col(LATE)).cast(pl.Int64)
        marks.append(
            who.with_columns(
                pl.lit(1, dtype=pl.Int64).alias(FIRED), pl.lit(0, dtype=pl.Int64).alias(LATE)
            )
        )
        return composed.with_columns(
            pl.lit(emission).alias(columns.EMISSION), revision.alias(columns.REVISION)
        )

    def _compose(
        self, fresh: list[Ranged], low: int, high: int, keys: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        """Windows ``low`` to ``high`` out of the state and this batch, for some keys or all."""
        windows = self.spec.windows
        if low > high:
            return self._no_windows()
        first = low * windows.panes_per_slide
        last = high * windows.panes_per_slide + windows.panes_per_window - 1
        new = [r for r in fresh if r[2] >= first and r[1] <= last]
        if keys is None:
            frames = self.cells.read(first, last) + new
        else:
            frames = self.cells.of(keys, first, last)
            frames += [(f.join(keys, on=self.keys, how="semi"), a, b) for f, a, b in new]
        if not frames:
            return self._no_windows()
        cells = join_runs(frames, columns.PANE, self.combiner.merge)
        return compose(cells, low, high, self.combiner)

    def _only_new(self, composed: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
        """The same windows, but only with what was new since they last spoke."""
        return composed.select(self._identity).join(new, on=self._identity, how="left")

    def _with_marks(
        self,
        composed: pl.DataFrame,
        low: int,
        high: int,
        extra: Sequence[pl.DataFrame] = (),
        who: pl.DataFrame | None = None,
    ) -> pl.DataFrame:
        """Add how often windows have spoken; ``who`` where only some keys' are asked for."""
        if who is None:
            marks = [self._read(self.marks, low, high)]
        else:
            marks = [f for f, _, _ in self.marks.of(who.select(self.keys).unique(), low, high)]
            marks.append(self._no_marks())
        added = self._add_marks([*marks, *extra])
        joined = composed.join(added, on=self._identity, how="left")
        return joined.with_columns(pl.col(FIRED, LATE).fill_null(0))

    def _keep(
        self, fresh: list[Ranged], marks: list[pl.DataFrame], moment: Moment, final: bool
    ) -> None:
        """Store what later steps may need, and drop what none can."""
        if final:
            for table in (self.cells, self.marks, self.early, self.late):
                table.drop_before(None)
            return
        windows, firing = self.spec.windows, self.spec.firing
        expired = closed_before(windows, self.watermark, firing.retention)
        if fresh:
            live = [
                (f.filter(pl.col(columns.PANE) >= expired), max(a, expired), b)
                if expired is not None and a < expired
                else (f, a, b)
                for f, a, b in fresh
                if expired is None or b >= expired
            ]
            if live:
                self.cells.append(join_runs(live, columns.PANE, self.combiner.merge))
        spoken = self._add_marks(marks)
        self.marks.append(spoken.filter(pl.col(columns.WINDOW) > moment.closed_after))
        if expired is not None:
            self.cells.drop_before(expired)
        self.marks.drop_before(moment.closed_after + 1)
        self.late.drop_before(moment.closed_after + 1)
        self.early.drop_before(moment.after + 1)

    def _merge_changes(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        if self.spec.firing.accumulate:
            frame = pl.concat(frames, how="diagonal")
            return frame.group_by(self._identity).agg(pl.col(columns.MESSAGES).sum())
        return self.combiner.merge(frames, by=self._identity)

    def _add_marks(self, frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return (
            pl.concat(frames, how="diagonal_relaxed")
            .group_by(self._identity)
            .agg(pl.col(FIRED, LATE).cast(pl.Int64).sum())
        )

    def _read(self, table: Runs, low: int | None = None, high: int | None = None) -> pl.DataFrame:
        frames = table.read(low, high)
        if frames:
            return join_runs(frames, table.axis, table.merge)
        nothing = self._no_windows()
        if table is self.marks:
            return self._no_marks()
        if self.spec.firing.accumulate:
            return nothing.select(*self._identity, columns.MESSAGES)
        return nothing

    def _no_marks(self) -> pl.DataFrame:
        zeros = [pl.lit(0, dtype=pl.Int64).alias(c) for c in (FIRED, LATE)]
        return self._no_windows().select(*self._identity, *zeros)

    def _no_cells(self) -> pl.DataFrame:
        return self.combiner.no_cells

    def _no_windows(self) -> pl.DataFrame:
        return self.combiner.no_cells.rename({columns.PANE: columns.WINDOW})

    def _save(self) -> None:
        tables = {n: getattr(self, n).entries() for n in ("cells", "marks", "early", "late")}
        manifest = {
            "format": FORMAT,
            "spec": self.spec.dumps(),
            "watermark": self.watermark,
            "wall": self.wall,
            "counts": self.counts,
            "tables": tables,
        }
        self.blobs.save(json.dumps(manifest))


def _read_manifest(blobs: Blobs, spec: WindowSpec) -> dict[str, Any]:
    text = blobs.load()
    if text is None:
        return {"watermark": None, "wall": None, "counts": {}, "tables": {}}
    try:
        manifest: dict[str, Any] = json.loads(text)
        version = manifest["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise StateCorruptedError(
            "the manifest of a shard can't be read: it was damaged"
        ) from error
    if version != FORMAT:
        raise StateCorruptedError(
            f"the state has format {version}, this muntin reads format {FORMAT}: "
            "use the muntin that wrote it"
        )
    spec.check_same(manifest["spec"])
    return manifest


def _bounds(frame: pl.DataFrame, column: str) -> tuple[int, int]:
    return int(frame[column].min()), int(frame[column].max())  # type: ignore[arg-type]
