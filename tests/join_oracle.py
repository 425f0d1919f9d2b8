"""A slow and obvious implementation of joins, which compares each message with all others.

It is written from the window model alone, so that the columnar join can be tested against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muntin.model.axis import MAX_TIME_DISTANCE
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
from muntin.testing.oracle.stepping import REASONS
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
    place: int
    late: bool
    let_in: bool = False
    matched: bool = False
    met: set[HeldMessage] = field(default_factory=set)


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
        self._marks: dict[tuple[SideName, Any], int] = {}
        self._starts: dict[tuple[SideName, Any], int] = {}
        self._offsets: dict[SideName, set[tuple[Any, Any]]] = {side: set() for side in SIDES}
        self._caught_up: dict[SideName, bool] = {}
        self._passed: int | None = None
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
            backlog: Whether a side's source has more messages; of other sides it isn't known.
            now: The machine's clock, if it was set back behind ``wall``.
        """
        self._caught_up |= {side: not behind for side, behind in (backlog or {}).items()}
        step, after, before = JoinStep(), dict(self._marks), self._marks.get(("right", None))
        self._some: set[SideName] = set()
        for side in SIDES:
            self._record_starts(side, messages[side])
            for message in messages[side]:
                self._take(side, message, wall if now is None else now, after, step)
        if isinstance(self._spec.bound, SessionBound):
            self._refuse_late_sessions(step)
        for side in SIDES:
            self._pass_time(side, wall, after)
        self._pass_idle_sides(wall, after)
        if self._spec.shared_time and after:
            after = dict.fromkeys(((side, None) for side in SIDES), max(after.values()))
        self._marks = after
        self._let_in(wall, final)
        if isinstance(self._spec.bound, AsOf):
            self._emit_versions(self._spec.bound, step, final)
        elif isinstance(self._spec.bound, Newest):
            self._emit_changes(step)
        elif isinstance(self._spec.bound, ByArrival):
            self._emit_newest(step, before)
        else:
            self._emit_pairs(step, final)
            self._emit_unmatched(step, final)
        self._wall = wall
        step.watermarks = {side: self._marks.get((side, None)) for side in SIDES}
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
        after: dict[tuple[SideName, Any], int],
        step: JoinStep,
    ) -> None:
        """Judge a message by the watermark before this step, and keep it unless it is rejected."""
        given = self._spec.side(side)
        step.counts["seen"] += 1
        offset = tuple(message[column] for column in given.offset or ())
        if offset:
            if offset in self._offsets[side]:
                step.counts[DUPLICATES] += 1
                return
            if None not in offset:
                self._offsets[side].add(offset)
        partition, place = self._placed(side, message)
        reason = self._refused(side, message, wall)
        mark = self._marks.get((side, partition))
        # The position in a partition is passed, whatever else is wrong with the message.
        passed = self._spec.axis == "rows" and None not in offset
        # A window that is emitted early is ahead of the watermark.
        ahead = isinstance(self._spec.bound, Newest) and message["emission"] in ("early", "retract")
        keyless = reason == "null_key" and self._is_timely(side, message, wall)
        if (reason is None or passed or keyless) and not ahead:
            self._some.add(side)
            reached = place + 1 if self._spec.axis == "rows" else place - given.lateness
            after[side, partition] = max(after.get((side, partition), reached), reached)
        # A message of a session is judged together with the whole session.
        by_itself = not isinstance(self._spec.bound, SessionBound)
        by_itself = by_itself and not isinstance(self._spec.bound, ByArrival)
        if reason is None and mark is not None and by_itself and place < self._edge(side, mark):
            reason = "late"
        step.counts[reason or "counted"] += 1
        if reason is not None:
            emitted = None if self._spec.axis == "rows" else mark
            step.rejected.append((side, message, reason, emitted))
            return
        key = tuple(message[column] for column in given.keys)
        late = mark is not None and place < mark
        self._held.append(HeldMessage(side, message, key, partition, place, late))

    def _pass_time(self, side: SideName, wall: int, after: dict[tuple[SideName, Any], int]) -> None:
        """Let the watermark of a silent side follow the wall clock."""
        idle, mark = self._spec.side(side).idle, after.get((side, None))
        if idle is None:
            return
        some, active = side in self._some, self._active.get(side)
        if not some and None not in (mark, active, self._wall):
            after[side, None] = mark + max(0, wall - max(self._wall, active + idle))
        if some or active is None:
            self._active[side] = wall

    def _pass_idle_sides(self, wall: int, after: dict[tuple[SideName, Any], int]) -> None:
        """Move the watermark of an idle side to the other one, so that it doesn't hold it back."""
        if self._spec.axis == "rows" or not after:
            return
        furthest = max(after.values())
        for side in SIDES:
            idle, active = self._spec.side(side).idle, self._active.get(side)
            if idle is not None and active is not None and wall >= active + idle:
                after[side, None] = furthest

    def _refuse_late_sessions(self, step: JoinStep) -> None:
        """Reject the new messages whose whole session was closed before this step."""
        late = [one for one in self._held if not one.let_in and self._is_over(one)]
        for one in late:
            step.counts["counted"] -= 1
            step.counts["late"] += 1
            mark = self._marks.get((one.side, one.partition))
            step.rejected.append((one.side, one.message, "late", mark))
        self._held = [one for one in self._held if one not in late]

    def _is_over(self, one: HeldMessage) -> bool:
        """Return whether the session of a message is closed on both sides."""
        assert isinstance(self._spec.bound, SessionBound)
        edges = [self._edge(side, mark) for (side, _), mark in self._marks.items()]
        reach = self._spec.bound.sessions.reach
        return len(edges) == len(SIDES) and min(edges) - max(self._session(one)) >= reach

    def _placed(self, side: SideName, message: OracleMessage) -> tuple[Any, int]:
        """Return the partition and the position of a message on its axis."""
        given = self._spec.side(side)
        if self._spec.axis == "rows":
            assert given.offset is not None
            partition, number = (message[column] for column in given.offset)
            return partition, 0 if number is None else number - self._starts.get(
                (side, partition), number
            )
        time = message[given.time]  # type: ignore[index]
        return None, time if isinstance(time, int) else 0

    def _refused(self, side: SideName, message: OracleMessage, wall: int) -> str | None:
        given = self._spec.side(side)
        if given.offset is not None and None in [message[column] for column in given.offset]:
            return "malformed"
        if given.time is not None:
            time = message[given.time]
            if isinstance(time, str):
                return "malformed"
            if time is None:
                return "null_time"
        if None in [message[column] for column in self._spec.list_required_keys(side)]:
            return "null_key"
        if given.time is not None:
            if given.max_ahead is not None and message[given.time] > wall + given.max_ahead:
                return "future"
            return "malformed" if abs(message[given.time]) >= MAX_TIME_DISTANCE else None
        return None

    def _is_timely(self, side: SideName, message: OracleMessage, wall: int) -> bool:
        """Return whether a message without a key may move the watermark."""
        given = self._spec.side(side)
        if given.time is None:
            return False
        time = message[given.time]
        far = given.max_ahead is not None and time > wall + given.max_ahead
        return not far and abs(time) < MAX_TIME_DISTANCE

    def _edge(self, side: SideName, mark: int) -> int:
        """Return the least position that isn't late: the start of the first open windows."""
        bound, closed = self._spec.bound, mark - self._spec.side(side).firing.grace
        if isinstance(bound, Together):
            return max(min(start for start, _ in bounds(w, closed)) for w in bound.windows)
        return closed

    def _let_in(self, wall: int, final: bool) -> None:
        for one in self._held:
            firing = self._spec.side(one.side).firing
            policy = firing.late if one.late else firing.early
            if not isinstance(policy, Every):
                one.let_in = True
                continue
            period = policy.period
            due = self._wall is not None and wall // period > self._wall // period
            ended = not one.late and self._ended(one)
            one.let_in = one.let_in or due or ended or final or self._never_matches(one)

    def _ended(self, one: HeldMessage) -> bool:
        """Return whether all windows of its own side that contain a message have ended."""
        windows = self._spec.side(one.side).windows
        mark = self._marks.get((one.side, one.partition))
        if windows is None or mark is None:
            return False
        if isinstance(windows, Moving):
            return one.place < mark
        return all(end <= mark for _, end in bounds(windows, one.place))

    def _emit_pairs(self, step: JoinStep, final: bool) -> None:
        met = [(one, other) for one, other in self._pairs() if other not in one.met]
        emitted = self._once(met) if self._spec.how == "semi" else met
        for one, other in met:
            one.met.add(other)
            one.matched = other.matched = True
        for one, other in emitted:
            late = one.late or other.late
            emission = "full" if final else "late" if late else "early"
            if self._spec.how == "semi":
                step.rows.append(self._row(one, None, emission))
            elif self._spec.how != "anti":
                step.rows.append(self._row(one, other, emission))
        # Only the emissions of the step in which a message arrives say that it came late.
        for one in self._held:
            one.late = one.late and not one.let_in

    def _emit_versions(self, bound: AsOf, step: JoinStep, final: bool) -> None:
        """Emit left messages with their newest right versions, once the right side has passed."""
        left = self._marks.get(("left", None))
        if self._caught_up.get("right") and left is not None:
            # The right side isn't waited for: the greatest time of either one counts.
            reached = left + self._spec.left.lateness - self._spec.right.lateness
            self._passed = reached if self._passed is None else max(self._passed, reached)
        known = (self._marks.get(("right", None)), self._passed)
        passed = max((time for time in known if time is not None), default=None)
        versions = [one for one in self._held if one.side == "right"]
        for one in [one for one in self._held if one.side == "left"]:
            if not final and (passed is None or one.place >= passed):
                one.late = False
                continue
            self._held.remove(one)
            old = [
                (other.place, number)
                for number, other in enumerate(versions)
                if other.key == one.key and None not in one.key and other.place <= one.place
            ]
            place, number = max(old, default=(None, None))
            far = place is not None and bound.most is not None and one.place - place > bound.most
            if number is not None and not far:
                emission = "late" if one.late and not final else "full"
                step.rows.append(self._row(one, versions[number], emission))
            elif "left" in self._spec.outer_sides:
                step.rows.append(self._row(one, None, "full"))

    def _emit_newest(self, step: JoinStep, watermark: int | None) -> None:
        """Emit left messages with the last right row to have arrived.

        ``watermark`` is the right side's before this step; a row goes once it has moved so far on.
        """
        right, now = self._spec.right, self._marks.get(("right", None))
        if right.own_retention is not None and watermark is not None:
            gone = watermark - right.own_retention
            self._table = {key: row for key, row in self._table.items() if (row[0] or 0) >= gone}
        apart = (*right.keys, right.time, *(right.offset or ()))
        for one in [one for one in self._held if one.side == "right"]:
            values = [value for name, value in one.message.items() if name not in apart]
            self._table[one.key] = (now, one)
            if values and all(value is None for value in values):
                del self._table[one.key]
        for one in [one for one in self._held if one.side == "left"]:
            row = self._table.get(one.key) if None not in one.key else None
            if row is not None or "left" in self._spec.outer_sides:
                step.rows.append(self._row(one, row and row[1], "full"))
        self._held = []

    def _emit_changes(self, step: JoinStep) -> None:
        """Emit the pairs of all keys that have a newer row than before."""
        before = {id(one): one for one in self._newest(one for one in self._held if one.matched)}
        for key in dict.fromkeys(one.key for one in self._held if not one.matched):
            mine = [one for one in self._held if one.key == key]
            newest = self._newest(mine)
            if all(id(one) in before for one in newest):
                continue
            there = {one.side: one for one in newest if one.message["emission"] != "retract"}
            was = {
                one.side
                for one in self._newest(one for one in mine if one.matched)
                if one.message["emission"] != "retract"
            }
            revision = sum(one.message["revision"] + 1 for one in newest) - 1
            if self._shows({*there}):
                words = [one.message["emission"] for one in there.values()]
                emission = min(words, key=["early", "late", "full"].index)
                row = self._row(there.get("left"), there.get("right"), emission)
            elif self._shows(was):
                row = dict.fromkeys(self._row(None, None, "retract"))
                row |= zip(self._spec.left.keys, key, strict=True)
                row["emission"] = "retract"
            else:
                continue
            row = {name: row[name] for name in row if name not in ("revision", "emission_right")}
            row.pop("revision_right", None)
            step.rows.append(row | {"revision": revision})
        for one in self._held:
            one.matched = True
        marks = [self._marks.get((side, None)) for side in SIDES]
        if None not in marks:
            graces = [self._spec.side(side).firing.grace for side in SIDES]
            edge = min(mark - grace for mark, grace in zip(marks, graces, strict=True))  # type: ignore[operator]
            self._held = [one for one in self._held if one.place >= edge]

    def _newest(self, some: Iterable[HeldMessage]) -> list[HeldMessage]:
        """Return the last row with the greatest revision of each side and key."""
        found: dict[tuple[SideName, Any], HeldMessage] = {}
        for one in some:
            last = found.setdefault((one.side, one.key), one)
            if one.message["revision"] >= last.message["revision"]:
                found[one.side, one.key] = one
        return list(found.values())

    def _shows(self, sides: set[SideName]) -> bool:
        """Return whether the join emits a pair that has rows of these sides."""
        how = self._spec.how
        if how == "inner":
            return len(sides) == len(SIDES)
        return bool(sides) if how == "full" else how in sides

    def _once(
        self, met: list[tuple[HeldMessage, HeldMessage]]
    ) -> list[tuple[HeldMessage, HeldMessage]]:
        """Return one pair for each left message that is new to matching, preferring one in time."""
        chosen: dict[int, tuple[HeldMessage, HeldMessage]] = {}
        for one, other in met:
            if not one.matched and (id(one) not in chosen or not other.late):
                chosen[id(one)] = (one, other)
        return list(chosen.values())

    def _pairs(self) -> Iterator[tuple[HeldMessage, HeldMessage]]:
        here = [one for one in self._held if one.let_in]
        for one in here:
            for other in here:
                if (one.side, other.side) == SIDES and self._partners(one, other):
                    yield one, other

    def _partners(self, one: HeldMessage, other: HeldMessage) -> bool:
        bound: Bound = self._spec.bound
        if (one.key, one.partition) != (other.key, other.partition):
            return False
        if None in one.key and self._spec.nulls != "group":
            return False
        if isinstance(bound, Within):
            return -bound.before <= other.place - one.place <= bound.after
        if isinstance(bound, Together):
            return all(
                any(start <= other.place < end for start, end in bounds(windows, one.place))
                for windows in bound.windows
            )
        return other.place in self._session(one)

    def _session(self, one: HeldMessage) -> list[int]:
        """Return the positions of a message's session, which has messages of both sides."""
        assert isinstance(self._spec.bound, SessionBound)
        reach = self._spec.bound.sessions.reach
        places = sorted(m.place for m in self._held if m.key == one.key)
        session: list[int] = []
        for place in places:
            if session and place - session[-1] >= reach:
                if one.place in session:
                    return session
                session = []
            session.append(place)
        return session

    def _never_matches(self, one: HeldMessage) -> bool:
        """Return whether a message can't match any more, or its retention is over."""
        mark = self._marks.get((one.side, one.partition))
        kept = self._spec.side(one.side).own_retention
        if mark is not None and kept is not None and one.place < mark - kept:
            return True
        theirs = self._marks.get((OTHER[one.side], one.partition))
        if theirs is None:
            return False
        edge, bound = self._edge(OTHER[one.side], theirs), self._spec.bound
        if isinstance(bound, Within):
            return one.place + (bound.after if one.side == "left" else bound.before) < edge
        if isinstance(bound, Together):
            ends = [max(end for _, end in bounds(w, one.place)) for w in bound.windows]
            return min(ends) <= edge
        return self._is_over(one)

    def _still_asked(self, one: HeldMessage) -> bool:
        """Return whether a matching message waits for its trigger."""
        waits = [m for m in self._held if m.side != one.side and not m.let_in]
        if one.side == "left":
            return any(self._partners(one, other) for other in waits)
        return any(self._partners(other, one) for other in waits)

    def _emit_unmatched(self, step: JoinStep, final: bool) -> None:
        done = [
            one
            for one in self._held
            if final or (self._never_matches(one) and not self._still_asked(one))
        ]
        for one in done:
            if one.side in self._spec.outer_sides and not one.matched:
                left, right = (one, None) if one.side == "left" else (None, one)
                step.rows.append(self._row(left, right, "full"))
        self._held = [one for one in self._held if one not in done]

    def _row(
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
