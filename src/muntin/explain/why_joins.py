"""Why a message of a join has partners, or none, or is rejected: watermarks, reach and state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

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
Word = Callable[[int], str]


def about_join(spec: JoinSpec) -> Iterator[str]:
    """The join in two lines."""
    pairs = zip(spec.left.keys, spec.right.keys, strict=True)
    on = ", ".join(one if one == other else f"{one} = {other}" for one, other in pairs)
    yield f"join       {spec.how}, on {on}"
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
        yield from _of_side(spec, seen, side, at - start[side], start)


def _of_side(
    spec: JoinSpec, seen: Seen, side: SideName, at: int, start: Mapping[SideName, int]
) -> Iterator[str]:
    mine, other = seen[side], seen[OTHER[side]]

    def word(place: int, whose: SideName = side) -> str:
        return located(place + start[whose], spec.axis)

    mark = "none yet" if mine.watermark is None else word(mine.watermark)
    yield f"{side:10} watermark {mark}; {len(mine.places):,} messages of this key are kept"
    here = f"a message at {word(at)}"
    if at in mine.places:
        partners = sorted(_partners(spec, seen, side, at))
        if at in mine.waiting:
            yield f"           {here} is kept, and waits for its policy: {_policies(spec, side)}"
        if partners:
            shown = ", ".join(word(p, OTHER[side]) for p in partners[:3])
            shown += f" and {len(partners) - 3:,} more" if len(partners) > 3 else ""
            yield f"           {here} has {len(partners):,} partners that are kept: at {shown}"
            yield from _gone(spec, seen, side, at, lambda place: word(place, OTHER[side]))
        else:
            why = _missing(spec, other, side)
            yield f"           {here} has no partner among what is kept: {why}"
            yield from _reach(spec, side, at, lambda place: word(place, OTHER[side]))
            yield from _gone(spec, seen, side, at, lambda place: word(place, OTHER[side]))
            yield f"           {_patience(spec, side, at in mine.matched)}"
        return
    yield f"           no message of this key is kept at {word(at)}"
    if spec.how == "semi" and side == "left":
        yield "           one that has found a partner was emitted then, and isn't kept"
    yield from _gone_before(spec, mine, side, at, word)
    edge = _edge(spec, seen, side, at)
    if edge is None:
        yield f"           {here} would be taken now"
    else:
        grace = spell(spec.side(side).firing.grace, spec.axis)
        yield (
            f"           {here} is rejected as late: the first place that is taken is {word(edge)} "
            f"(grace {grace}); a larger lateness or grace would take it"
        )


def _gone_before(
    spec: JoinSpec, mine: SideSeen, side: SideName, at: int, word: Word
) -> Iterator[str]:
    """What is known of messages that lie before all that is kept."""
    if mine.kept_from is None or at >= mine.kept_from or isinstance(spec.bound, Joint):
        return
    first = word(mine.kept_from)
    if isinstance(spec.bound, Newest):
        yield f"           all before {first} have gone: neither side may change a window there"
    elif not isinstance(spec.bound, AsOf):
        yield (
            f"           all before {first} have gone, and which there were isn't "
            f"known: no {OTHER[side]} message can come that would be their partner, or keep() has "
            f"let them go. {_unmatched(spec, side)}"
        )
    elif side == "left":
        yield f"           those before {first} have had their version, or none"
    else:
        yield f"           of those before {first} the newest of each key is kept"


def _partners(spec: JoinSpec, seen: Seen, side: SideName, at: int) -> list[int]:
    """The places of the other side's messages that are partners of one."""
    places = seen[OTHER[side]].places
    if isinstance(spec.bound, AsOf):
        return _versions(spec.bound, seen, side, at)
    if isinstance(spec.bound, Joint):
        low, high = _session(spec.bound, seen, at)
    else:
        low, high = spec.bound.partners(side, at, at)
    return [place for place in places if low <= place <= high]


def _versions(bound: AsOf, seen: Seen, side: SideName, at: int) -> list[int]:
    """The version of a left message, or the left messages that wait and whose version it is."""

    def version(asked: int) -> int | None:
        old = [place for place in seen["right"].places if place <= asked]
        newest = max(old, default=None)
        far = newest is not None and bound.most is not None and asked - newest > bound.most
        return None if far else newest

    if side == "left":
        found = version(at)
        return [] if found is None else [found]
    return [place for place in seen["left"].places if version(place) == at]


def _session(bound: Joint, seen: Seen, at: int) -> tuple[int, int]:
    """The first and the last place of the session that a message is in, or would be."""
    places = sorted(place for side in SIDES for place in seen[side].places)
    low = high = at
    for place in (p for p in places if p > at):
        high = place if place - high < bound.sessions.reach else high
    for place in reversed([p for p in places if p < at]):
        low = place if low - place < bound.sessions.reach else low
    return low, high


def _edge(spec: JoinSpec, seen: Seen, side: SideName, at: int) -> int | None:
    """The first place that a side takes, where that is behind a place; else ``None``."""
    if isinstance(spec.bound, Joint):
        marks = [(seen[name].watermark, spec.side(name).firing.grace) for name in SIDES]
        known = [mark - grace for mark, grace in marks if mark is not None]
        if len(known) < len(SIDES):
            return None
        edge = min(known) - spec.bound.sessions.reach + 1
        # It is judged by the whole session that it would join.
        return edge if _session(spec.bound, seen, at)[1] < edge else None
    mark = seen[side].watermark
    if mark is None:
        return None
    edge = spec.bound.first_taken(mark, spec.side(side).firing.grace)
    return edge if at < edge else None


def _missing(spec: JoinSpec, other: SideSeen, side: SideName) -> str:
    if not other.places:
        return f"no {OTHER[side]} message of this key is kept"
    within = "session" if isinstance(spec.bound, Joint) else "reach"
    if isinstance(spec.bound, AsOf):
        within = "past" if side == "left" else "time"
    if isinstance(spec.bound, Newest):
        within = "window"
    count = f"{len(other.places):,} {OTHER[side]} messages"
    return f"none of the {count} of this key is in its {within}"


def _reach(spec: JoinSpec, side: SideName, at: int, word: Word) -> Iterator[str]:
    if not isinstance(spec.bound, Joint | AsOf | Newest):
        low, high = spec.bound.partners(side, at, at)
        yield f"           partners lie from {word(low)} to {word(high)}, both included"


def _gone(spec: JoinSpec, seen: Seen, side: SideName, at: int, word: Word) -> Iterator[str]:
    """What is known of partners of a message that aren't kept any more."""
    place = seen[OTHER[side]].kept_from
    # A session goes as a whole, on both sides, and so does a pair that may change.
    if isinstance(spec.bound, Joint | AsOf | Newest) or place is None:
        return
    if spec.bound.partners(side, at, at)[0] >= place:
        return
    gone = f"{OTHER[side]} messages before {word(place)} have gone"
    if side in spec.marked and at not in seen[side].matched:
        yield f"           {gone}; it had no partner among them"
    elif side in spec.marked and not _partners(spec, seen, side, at):
        yield f"           {gone}; it had a partner among them, or several"
    else:
        yield f"           {gone}, and whether it had partners among them isn't known"


def _patience(spec: JoinSpec, side: SideName, matched: bool) -> str:
    if isinstance(spec.bound, Joint):
        until = "until its session ends on both sides"
    elif isinstance(spec.bound, Newest):
        return f"it is kept while either side may change its window. {_unmatched(spec, side)}"
    elif isinstance(spec.bound, AsOf):
        until = "until the right side's watermark has passed it"
        if side == "right":
            return "it is kept until a newer version lies before all that the left side may bring"
    else:
        until = f"until the {OTHER[side]} side's watermark leaves no room for a partner"
    if matched:
        return f"it is kept {until}, and has had a partner"
    return f"it is kept {until}. {_unmatched(spec, side)}"


def _unmatched(spec: JoinSpec, side: SideName) -> str:
    if isinstance(spec.bound, Newest) and side in spec.unmatched:
        return f"Unmatched rows of the {side} side are emitted at once"
    if side in spec.unmatched:
        return f"Then the {side} side's unmatched messages are emitted"
    return f"Unmatched messages of the {side} side aren't emitted: the join is {spec.how}"


def _policies(spec: JoinSpec, side: SideName) -> str:
    firing = spec.side(side).firing
    return f"{firing.early} early, {firing.late} late"
