"""Draws joins, and messages for both sides in steps, like ``tests.property.streams``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from tests.join_runners import Columns, JoinBatch

from muntin.model.bounds import AsOf, Bound, ByArrival, SessionBound, SideName, Together, Within
from muntin.model.cumulating import Cumulating
from muntin.model.joins import HOWS, How, JoinNulls, JoinSpec, Side
from muntin.model.policies import Each, Every, Firing
from muntin.model.sessions import Sessions
from muntin.model.windows import Windows

SPAN = 40
TYPES: Columns = {
    "left": {"key": "string", "time": "long", "id": "long"},
    "right": {"key": "string", "time": "long", "id": "long"},
}
LANES: Columns = {
    side: {**types, "lane": "long", "offset": "long"} for side, types in TYPES.items()
}
EARLY = [Each()]
ALL = [Each(), Every(3), Every(10)]


@dataclass(frozen=True)
class Query:
    """A join, its columns, and its input."""

    spec: JoinSpec
    types: Columns
    steps: list[JoinBatch]


@st.composite
def queries(
    draw: st.DrawFn,
    how: How | None = None,
    policies: list[Any] = ALL,
    orderly: bool = False,
    limit: int | None = None,
) -> Query:
    """Draw a join and its input.

    Args:
        draw: Hypothesis' drawing function.
        how: The join's kind, if it is fixed.
        policies: The trigger policies to draw from.
        orderly: Whether no message is late or malformed, and the input ends.
        limit: The number of messages that a side may keep.
    """
    on_rows = not orderly and draw(st.booleans())
    versions = limit is None and how in (None, "inner", "left")
    axis = "rows" if on_rows else "time"
    # The results of a join by arrival depend on the division of its input into steps.
    bound = draw(
        bounds(axis, sessions=limit is None, versions=versions, arrival=versions and not orderly)
    )
    offset = ("lane", "offset") if on_rows or (not orderly and draw(st.booleans())) else None
    sides: dict[SideName, Side] = {}
    plain = orderly or isinstance(bound, SessionBound | AsOf | ByArrival)
    # A table never expects late messages, and forgets rows by its own clock.
    by_arrival = isinstance(bound, ByArrival)
    for name in ("left", "right"):
        lateness = 0 if on_rows else draw(st.sampled_from([0, 3, 12]))
        if orderly:
            lateness = 2 * SPAN
        grace = 0 if by_arrival else draw(st.sampled_from([0, 0, 4, 20]))
        retentions = (
            [0, 0, 5, 30] if by_arrival and name == "right" else [0] if plain else [0, 0, 5, 30]
        )
        firing = Firing(
            early=draw(st.sampled_from(EARLY if plain else policies)),
            late=draw(st.sampled_from(EARLY if plain else policies)),
            grace=grace,
            retention=grace + draw(st.sampled_from(retentions)),
            rows=limit,
        )
        windows = None
        if isinstance(bound, Within) and draw(st.booleans()):
            windows = Windows(draw(st.integers(2, 9)), 2, 0, bound.axis)
        if isinstance(bound, Together):
            # The windows of the sides bound a pair.
            windows = bound.windows[0 if name == "left" else -1]
        sides[name] = Side(
            ("key",),
            None if on_rows else "time",
            windows=windows,
            firing=firing,
            lateness=lateness,
            max_ahead=None if orderly or on_rows else draw(st.sampled_from([None, 30])),
            offset=offset,
        )
    looks_up = isinstance(bound, AsOf | ByArrival)
    hows: tuple[How, ...] = ("inner", "left") if looks_up else HOWS
    chosen = how or draw(st.sampled_from(hows))
    layout = None
    if chosen == "inner" and not looks_up:
        layout = draw(st.sampled_from([None, "keys", "time"]))
    nulls: JoinNulls = "reject"
    if chosen not in ("inner", "semi") and not isinstance(bound, SessionBound):
        nulls = draw(st.sampled_from(["reject", "unmatched"]))
    shares_time = not on_rows and not by_arrival and draw(st.sampled_from([False, False, True]))
    spec = JoinSpec(
        sides["left"], sides["right"], bound, chosen, layout, nulls=nulls, shared_time=shares_time
    )
    return Query(spec, LANES if offset else TYPES, draw(steps(spec, orderly)))


@st.composite
def bounds(
    draw: st.DrawFn,
    axis: Any,
    sessions: bool = True,
    versions: bool = False,
    arrival: bool = False,
) -> Bound:
    """Draw the bound of a pair."""
    kinds = ["within", "tumbling", "hopping", "two"]
    if axis == "time":
        kinds += ["cumulating", *(["session"] if sessions else [])]
        kinds += ["version", "version"] if versions else []
        kinds += ["arrival", "arrival"] if arrival else []
    kind = draw(st.sampled_from(kinds))
    if kind == "arrival":
        return ByArrival()
    if kind == "version":
        return AsOf(draw(st.sampled_from([None, None, 0, 6])))
    if kind == "session":
        return SessionBound(
            Sessions(draw(st.integers(1, 9)), draw(st.sampled_from(["both", "left"])))
        )
    if kind == "within":
        # A distance of zero rows is refused.
        least = 1 if axis == "rows" else 0
        before, after = draw(st.integers(0, 9)), draw(st.integers(least, 9))
        if axis == "time" and draw(st.booleans()):
            # Partners lie wholly on one side of a message.
            near, far = sorted((before, after))
            before, after = draw(st.sampled_from([(-near, far), (far, -near)]))
        return Within(before, after, axis)
    if kind == "tumbling":
        size = draw(st.integers(1, 12))
        return Together((Windows(size, size, draw(st.integers(0, size - 1)), axis),))
    if kind == "hopping":
        return Together((draw(hops(axis)),))
    if kind == "cumulating":
        step = draw(st.integers(1, 4))
        size = step * draw(st.integers(1, 4))
        return Together((Cumulating(size, step, draw(st.integers(0, size - 1))),))
    other = Cumulating(12, 4, 0, axis) if draw(st.booleans()) and axis == "time" else None
    return Together((draw(hops(axis)), other or draw(hops(axis))))


@st.composite
def hops(draw: st.DrawFn, axis: Any) -> Windows:
    """Draw hopping windows, which may overlap."""
    size = draw(st.integers(1, 12))
    slide = draw(st.integers(1, size))
    return Windows(size, slide, draw(st.integers(0, slide - 1)), axis)


@st.composite
def steps(draw: st.DrawFn, spec: JoinSpec, orderly: bool) -> list[JoinBatch]:
    """Draw the input of a join."""
    number = draw(st.integers(1, 6))
    wall, batches, ids = 0, [], iter(range(1_000_000))
    sent_messages: dict[SideName, list[dict[str, Any]]] = {"left": [], "right": []}
    for step in range(number):
        wall += draw(st.integers(0, 12))
        batch: dict[SideName, list[dict[str, Any]]] = {}
        for side in ("left", "right"):
            batch[side] = []
            for _ in range(draw(st.integers(0, 6))):
                message = draw(messages(spec, side, next(ids), step, sent_messages[side], orderly))
                batch[side].append(message)
                sent_messages[side].append(message)
        ends = step == number - 1 and (orderly or draw(st.booleans()))
        batches.append(JoinBatch(batch["left"], batch["right"], wall, ends))
    return batches


@st.composite
def messages(
    draw: st.DrawFn,
    spec: JoinSpec,
    side: SideName,
    number: int,
    step: int,
    sent: list[dict[str, Any]],
    orderly: bool,
) -> dict[str, Any]:
    """Draw a message; with offsets, it may repeat an earlier one."""
    side_spec = spec.side(side)
    if side_spec.offset and sent and draw(st.integers(0, 9)) == 0:
        repeated = draw(st.sampled_from(sent))
        # Only its offset shows that it is the same message.
        return repeated | draw(st.sampled_from([{}, {}, {"key": "b"}, {"id": number}]))
    times: st.SearchStrategy[Any] = st.integers(0, SPAN)
    if not orderly:
        near_times = st.integers(max(0, 7 * step - 15), 7 * step + 7)
        times = st.one_of(
            near_times, near_times, near_times, near_times, st.none(), st.just("soon")
        )
    # Most messages have the same key, so that they match.
    keys: list[str | None] = ["a", "b"] if orderly else [*"aaaaaabbb", None]
    if not spec.list_required_keys(side):
        keys += [None]
    message = {"key": draw(st.sampled_from(keys)), "time": draw(times), "id": number}
    if isinstance(spec.bound, ByArrival) and side == "right" and draw(st.integers(0, 4)) == 0:
        message["id"] = None
    if side_spec.offset:
        lane = draw(st.sampled_from([0, 0, 0, 1]))
        lane_messages = [m for m in sent if m["lane"] == lane and m["offset"] is not None]
        last = max((m["offset"] for m in lane_messages), default=None)
        start = 100 if side == "left" else 7
        offset = start if last is None else last + draw(st.sampled_from([1, 1, 1, 2, 5]))
        message |= {"lane": lane, "offset": offset}
        # A few have no partition or no offset.
        message |= draw(st.sampled_from([{}] * 10 + [{"lane": None}, {"offset": None}]))
        if side_spec.time is None:
            message["time"] = 0
    return message
