"""A slow and obvious implementation of joins, which compares each message with all others.

It is written from the window model alone, so that the columnar join can be tested against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muntin.model.bounds import (
    AsOf,
    Bound,
    ByArrival,
    Newest,
    SessionBound,
    SideName,
    Together,
    Within,
)
from muntin.model.by_number import Moving
from muntin.model.joins import OTHER, SIDES, JoinSpec
from muntin.model.policies import Every
from muntin.model.spec import DUPLICATES
from muntin.testing.oracle.placing import bounds
from muntin.testing.oracle.stepping import REASONS, judge_time
from muntin.testing.oracle.window import OracleMessage


@dataclass
class JoinStep:
    """The result of one step of a join.

    Attributes:
        rows: Rows with the output columns and ``emission``, in no order.
        rejected: Rejected messages, with side, message, reason, and the side's watermark.
        counts: Numbers of messages seen, counted, duplicates, and rejected, on both sides.
        watermarks: Watermark of each side; None before the first message.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    rejected: list[tuple[SideName, OracleMessage, str, int | None]] = field(default_factory=list)
    counts: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("seen", "counted", DUPLICATES, *REASONS), 0)
    )
    watermarks: dict[SideName, int | None] = field(default_factory=dict)


@dataclass(eq=False)
class HeldMessage:
    """An accepted message that may still match others."""

    side: SideName
    message: OracleMessage
    key: tuple[Any, ...]
    partition: Any
    position: int
    late: bool
    triggered: bool = False
    matched: bool = False
    partners: set[HeldMessage] = field(default_factory=set)


class JoinOracle:
    """A slow implementation of a windowed join.

    Args:
        spec: Join, whose columns must be names.
        columns: Columns of each side, in order.
        suffix: Suffix of the right side's columns that have the name of a left one.
    """

    def __init__(
        self, spec: JoinSpec, columns: Mapping[SideName, Sequence[str]], suffix: str = "_right"
    ) -> None:
        self._spec, self._columns, self._suffix = spec, columns, suffix
        self._held: list[HeldMessage] = []
        self._watermarks: dict[tuple[SideName, Any], int] = {}
        self._starts: dict[tuple[SideName, Any], int] = {}
        self._offsets: dict[SideName, set[tuple[Any, Any]]] = {side: set() for side in SIDES}
        self._caught_up: dict[SideName, bool] = {}
        self._passed_time: int | None = None
        self._table: dict[Any, tuple[int | None, HeldMessage]] = {}
        self._wall: int | None = None
        self._active: dict[SideName, int] = {}

    def step(
        self,
        messages: Mapping[SideName, Sequence[OracleMessage]],
        wall: int,
        final: bool = False,
        backlog: Mapping[SideName, bool] | None = None,
        now: int | None = None,
    ) -> JoinStep:
        """Process one micro-batch of both sides.

        Args:
            messages: The batch, by side; the time column holds microseconds, None, or text that
                could not be read as a time.
            wall: Wall clock, in microseconds.
            final: Whether the input ends here.
            backlog: Whether a side's source has more messages; for other sides it is unknown.
            now: The machine's clock, if it was set back behind ``wall``.
        """
        self._caught_up |= {side: not behind for side, behind in (backlog or {}).items()}
        step, watermarks_after, watermark_before = (
            JoinStep(),
            dict(self._watermarks),
            self._watermarks.get(("right", None)),
        )
        self._sides_with_messages: set[SideName] = set()
        for side in SIDES:
            self._record_starts(side, messages[side])
            for message in messages[side]:
                self._take(side, message, wall if now is None else now, watermarks_after, step)
        if isinstance(self._spec.bound, SessionBound):
            self._reject_late_sessions(step)
        for side in SIDES:
            self._advance_silent_side(side, wall, watermarks_after)
        self._advance_idle_sides(wall, watermarks_after)
        if self._spec.shared_time and watermarks_after:
            watermarks_after = dict.fromkeys(
                ((side, None) for side in SIDES), max(watermarks_after.values())
            )
        self._watermarks = watermarks_after
        self._fire_triggers(wall, final)
        if isinstance(self._spec.bound, AsOf):
            self._emit_versions(self._spec.bound, step, final)
        elif isinstance(self._spec.bound, Newest):
            self._emit_changes(step)
        elif isinstance(self._spec.bound, ByArrival):
            self._emit_newest(step, watermark_before)
        else:
            self._emit_pairs(step, final)
            self._emit_unmatched(step, final)
        self._wall = wall
        step.watermarks = {side: self._watermarks.get((side, None)) for side in SIDES}
        return step

    def _record_starts(self, side: SideName, messages: Sequence[OracleMessage]) -> None:
        offset = self._spec.side(side).offset
        if offset is None or self._spec.axis == "time":
            return
        lowest: dict[Any, int] = {}
        for message in messages:
            partition, number = (message[column] for column in offset)
            if partition is not None and number is not None:
                lowest[partition] = min(number, lowest.get(partition, number))
        for partition, number in lowest.items():
            self._starts.setdefault((side, partition), number)

    def _take(
        self,
        side: SideName,
        message: OracleMessage,
        wall: int,
        watermarks_after: dict[tuple[SideName, Any], int],
        step: JoinStep,
    ) -> None:
        """Compare a message with the watermark before this step; hold it unless it is rejected."""
        side_spec = self._spec.side(side)
        step.counts["seen"] += 1
        offset = tuple(message[column] for column in side_spec.offset or ())
        if offset:
            if offset in self._offsets[side]:
                step.counts[DUPLICATES] += 1
                return
            if None not in offset:
                self._offsets[side].add(offset)
        partition, position = self._locate(side, message)
        reason = self._find_rejection(side, message, wall)
        watermark = self._watermarks.get((side, partition))
        # A message moves the watermark of its partition, whatever else is wrong with it.
        moves_axis = self._spec.axis == "rows" and None not in offset
        # A window that is emitted early is ahead of the watermark.
        is_early = isinstance(self._spec.bound, Newest) and message["emission"] in (
            "early",
            "retract",
        )
        only_lacks_key = reason == "null_key" and self._is_timely(side, message, wall)
        if (reason is None or moves_axis or only_lacks_key) and not is_early:
            self._sides_with_messages.add(side)
            reached_watermark = (
                position + 1 if self._spec.axis == "rows" else position - side_spec.lateness
            )
            watermarks_after[side, partition] = max(
                watermarks_after.get((side, partition), reached_watermark), reached_watermark
            )
        # Whether a message of a session is late depends on the whole session.
        is_judged_alone = not isinstance(self._spec.bound, SessionBound)
        is_judged_alone = is_judged_alone and not isinstance(self._spec.bound, ByArrival)
        if (
            reason is None
            and watermark is not None
            and is_judged_alone
            and position < self._edge(side, watermark)
        ):
            reason = "late"
        step.counts[reason or "counted"] += 1
        if reason is not None:
            shown_watermark = None if self._spec.axis == "rows" else watermark
            step.rejected.append((side, message, reason, shown_watermark))
            return
        key = tuple(message[column] for column in side_spec.keys)
        late = watermark is not None and position < watermark
        self._held.append(HeldMessage(side, message, key, partition, position, late))

    def _advance_silent_side(
        self, side: SideName, wall: int, watermarks_after: dict[tuple[SideName, Any], int]
    ) -> None:
        """Advance the watermark of a side without messages by the wall clock."""
        idle, watermark = self._spec.side(side).idle, watermarks_after.get((side, None))
        if idle is None:
            return
        has_messages, active_since = side in self._sides_with_messages, self._active.get(side)
        if not has_messages and None not in (watermark, active_since, self._wall):
            watermarks_after[side, None] = watermark + max(
                0, wall - max(self._wall, active_since + idle)
            )
        if has_messages or active_since is None:
            self._active[side] = wall

    def _advance_idle_sides(
        self, wall: int, watermarks_after: dict[tuple[SideName, Any], int]
    ) -> None:
        """Advance the watermark of an idle side to that of the other, so as not to delay it."""
        if self._spec.axis == "rows" or not watermarks_after:
            return
        furthest = max(watermarks_after.values())
        for side in SIDES:
            idle, active_since = self._spec.side(side).idle, self._active.get(side)
            if idle is not None and active_since is not None and wall >= active_since + idle:
                watermarks_after[side, None] = furthest

    def _reject_late_sessions(self, step: JoinStep) -> None:
        """Reject the new messages whose whole session was closed before this step."""
        late = [held for held in self._held if not held.triggered and self._is_over(held)]
        for held in late:
            step.counts["counted"] -= 1
            step.counts["late"] += 1
            watermark = self._watermarks.get((held.side, held.partition))
            step.rejected.append((held.side, held.message, "late", watermark))
        self._held = [held for held in self._held if held not in late]

    def _is_over(self, held: HeldMessage) -> bool:
        """Return whether the session of a message is closed on both sides."""
        assert isinstance(self._spec.bound, SessionBound)
        edges = [self._edge(side, watermark) for (side, _), watermark in self._watermarks.items()]
        reach = self._spec.bound.sessions.reach
        return len(edges) == len(SIDES) and min(edges) - max(self._find_session(held)) >= reach

    def _locate(self, side: SideName, message: OracleMessage) -> tuple[Any, int]:
        """Return the partition and the position of a message on its axis."""
        side_spec = self._spec.side(side)
        if self._spec.axis == "rows":
            assert side_spec.offset is not None
            partition, number = (message[column] for column in side_spec.offset)
            return partition, 0 if number is None else number - self._starts.get(
                (side, partition), number
            )
        time = message[side_spec.time]  # type: ignore[index]
        return None, time if isinstance(time, int) else 0

    def _find_rejection(self, side: SideName, message: OracleMessage, wall: int) -> str | None:
        side_spec = self._spec.side(side)
        if side_spec.offset is not None and None in [
            message[column] for column in side_spec.offset
        ]:
            return "malformed"
        if side_spec.time is not None:
            time = message[side_spec.time]
            if isinstance(time, str):
                return "malformed"
            if time is None:
                return "null_time"
        if None in [message[column] for column in self._spec.list_required_keys(side)]:
            return "null_key"
        return None if side_spec.time is None else judge_time(side_spec, time, wall)

    def _is_timely(self, side: SideName, message: OracleMessage, wall: int) -> bool:
        """Return whether a message without a key may move the watermark."""
        side_spec = self._spec.side(side)
        if side_spec.time is None:
            return False
        return judge_time(side_spec, message[side_spec.time], wall) is None

    def _edge(self, side: SideName, watermark: int) -> int:
        """Return the lowest position that isn't late: the start of the first open windows."""
        bound, closed_before = self._spec.bound, watermark - self._spec.side(side).firing.grace
        if isinstance(bound, Together):
            return max(min(start for start, _ in bounds(w, closed_before)) for w in bound.windows)
        return closed_before

    def _fire_triggers(self, wall: int, final: bool) -> None:
        for held in self._held:
            firing = self._spec.side(held.side).firing
            policy = firing.late if held.late else firing.early
            if not isinstance(policy, Every):
                held.triggered = True
                continue
            period = policy.period
            is_due = self._wall is not None and wall // period > self._wall // period
            has_ended = not held.late and self._own_windows_ended(held)
            held.triggered = (
                held.triggered or is_due or has_ended or final or self._never_matches(held)
            )

    def _own_windows_ended(self, held: HeldMessage) -> bool:
        """Return whether all windows of its own side that contain a message have ended."""
        windows = self._spec.side(held.side).windows
        watermark = self._watermarks.get((held.side, held.partition))
        if windows is None or watermark is None:
            return False
        if isinstance(windows, Moving):
            return held.position < watermark
        return all(end <= watermark for _, end in bounds(windows, held.position))

    def _emit_pairs(self, step: JoinStep, final: bool) -> None:
        pairs = [(left, right) for left, right in self._find_pairs() if right not in left.partners]
        emitted_pairs = self._choose_first_pairs(pairs) if self._spec.how == "semi" else pairs
        for left, right in pairs:
            left.partners.add(right)
            left.matched = right.matched = True
        for left, right in emitted_pairs:
            is_late = left.late or right.late
            emission = "full" if final else "late" if is_late else "early"
            if self._spec.how == "semi":
                step.rows.append(self._make_row(left, None, emission))
            elif self._spec.how != "anti":
                step.rows.append(self._make_row(left, right, emission))
        # Only the emissions of the step in which a message arrives are marked as late.
        for held in self._held:
            held.late = held.late and not held.triggered

    def _emit_versions(self, bound: AsOf, step: JoinStep, final: bool) -> None:
        """Emit left messages with their newest right versions, once the right side has passed."""
        left_watermark = self._watermarks.get(("left", None))
        if self._caught_up.get("right") and left_watermark is not None:
            # The join doesn't wait for the right side: the greatest time of either side counts.
            reached = left_watermark + self._spec.left.lateness - self._spec.right.lateness
            self._passed_time = (
                reached if self._passed_time is None else max(self._passed_time, reached)
            )
        times = (self._watermarks.get(("right", None)), self._passed_time)
        passed_time = max((time for time in times if time is not None), default=None)
        versions = [held for held in self._held if held.side == "right"]
        for message in [held for held in self._held if held.side == "left"]:
            if not final and (passed_time is None or message.position >= passed_time):
                message.late = False
                continue
            self._held.remove(message)
            earlier_versions = [
                (version.position, number)
                for number, version in enumerate(versions)
                if version.key == message.key
                and None not in message.key
                and version.position <= message.position
            ]
            position, number = max(earlier_versions, default=(None, None))
            is_too_old = (
                position is not None
                and bound.most is not None
                and message.position - position > bound.most
            )
            if number is not None and not is_too_old:
                emission = "late" if message.late and not final else "full"
                step.rows.append(self._make_row(message, versions[number], emission))
            elif "left" in self._spec.outer_sides:
                step.rows.append(self._make_row(message, None, "full"))

    def _emit_newest(self, step: JoinStep, watermark: int | None) -> None:
        """Emit left messages with the last right row to have arrived.

        ``watermark`` is that of the right side before this step; it decides which rows expire.
        """
        right, now = self._spec.right, self._watermarks.get(("right", None))
        if right.own_retention is not None and watermark is not None:
            expired_before = watermark - right.own_retention
            self._table = {
                key: row for key, row in self._table.items() if (row[0] or 0) >= expired_before
            }
        metadata_columns = (*right.keys, right.time, *(right.offset or ()))
        for held in [held for held in self._held if held.side == "right"]:
            values = [value for name, value in held.message.items() if name not in metadata_columns]
            self._table[held.key] = (now, held)
            if values and all(value is None for value in values):
                del self._table[held.key]
        for held in [held for held in self._held if held.side == "left"]:
            row = self._table.get(held.key) if None not in held.key else None
            if row is not None or "left" in self._spec.outer_sides:
                step.rows.append(self._make_row(held, row and row[1], "full"))
        self._held = []

    def _emit_changes(self, step: JoinStep) -> None:
        """Emit the pairs of all keys that have a newer row than before."""
        newest_before = {
            id(held): held
            for held in self._find_newest(held for held in self._held if held.matched)
        }
        for key in dict.fromkeys(held.key for held in self._held if not held.matched):
            messages = [held for held in self._held if held.key == key]
            newest = self._find_newest(messages)
            if all(id(held) in newest_before for held in newest):
                continue
            rows_by_side = {
                held.side: held for held in newest if held.message["emission"] != "retract"
            }
            sides_before = {
                held.side
                for held in self._find_newest(held for held in messages if held.matched)
                if held.message["emission"] != "retract"
            }
            revision = sum(held.message["revision"] + 1 for held in newest) - 1
            if self._emits_pair({*rows_by_side}):
                emissions = [held.message["emission"] for held in rows_by_side.values()]
                emission = min(emissions, key=["early", "late", "full"].index)
                row = self._make_row(rows_by_side.get("left"), rows_by_side.get("right"), emission)
            elif self._emits_pair(sides_before):
                row = dict.fromkeys(self._make_row(None, None, "retract"))
                row |= zip(self._spec.left.keys, key, strict=True)
                row["emission"] = "retract"
            else:
                continue
            row = {name: row[name] for name in row if name not in ("revision", "emission_right")}
            row.pop("revision_right", None)
            step.rows.append(row | {"revision": revision})
        for held in self._held:
            held.matched = True
        watermarks = [self._watermarks.get((side, None)) for side in SIDES]
        if None not in watermarks:
            graces = [self._spec.side(side).firing.grace for side in SIDES]
            edge = min(w - grace for w, grace in zip(watermarks, graces, strict=True))  # type: ignore[operator]
            self._held = [held for held in self._held if held.position >= edge]

    def _find_newest(self, messages: Iterable[HeldMessage]) -> list[HeldMessage]:
        """Return the last row with the greatest revision of each side and key."""
        newest: dict[tuple[SideName, Any], HeldMessage] = {}
        for held in messages:
            last = newest.setdefault((held.side, held.key), held)
            if held.message["revision"] >= last.message["revision"]:
                newest[held.side, held.key] = held
        return list(newest.values())

    def _emits_pair(self, sides: set[SideName]) -> bool:
        """Return whether the join emits a pair that has rows of these sides."""
        how = self._spec.how
        if how == "inner":
            return len(sides) == len(SIDES)
        return bool(sides) if how == "full" else how in sides

    def _choose_first_pairs(
        self, pairs: list[tuple[HeldMessage, HeldMessage]]
    ) -> list[tuple[HeldMessage, HeldMessage]]:
        """Return a pair for each left message that hadn't matched, preferably one in time."""
        chosen: dict[int, tuple[HeldMessage, HeldMessage]] = {}
        for left, right in pairs:
            if not left.matched and (id(left) not in chosen or not right.late):
                chosen[id(left)] = (left, right)
        return list(chosen.values())

    def _find_pairs(self) -> Iterator[tuple[HeldMessage, HeldMessage]]:
        candidates = [held for held in self._held if held.triggered]
        for left in candidates:
            for right in candidates:
                if (left.side, right.side) == SIDES and self._are_partners(left, right):
                    yield left, right

    def _are_partners(self, left: HeldMessage, right: HeldMessage) -> bool:
        bound: Bound = self._spec.bound
        if (left.key, left.partition) != (right.key, right.partition):
            return False
        if None in left.key and self._spec.nulls != "group":
            return False
        if isinstance(bound, Within):
            return -bound.before <= right.position - left.position <= bound.after
        if isinstance(bound, Together):
            return all(
                any(start <= right.position < end for start, end in bounds(windows, left.position))
                for windows in bound.windows
            )
        return right.position in self._find_session(left)

    def _find_session(self, held: HeldMessage) -> list[int]:
        """Return the positions of a message's session, which has messages of both sides."""
        assert isinstance(self._spec.bound, SessionBound)
        reach = self._spec.bound.sessions.reach
        positions = sorted(m.position for m in self._held if m.key == held.key)
        session: list[int] = []
        for position in positions:
            if session and position - session[-1] >= reach:
                if held.position in session:
                    return session
                session = []
            session.append(position)
        return session

    def _never_matches(self, held: HeldMessage) -> bool:
        """Return whether a message can't match any more, or its retention has passed."""
        watermark = self._watermarks.get((held.side, held.partition))
        retention = self._spec.side(held.side).own_retention
        if (
            watermark is not None
            and retention is not None
            and held.position < watermark - retention
        ):
            return True
        other_watermark = self._watermarks.get((OTHER[held.side], held.partition))
        if other_watermark is None:
            return False
        edge, bound = self._edge(OTHER[held.side], other_watermark), self._spec.bound
        if isinstance(bound, Within):
            return held.position + (bound.after if held.side == "left" else bound.before) < edge
        if isinstance(bound, Together):
            ends = [max(end for _, end in bounds(w, held.position)) for w in bound.windows]
            return min(ends) <= edge
        return self._is_over(held)

    def _is_awaited(self, held: HeldMessage) -> bool:
        """Return whether a matching message waits for its trigger."""
        waiting_messages = [m for m in self._held if m.side != held.side and not m.triggered]
        if held.side == "left":
            return any(self._are_partners(held, other) for other in waiting_messages)
        return any(self._are_partners(other, held) for other in waiting_messages)

    def _emit_unmatched(self, step: JoinStep, final: bool) -> None:
        finished = [
            held
            for held in self._held
            if final or (self._never_matches(held) and not self._is_awaited(held))
        ]
        for held in finished:
            if held.side in self._spec.outer_sides and not held.matched:
                left, right = (held, None) if held.side == "left" else (None, held)
                step.rows.append(self._make_row(left, right, "full"))
        self._held = [held for held in self._held if held not in finished]

    def _make_row(
        self, left: HeldMessage | None, right: HeldMessage | None, emission: str
    ) -> dict[str, Any]:
        spec, row = self._spec, {}
        for name in self._columns["left"]:
            row[name] = None if left is None else left.message[name]
        if left is None and right is not None:
            row |= zip(spec.left.keys, right.key, strict=True)
        if spec.how not in ("semi", "anti"):
            for name in self._columns["right"]:
                if name not in spec.right.keys:
                    out = name + self._suffix if name in self._columns["left"] else name
                    row[out] = None if right is None else right.message[name]
        return row | {"emission": emission}
