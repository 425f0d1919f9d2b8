"""One step of the oracle: it rejects messages, assigns the others, and lets windows emit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muntin.model.axis import MAX_TIME_DISTANCE
from muntin.model.inputs import InputSpec
from muntin.model.sessions import LONGEST_GAP, Sessions
from muntin.model.sliding import Sliding
from muntin.model.spec import DUPLICATES, PARTLY_LATE, UNDECIDED, WindowSpec
from muntin.model.trailing import Trailing
from muntin.model.zones import list_zones
from muntin.testing.oracle.emitting import EmittedWindow, Ending, firings, row
from muntin.testing.oracle.filling import create_empty_windows
from muntin.testing.oracle.marks import Watermarks
from muntin.testing.oracle.placing import FixedPlacing, Placing, SlidingPlacing, ZonedPlacing
from muntin.testing.oracle.sessions import CutPlacing, SessionPlacing
from muntin.testing.oracle.trailing import TrailingPlacing
from muntin.testing.oracle.values import to_micros
from muntin.testing.oracle.window import OracleMessage, OracleWindow, Placed, Position

# How messages are assigned to other windows than those with fixed bounds.
_PLACINGS: dict[type, type[Placing[Any]]] = {
    Sessions: SessionPlacing,
    Sliding: SlidingPlacing,
    Trailing: TrailingPlacing,
}
# The reasons for which a message is rejected.
REASONS = ("late", "future", "null_key", "null_time", "malformed", "outside", "overflow")
OUTCOMES = ("seen", "counted", UNDECIDED, PARTLY_LATE, DUPLICATES, *REASONS)


@dataclass
class OracleStep:
    """The result of one step, which is one micro-batch.

    Attributes:
        firings: Rows with keys, window_start, window_end, aggregates, emission and revision.
        rejected: Rows with the input columns, the reason, and the watermark in force, if any.
        counts: Numbers of messages that were seen, were counted (and of those not in all of their
            windows), had been taken before, and were rejected for each reason; ``overflow`` counts
            windows, not messages.
        watermark: Watermark after the step; None if no message has moved it yet,
            or the windows are measured in rows.
    """

    firings: list[dict[str, Any]]
    rejected: list[dict[str, Any]]
    counts: dict[str, int]
    watermark: Position | None = None


def judge_time(spec: InputSpec, time: int, wall: int) -> str | None:
    """Return the reason to reject a time that is too far from the clock, or from 1970."""
    if spec.max_ahead is not None and time > wall + spec.max_ahead:
        return "future"
    return "malformed" if abs(time) >= MAX_TIME_DISTANCE else None


class Oracle:
    """A slow and obvious implementation of a windowed aggregation.

    Args:
        spec: Query, whose columns must be names.
        partition: Column with the partition of the source that a message comes from, if any.
    """

    def __init__(self, spec: WindowSpec, partition: str | None = None) -> None:
        self._spec = spec
        self._watermarks = Watermarks(spec, partition=partition)
        self._placing = _placing(spec)
        self._wall: int | None = None
        self._offsets: set[tuple[Any, ...]] = set()
        needed = (*spec.key_columns, *(spec.offset or ()), spec.time)
        self._columns: dict[str, None] = {name: None for name in needed if name is not None}

    def step(
        self,
        messages: Sequence[OracleMessage],
        wall: int,
        final: bool = False,
        reached: Position | None = None,
        backlog: Mapping[str, bool] | None = None,
        now: int | None = None,
    ) -> OracleStep:
        """Process one micro-batch, and return the rows that windows emit.

        Args:
            messages: Messages. The time column holds microseconds, None, or the text that
                could not be read as a time.
            wall: Wall clock, in microseconds.
            final: Whether the input ends here, so that every window is closed.
            reached: Event time that the input has reached without a message, if any.
            backlog: Whether each partition of the source that was read has more messages.
            now: The machine's clock, microseconds, if it was set back and is behind ``wall``. It
                bounds the messages' times.

        Returns:
            The firings in order of window start, then key; the rejected in order of arrival.
        """
        result = OracleStep([], [], dict.fromkeys(OUTCOMES, 0))
        after = self._watermarks.copy()
        after.final = after.final or final
        self._take(messages, wall, wall if now is None else now, after, result, backlog or {})
        if reached is not None:
            after.watermark = max(after.watermark, reached - self._spec.lateness)
        ending = Ending(self._watermarks, after, wall, self._wall)
        for window, emission in self._find_firings(ending):
            self._fire(window, emission, result)
        self._settle(after, result)
        self._watermarks, self._wall = after, wall
        self._placing.forget_closed(self._watermarks)
        result.watermark = after.common_watermark
        return result

    def _find_firings(self, ending: Ending) -> list[EmittedWindow]:
        if isinstance(self._placing, TrailingPlacing):
            return self._placing.find_firings(ending)
        return firings(self._spec, self._placing.windows.values(), ending)

    def _take(
        self,
        messages: Sequence[OracleMessage],
        wall: int,
        now: int,
        after: Watermarks,
        result: OracleStep,
        backlog: Mapping[str, bool],
    ) -> None:
        """Judge the messages and assign them to windows."""
        new = [message for message in messages if not self._was_taken_before(message)]
        result.counts["seen"] = len(messages)
        result.counts[DUPLICATES] = len(messages) - len(new)
        reasons: list[str | None] = []
        placed = []
        moved = False
        for message in new:
            self._columns |= dict.fromkeys(message)
            reasons.append(self._reason_to_reject(message, now))
            after.pass_offset(message)
            if reasons[-1] is None:
                placed.append(after.locate(message)._replace(wall=wall))
            moved |= reasons[-1] is None or self._pass_keyless(message, reasons[-1], now, after)
        after.pass_clocks(wall, backlog)
        after.pass_time(moved, wall, self._wall)
        first, *others = _by_sets(self._spec, placed)
        outcome = self._placing.take(first, self._watermarks)
        for copies in others:  # The copies are late exactly if the first ones are.
            self._placing.take(copies, self._watermarks)
        create_empty_windows(self._spec, self._placing.windows)
        result.counts[PARTLY_LATE] = outcome.partly_late
        numbers = iter(range(len(placed)))
        accepted = UNDECIDED if "start" in self._spec.windows.conditions else "counted"
        for message, reason in zip(new, reasons, strict=True):
            if reason is None and next(numbers) in outcome.late:
                reason = "late"
            result.counts[reason or accepted] += 1
            if reason is not None:
                result.rejected.append(self._make_rejected_row(message, reason))

    def _pass_keyless(
        self, message: OracleMessage, reason: str, wall: int, after: Watermarks
    ) -> bool:
        """Let a message that is rejected only for its missing key move the watermark."""
        spec = self._spec
        if reason != "null_key" or spec.axis != "time":
            return False
        assert spec.time is not None
        time = message[spec.time]
        moves = judge_time(spec, time, wall) is None
        if moves:
            after.pass_message(message, time)
        return moves

    def _settle(self, after: Watermarks, result: OracleStep) -> None:
        """Reject undecided messages that no window has, and count the others."""
        outside, counted = self._placing.settle(after)
        result.rejected += [self._make_rejected_row(one.message, "outside") for one in outside]
        result.counts["outside"] += len(outside)
        result.counts["counted"] += counted
        result.counts[UNDECIDED] -= len(outside) + counted

    def _was_taken_before(self, message: OracleMessage) -> bool:
        """Return whether this offset was seen before, whatever became of the message then."""
        if self._spec.offset is None:
            return False
        offset = tuple(message[column] for column in self._spec.offset)
        if None in offset:
            return False
        was_taken = offset in self._offsets
        self._offsets.add(offset)
        return was_taken

    def _reason_to_reject(self, message: OracleMessage, wall: int) -> str | None:
        """Return the first reason to reject a message; lateness is judged by the windows."""
        spec = self._spec
        if spec.offset is not None and any(message[column] is None for column in spec.offset):
            return "malformed"
        by = spec.windows.own_gap
        if by is not None:
            gap = None if message[by] is None else to_micros(message[by])
            if gap is None or not 0 < gap <= LONGEST_GAP:
                return "malformed"
        zone = None if spec.zone_column is None else message[spec.zone_column]
        if zone is not None and zone not in list_zones():
            return "malformed"
        time = 0 if spec.time is None else message[spec.time]
        if isinstance(time, str):
            return "malformed"
        if time is None:
            return "null_time"
        if any(message[key] is None for key in spec.non_null_keys):
            return "null_key"
        return None if spec.time is None else judge_time(spec, time, wall)

    def _make_rejected_row(self, message: OracleMessage, reason: str) -> dict[str, Any]:
        return {**message, "reason": reason, "watermark": self._watermarks.common_watermark}

    def _fire(self, window: OracleWindow, emission: str, result: OracleStep) -> None:
        emitted, overflown = row(self._spec, window, emission)
        if overflown:
            result.rejected.append(self._make_rejected_row(self._blank(window), "overflow"))
            result.counts["overflow"] += 1
        result.firings.append(emitted)
        window.unemitted, window.replaced = [], []
        window.revision += 1
        window.emissions |= {emission} if window.messages else set()

    def _blank(self, window: OracleWindow) -> OracleMessage:
        """Return a message that represents a window: its key, and its start if possible."""
        spec = self._spec
        blank: OracleMessage = dict.fromkeys(self._columns)
        blank |= dict(zip(spec.key_columns, window.key, strict=False))
        if spec.axis == "time":
            assert spec.time is not None
            blank[spec.time] = window.start
        elif spec.offset is not None:
            blank[spec.offset[1]] = window.start
        return blank


def _by_sets(spec: WindowSpec, placed: Sequence[Placed]) -> list[list[Placed]]:
    """Return the messages once for each grouping set."""
    if spec.sets is None:
        return [list(placed)]
    return [[_of_set(number, message) for message in placed] for number in spec.sets]


def _of_set(number: int, placed: Placed) -> Placed:
    """Return a message without the keys that aren't in a grouping set."""
    bits = f"{number:0{len(placed.key)}b}"
    key = (None if bit == "1" else k for bit, k in zip(bits, placed.key, strict=True))
    return placed._replace(key=(*key, number))


def _placing(spec: WindowSpec) -> Placing[Any]:
    windows: Any = spec.windows
    if spec.zone_column is not None:
        return ZonedPlacing(windows, spec.firing.grace, spec.keys.index(spec.zone_column))
    placing = CutPlacing if windows.is_cut else _PLACINGS.get(type(windows), FixedPlacing)
    return placing(windows, spec.firing.grace)
