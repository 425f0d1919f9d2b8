"""Explains why a message of a join has partners, or none, or is rejected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from muntin.explain.joins import describe_conditions
from muntin.model.axis import format_length, format_position
from muntin.model.bounds import AsOf, ByArrival, SessionBound, SideName
from muntin.model.joins import OTHER, SIDES, JoinSpec


@dataclass(frozen=True)
class SideSeen:
    """The state of one side of a join for one key.

    Attributes:
        kept_from: The first position that is kept; ``None`` if all are.
        positions: The positions of the key's kept messages.
        waiting: The positions of messages that wait for their trigger policy.
        matched: The positions of messages that have had a partner, if the join records that.
    """

    watermark: int | None
    kept_from: int | None
    positions: Sequence[int]
    waiting: Sequence[int] = ()
    matched: Sequence[int] = ()


SeenBySide = Mapping[SideName, SideSeen]


def describe_join_state(spec: JoinSpec) -> Iterator[str]:
    """Describe the join in two lines."""
    yield f"join       {spec.how}, on {describe_conditions(spec)}"
    yield f"partners   {spec.bound}"


def explain_null_keys(spec: JoinSpec) -> Iterator[str]:
    """Explain messages with NULL in a key."""
    for side in SIDES:
        is_emitted = not spec.list_required_keys(side)
        word = "is emitted unmatched" if is_emitted else "is rejected as null_key"
        yield f"{side:10} a message with NULL in its key has no partner: it {word}"


def explain_positions(
    spec: JoinSpec, seen: SeenBySide, at: int, start: Mapping[SideName, int]
) -> Iterator[str]:
    """Explain a key's messages at a position (a time, or an offset) on either side.

    ``start`` is the offset from which each side counts its positions; 0 for times.
    """
    for side in SIDES:
        first, *more = _Message(spec, seen, start, side, at - start[side]).lines()
        yield f"{side:10} {first}"
        yield from (f"{'':10} {line}" for line in more)


@dataclass(frozen=True)
class _Message:
    """A message of one side, at a position as that side counts it."""

    spec: JoinSpec
    seen: SeenBySide
    start: Mapping[SideName, int]
    side: SideName
    at: int

    @property
    def mine(self) -> SideSeen:
        return self.seen[self.side]

    @property
    def other(self) -> SideSeen:
        return self.seen[OTHER[self.side]]

    def _format_own(self, position: int) -> str:
        return format_position(position + self.start[self.side], self.spec.axis)

    def _format_other(self, position: int) -> str:
        return format_position(position + self.start[OTHER[self.side]], self.spec.axis)

    def lines(self) -> Iterator[str]:
        mine = self.mine
        mark = "none yet" if mine.watermark is None else self._format_own(mine.watermark)
        yield f"watermark {mark}; {len(mine.positions):,} messages of this key are kept"
        if isinstance(self.spec.bound, ByArrival):
            yield self._explain_left() if self.side == "left" else self._explain_row()
            return
        yield from self._explain_kept() if self.at in mine.positions else self._explain_not_kept()

    def _explain_left(self) -> str:
        """Explain a left message of a join by arrival, which isn't kept."""
        rows = self.other.positions
        if rows:
            partner = f"has the row at {self._format_other(rows[-1])}"
        elif self.side in self.spec.outer_sides:
            partner = "is emitted unmatched, as this key has no row"
        else:
            partner = "isn't emitted, as this key has no row"
        return f"messages aren't kept: one that arrives now {partner}, whatever its time"

    def _explain_row(self) -> str:
        """Explain a right row of a join by arrival."""
        here, rows = f"a row at {self._format_own(self.at)}", self.mine.positions
        if self.at in rows:
            return f"{here} is the newest to have arrived: left messages are joined with it"
        if rows:
            return (
                f"{here} isn't the newest to have arrived: that is at {self._format_own(rows[-1])}"
            )
        return "this key has no row: none has arrived, it was deleted, or keep() has let it go"

    def _explain_kept(self) -> Iterator[str]:
        here, partners = f"a message at {self._format_own(self.at)}", sorted(self._find_partners())
        if self.at in self.mine.waiting:
            firing = self.spec.side(self.side).firing
            policies = f"{firing.early} early, {firing.late} late"
            yield f"{here} is kept, and waits for its policy: {policies}"
        if partners:
            shown = ", ".join(map(self._format_other, partners[:3]))
            shown += f" and {len(partners) - 3:,} more" if len(partners) > 3 else ""
            yield f"{here} has {len(partners):,} partners that are kept: at {shown}"
            yield from self._explain_dropped_partners()
            return
        yield f"{here} has no partner among what is kept: {self._describe_missing()}"
        if self.spec.bound.has_range:
            low, high = map(
                self._format_other, self.spec.bound.partners(self.side, self.at, self.at)
            )
            yield f"partners lie from {low} to {high}, both included"
        yield from self._explain_dropped_partners()
        yield self._describe_retention()

    def _explain_not_kept(self) -> Iterator[str]:
        here = self._format_own(self.at)
        yield f"no message of this key is kept at {here}"
        if self.spec.how == "semi" and self.side == "left":
            yield "one that has found a partner was emitted then, and isn't kept"
        yield from self._explain_dropped()
        edge = self._find_edge()
        if edge is None:
            yield f"a message at {here} would be taken now"
            return
        grace = format_length(self.spec.side(self.side).firing.grace, self.spec.axis)
        yield (
            f"a message at {here} is rejected as late: the first accepted position is "
            f"{self._format_own(edge)} (grace {grace}); a larger lateness or grace would accept it"
        )

    def _explain_dropped(self) -> Iterator[str]:
        """Explain messages before the first kept position."""
        kept_from, bound = self.mine.kept_from, self.spec.bound
        if kept_from is None or self.at >= kept_from or isinstance(bound, SessionBound):
            return
        first = self._format_own(kept_from)
        if bound.revises:
            yield f"all before {first} were deleted: neither side may change a window there"
        elif not isinstance(bound, AsOf):
            yield (
                f"all before {first} were deleted, and aren't known any more: no "
                f"{OTHER[self.side]} message can come that would be their partner, or keep() "
                f"deleted them. {self._describe_unmatched()}"
            )
        elif self.side == "left":
            yield f"those before {first} have had their version, or none"
        else:
            yield f"of those before {first} the newest of each key is kept"

    def _find_partners(self) -> list[int]:
        """Return the positions of this message's partners on the other side."""
        bound, at = self.spec.bound, self.at
        if isinstance(bound, AsOf):
            if self.side == "left":
                version = self._find_version(bound, at)
                return [] if version is None else [version]
            # The waiting messages whose version it is.
            return [
                position
                for position in self.other.positions
                if self._find_version(bound, position) == at
            ]
        if isinstance(bound, SessionBound):
            low, high = self._find_session(bound)
        else:
            low, high = bound.partners(self.side, at, at)
        return [position for position in self.other.positions if low <= position <= high]

    def _find_version(self, bound: AsOf, at: int) -> int | None:
        newest = max(
            (position for position in self.seen["right"].positions if position <= at), default=None
        )
        far = newest is not None and bound.most is not None and at - newest > bound.most
        return None if far else newest

    def _find_session(self, bound: SessionBound) -> tuple[int, int]:
        """Return the first and the last position of the session that it would join."""
        positions = sorted(position for side in SIDES for position in self.seen[side].positions)
        low = high = self.at
        for position in (p for p in positions if p > self.at):
            high = position if position - high < bound.sessions.reach else high
        for position in reversed([p for p in positions if p < self.at]):
            low = position if low - position < bound.sessions.reach else low
        return low, high

    def _find_edge(self) -> int | None:
        """Return the first position that its side accepts, if the message is before it."""
        bound = self.spec.bound
        if isinstance(bound, SessionBound):
            watermarks_and_graces = [
                (self.seen[name].watermark, self.spec.side(name).firing.grace) for name in SIDES
            ]
            first_open = [
                bound.first_taken(watermark, grace)
                for watermark, grace in watermarks_and_graces
                if watermark is not None
            ]
            if len(first_open) < len(SIDES):
                return None
            edge = min(first_open)
            # The whole session that it would join decides.
            return edge if self._find_session(bound)[1] < edge else None
        if self.mine.watermark is None:
            return None
        edge = bound.first_taken(self.mine.watermark, self.spec.side(self.side).firing.grace)
        return edge if self.at < edge else None

    def _describe_missing(self) -> str:
        if not self.other.positions:
            return f"no {OTHER[self.side]} message of this key is kept"
        within = "session" if isinstance(self.spec.bound, SessionBound) else "reach"
        if isinstance(self.spec.bound, AsOf):
            within = "past" if self.side == "left" else "time"
        if self.spec.bound.revises:
            within = "window"
        count = f"{len(self.other.positions):,} {OTHER[self.side]} messages"
        return f"none of the {count} of this key is in its {within}"

    def _explain_dropped_partners(self) -> Iterator[str]:
        """Explain partners that aren't kept any more."""
        first_kept, bound = self.other.kept_from, self.spec.bound
        # Sessions and pairs that may change are dropped as a whole, on both sides.
        if not bound.has_range or first_kept is None:
            return
        if bound.partners(self.side, self.at, self.at)[0] >= first_kept:
            return
        gone = f"{OTHER[self.side]} messages before {self._format_other(first_kept)} were deleted"
        if self.side in self.spec.sides_to_mark and self.at not in self.mine.matched:
            yield f"{gone}; it had no partner among them"
        elif self.side in self.spec.sides_to_mark and not self._find_partners():
            yield f"{gone}; it had a partner among them, or several"
        else:
            yield f"{gone}, and whether it had partners among them isn't known"

    def _describe_retention(self) -> str:
        if isinstance(self.spec.bound, SessionBound):
            until = "until its session ends on both sides"
        elif self.spec.bound.revises:
            return (
                f"it is kept while either side may change its window. {self._describe_unmatched()}"
            )
        elif isinstance(self.spec.bound, AsOf):
            until = (
                "until the right side's watermark has passed it, or its topic is read to its end"
            )
            if self.side == "right":
                return (
                    "it is kept until a newer version lies before all that the left side may bring"
                )
        else:
            until = f"until the {OTHER[self.side]} side's watermark leaves no room for a partner"
        if self.at in self.mine.matched:
            return f"it is kept {until}, and has had a partner"
        return f"it is kept {until}. {self._describe_unmatched()}"

    def _describe_unmatched(self) -> str:
        side = self.side
        if self.spec.bound.revises and side in self.spec.outer_sides:
            return f"Unmatched rows of the {side} side are emitted at once"
        if side in self.spec.outer_sides:
            return f"Then the {side} side's unmatched messages are emitted"
        return f"Unmatched messages of the {side} side aren't emitted: the join is {self.spec.how}"
