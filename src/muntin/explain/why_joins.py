"""Why a message of a join has partners, or none, or is rejected: watermarks, reach and state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from muntin.explain.joins import conditions
from muntin.model.axis import located, spell
from muntin.model.joins import OTHER, SIDES, AsOf, JoinSpec, Joint, Newest, SideName


@dataclass(frozen=True)
class SideSeen:
    """One side of a join, as the state has it for one key.

    Attributes:
        watermark: Where the side's watermark is; ``None`` before its first message.
        kept_from: The first place that is kept; ``None`` where all are.
        places: Where the key's messages lie that are kept.
        waiting: Those of them that wait for their policy to let them in.
        matched: Those of them that have found a partner, where the join notes that.
    """

    watermark: int | None
    kept_from: int | None
    places: Sequence[int]
    waiting: Sequence[int] = ()
    matched: Sequence[int] = ()


Seen = Mapping[SideName, SideSeen]


def about_join(spec: JoinSpec) -> Iterator[str]:
    """The join in two lines."""
    yield f"join       {spec.how}, on {conditions(spec)}"
    yield f"partners   {spec.bound}"


def of_null_key(spec: JoinSpec) -> Iterator[str]:
    """What becomes of messages with NULL in a key."""
    for side in SIDES:
        taken = not spec.required(side)
        word = "is emitted unmatched" if taken else "is rejected as null_key"
        yield f"{side:10} a message with NULL in its key has no partner: it {word}"


def of_join(spec: JoinSpec, seen: Seen, at: int, start: Mapping[SideName, int]) -> Iterator[str]:
    """What is true of a key's messages at a place on either side.

    Args:
        spec: The join.
        seen: What the state has of the key.
        at: The place: a time, or an offset.
        start: The offset from which each side counts its places; 0 in time.
    """
    for side in SIDES:
        first, *more = _Message(spec, seen, start, side, at - start[side]).lines()
        yield f"{side:10} {first}"
        yield from (f"{'':10} {line}" for line in more)


@dataclass(frozen=True)
class _Message:
    """A message of one side, at a place that is counted as that side does."""

    spec: JoinSpec
    seen: Seen
    start: Mapping[SideName, int]
    side: SideName
    at: int

    @property
    def mine(self) -> SideSeen:
        return self.seen[self.side]

    @property
    def other(self) -> SideSeen:
        return self.seen[OTHER[self.side]]

    def _place(self, place: int) -> str:
        return located(place + self.start[self.side], self.spec.axis)

    def _theirs(self, place: int) -> str:
        return located(place + self.start[OTHER[self.side]], self.spec.axis)

    def lines(self) -> Iterator[str]:
        mine = self.mine
        mark = "none yet" if mine.watermark is None else self._place(mine.watermark)
        yield f"watermark {mark}; {len(mine.places):,} messages of this key are kept"
        yield from self._kept() if self.at in mine.places else self._not_kept()

    def _kept(self) -> Iterator[str]:
        here, partners = f"a message at {self._place(self.at)}", sorted(self._partners())
        if self.at in self.mine.waiting:
            firing = self.spec.side(self.side).firing
            policies = f"{firing.early} early, {firing.late} late"
            yield f"{here} is kept, and waits for its policy: {policies}"
        if partners:
            shown = ", ".join(map(self._theirs, partners[:3]))
            shown += f" and {len(partners) - 3:,} more" if len(partners) > 3 else ""
            yield f"{here} has {len(partners):,} partners that are kept: at {shown}"
            yield from self._gone()
            return
        yield f"{here} has no partner among what is kept: {self._missing()}"
        if not isinstance(self.spec.bound, Joint | AsOf | Newest):
            low, high = map(self._theirs, self.spec.bound.partners(self.side, self.at, self.at))
            yield f"partners lie from {low} to {high}, both included"
        yield from self._gone()
        yield self._patience()

    def _not_kept(self) -> Iterator[str]:
        here = self._place(self.at)
        yield f"no message of this key is kept at {here}"
        if self.spec.how == "semi" and self.side == "left":
            yield "one that has found a partner was emitted then, and isn't kept"
        yield from self._gone_before()
        edge = self._edge()
        if edge is None:
            yield f"a message at {here} would be taken now"
            return
        grace = spell(self.spec.side(self.side).firing.grace, self.spec.axis)
        yield (
            f"a message at {here} is rejected as late: the first place that is taken is "
            f"{self._place(edge)} (grace {grace}); a larger lateness or grace would take it"
        )

    def _gone_before(self) -> Iterator[str]:
        """What is known of messages that lie before all that is kept."""
        kept, bound = self.mine.kept_from, self.spec.bound
        if kept is None or self.at >= kept or isinstance(bound, Joint):
            return
        first = self._place(kept)
        if isinstance(bound, Newest):
            yield f"all before {first} have gone: neither side may change a window there"
        elif not isinstance(bound, AsOf):
            yield (
                f"all before {first} have gone, and which there were isn't known: no "
                f"{OTHER[self.side]} message can come that would be their partner, or keep() has "
                f"let them go. {self._unmatched()}"
            )
        elif self.side == "left":
            yield f"those before {first} have had their version, or none"
        else:
            yield f"of those before {first} the newest of each key is kept"

    def _partners(self) -> list[int]:
        """The places of the other side's messages that are partners of this one."""
        bound, at = self.spec.bound, self.at
        if isinstance(bound, AsOf):
            if self.side == "left":
                found = self._version(bound, at)
                return [] if found is None else [found]
            # Those that wait, and whose version it is.
            return [place for place in self.other.places if self._version(bound, place) == at]
        if isinstance(bound, Joint):
            low, high = self._session(bound)
        else:
            low, high = bound.partners(self.side, at, at)
        return [place for place in self.other.places if low <= place <= high]

    def _version(self, bound: AsOf, at: int) -> int | None:
        """The version of a left message."""
        newest = max((place for place in self.seen["right"].places if place <= at), default=None)
        far = newest is not None and bound.most is not None and at - newest > bound.most
        return None if far else newest

    def _session(self, bound: Joint) -> tuple[int, int]:
        """The first and the last place of the session that it is in, or would be."""
        places = sorted(place for side in SIDES for place in self.seen[side].places)
        low = high = self.at
        for place in (p for p in places if p > self.at):
            high = place if place - high < bound.sessions.reach else high
        for place in reversed([p for p in places if p < self.at]):
            low = place if low - place < bound.sessions.reach else low
        return low, high

    def _edge(self) -> int | None:
        """The first place that its side takes, where that is behind it; else ``None``."""
        bound = self.spec.bound
        if isinstance(bound, Joint):
            marks = [
                (self.seen[name].watermark, self.spec.side(name).firing.grace) for name in SIDES
            ]
            known = [mark - grace for mark, grace in marks if mark is not None]
            if len(known) < len(SIDES):
                return None
            edge = min(known) - bound.sessions.reach + 1
            # It is judged by the whole session that it would join.
            return edge if self._session(bound)[1] < edge else None
        if self.mine.watermark is None:
            return None
        edge = bound.first_taken(self.mine.watermark, self.spec.side(self.side).firing.grace)
        return edge if self.at < edge else None

    def _missing(self) -> str:
        if not self.other.places:
            return f"no {OTHER[self.side]} message of this key is kept"
        within = "session" if isinstance(self.spec.bound, Joint) else "reach"
        if isinstance(self.spec.bound, AsOf):
            within = "past" if self.side == "left" else "time"
        if isinstance(self.spec.bound, Newest):
            within = "window"
        count = f"{len(self.other.places):,} {OTHER[self.side]} messages"
        return f"none of the {count} of this key is in its {within}"

    def _gone(self) -> Iterator[str]:
        """What is known of its partners that aren't kept any more."""
        place, bound = self.other.kept_from, self.spec.bound
        # A session goes as a whole, on both sides, and so does a pair that may change.
        if isinstance(bound, Joint | AsOf | Newest) or place is None:
            return
        if bound.partners(self.side, self.at, self.at)[0] >= place:
            return
        gone = f"{OTHER[self.side]} messages before {self._theirs(place)} have gone"
        if self.side in self.spec.marked and self.at not in self.mine.matched:
            yield f"{gone}; it had no partner among them"
        elif self.side in self.spec.marked and not self._partners():
            yield f"{gone}; it had a partner among them, or several"
        else:
            yield f"{gone}, and whether it had partners among them isn't known"

    def _patience(self) -> str:
        if isinstance(self.spec.bound, Joint):
            until = "until its session ends on both sides"
        elif isinstance(self.spec.bound, Newest):
            return f"it is kept while either side may change its window. {self._unmatched()}"
        elif isinstance(self.spec.bound, AsOf):
            until = "until the right side's watermark has passed it"
            if self.side == "right":
                return (
                    "it is kept until a newer version lies before all that the left side may bring"
                )
        else:
            until = f"until the {OTHER[self.side]} side's watermark leaves no room for a partner"
        if self.at in self.mine.matched:
            return f"it is kept {until}, and has had a partner"
        return f"it is kept {until}. {self._unmatched()}"

    def _unmatched(self) -> str:
        side = self.side
        if isinstance(self.spec.bound, Newest) and side in self.spec.unmatched:
            return f"Unmatched rows of the {side} side are emitted at once"
        if side in self.spec.unmatched:
            return f"Then the {side} side's unmatched messages are emitted"
        return f"Unmatched messages of the {side} side aren't emitted: the join is {self.spec.how}"
