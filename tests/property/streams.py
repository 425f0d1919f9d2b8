"""Draws queries, and streams of messages in steps.

Times are small numbers of some unit around some base, so that windows, ties and edges meet often.
A message arrives at its time plus a delay. While no delay exceeds the lateness nothing is late;
``any_streams`` lets delays exceed lateness and grace together.

A ``Range`` says which kinds of windows are drawn, on which axes, with which aggregates, and whether
messages have offsets and are repeated. ``FIRST`` is the default, ``EVERYTHING`` has all kinds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st
from tests.property.computed import AGGREGATES, FULL_STATE, NAMES, NUMBERS, OF_NAMES
from tests.runners import Batch

from muntin.model.axis import DAY, HOUR, Axis, parse_time
from muntin.model.cumulating import Cumulating
from muntin.model.days import Days, Hours
from muntin.model.fill import Fill
from muntin.model.kinds import Kind
from muntin.model.policies import (
    After,
    Each,
    Every,
    EveryRows,
    Firing,
    FirstThen,
    RowsOrEvery,
    When,
)
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.spec import WindowSpec
from muntin.model.trailing import LOOK_BACK, Trailing
from muntin.model.windows import Windows

SPAN = 40
UNITS = (1, 7_919, 1_000_000)
BASES = (0, -SPAN, -SPAN // 2, 1_000_000_007)
EXTREMES = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""The first and last microsecond that a timestamp can hold: year 1 and year 9999."""

CHANGES = {
    "Europe/Berlin": parse_time("change", "2026-03-29T01:00:00"),
    "America/Sao_Paulo": parse_time("change", "2018-11-04T03:00:00"),
    "America/New_York": parse_time("change", "2026-11-01T06:00:00"),
}
"""Zones, and an instant when their clocks change; messages of windows of days lie around it."""
POSITIONS = ("time", "arrival", "offset")


@dataclass(frozen=True)
class Range:
    """The range that streams are drawn from.

    Attributes:
        kinds: ``fixed`` (tumbling, hopping), ``cumulating``, ``days``, ``sliding``, ``sessions``,
            ``own gaps`` (sessions of which each message has its own gap), ``longest`` (sessions
            with a longest duration), ``cut`` (sessions that conditions split), ``trailing``.
        positions: What a message's position may be: ``time``, ``arrival`` or ``offset``.
        full_state: Whether aggregates may need all messages of a window.
        replays: Whether messages may have offsets on the time axis too, and be repeated.
        keyless: Whether a query may have no key.
        wide: Whether there may be several keys, or boolean ones, and text, NaN or infinite values.
    """

    kinds: tuple[str, ...] = ("fixed",)
    positions: tuple[str, ...] = ("time",)
    full_state: bool = False
    replays: bool = False
    keyless: bool = False
    wide: bool = False

    def choices(self) -> list[tuple[str, str]]:
        """Return the valid pairs of a kind and a position."""
        return [
            (kind, position)
            for kind in self.kinds
            for position in self.positions
            if (kind, position) not in _IMPOSSIBLE
        ]


_IMPOSSIBLE = {
    ("days", "arrival"), ("days", "offset"), ("sessions", "arrival"), ("own gaps", "arrival"),
    ("own gaps", "offset"), ("longest", "arrival"), ("longest", "offset"),
    ("trailing", "arrival"), ("trailing", "offset"),
    ("cut", "arrival"), ("cut", "offset"),
}  # fmt: skip
SESSIONS = ("sessions", "own gaps", "longest", "cut")
CUT_TYPES = {"opens": "boolean", "state": "long"}
"""The columns that split sessions, in addition to ``flag``."""
FIRST = Range()
EVERYTHING = Range(
    ("fixed", "cumulating", "days", "sliding", "sessions"),
    POSITIONS,
    full_state=True,
    replays=True,
    keyless=True,
)
WIDEST = replace(EVERYTHING, wide=True)


@dataclass(frozen=True)
class Setup:
    """The parameters of one stream.

    Attributes:
        kind: The kind of its windows.
        position: The position of a message: ``time``, ``arrival`` or ``offset``.
        unit: The length of one slot on the axis.
        base: The first slot.
        zone: The time zone of windows of days.
        replays: Whether messages are repeated.
        full_state: Whether aggregates may need all messages of a window.
        keyless: Whether the query has no key of its own.
        second: Whether the query has a second key.
        wide: Whether values may be text, NaN or infinite.
    """

    kind: str
    position: str
    unit: int
    base: int
    zone: str
    replays: bool
    full_state: bool
    keyless: bool
    second: bool
    wide: bool

    @property
    def keys(self) -> tuple[str, ...]:
        key_columns = () if self.keyless else ("key", "second") if self.second else ("key",)
        return ("partition", *key_columns) if self.position == "offset" else key_columns

    @property
    def axis(self) -> Axis:
        return "time" if self.position == "time" else "rows"

    @property
    def has_offsets(self) -> bool:
        return self.replays or self.position == "offset"


@dataclass(frozen=True)
class Stream:
    """A query and the steps of its input."""

    spec: WindowSpec
    steps: list[Batch]


@dataclass(frozen=True)
class Twins:
    """A query and one set of messages, arranged in two ways."""

    spec: WindowSpec
    first: list[Batch]
    second: list[Batch]


@st.composite
def any_streams(draw: st.DrawFn, drawn_from: Range = FIRST) -> Stream:
    """Draw a stream with late and future messages, nulls, extreme times, and any policy."""
    setup = draw(setups(drawn_from))
    unit, base = setup.unit, setup.base
    spec = draw(specs(setup))
    # The oracle looks at each instant between two messages.
    extreme = setup.kind not in ("days", "trailing") and draw(st.integers(0, 9)) == 0
    messages = draw(message_lists(spec, setup, extreme=extreme))
    longest_delay = spec.lateness + draw(st.sampled_from((0, SPAN * unit, SPAN * unit)))
    arrived_messages = draw(arrivals(spec, messages, longest_delay // unit, unit))
    if setup.replays:
        arrived_messages = draw(insert_replays(arrived_messages))
    return Stream(spec, draw(splits(arrived_messages, unit, base)))


@st.composite
def twins_in_time(draw: st.DrawFn, drawn_from: Range = FIRST) -> Twins:
    """Draw one set of messages, none of them late, in two orders and two divisions into steps.

    A message is out of order by at most the lateness, or lateness and grace. By arrival the order
    is part of the messages, so there is only one order, with two divisions.
    """
    setup = draw(setups(drawn_from))
    unit, base = setup.unit, setup.base
    spec = draw(specs(setup, in_time=True))
    messages = draw(message_lists(spec, setup, in_time=True))
    longest_delay = spec.lateness + draw(st.sampled_from((0, spec.firing.grace)))
    if setup.position == "offset":
        # The offset before the next is the last in time.
        longest_delay = max(spec.firing.grace - 1, 0)
    twins = []
    for _ in range(2):
        arrived_messages = draw(arrivals(spec, messages, longest_delay // unit, unit))
        if setup.replays:
            arrived_messages = draw(insert_replays(arrived_messages))
        twins.append(draw(splits(arrived_messages, unit, base)))
    return Twins(spec, *twins)


@st.composite
def setups(draw: st.DrawFn, drawn_from: Range) -> Setup:
    """Draw the parameters of a stream from a range."""
    kind, position = draw(st.sampled_from(drawn_from.choices()))
    unit, base = draw(st.sampled_from(UNITS)), draw(st.sampled_from(BASES))
    zone = draw(st.sampled_from(sorted(CHANGES))) if kind == "days" else "UTC"
    if kind == "days":
        unit = 5 * HOUR
        base = CHANGES[zone] // unit - SPAN // 2
    if position != "time":
        unit, base = 1, draw(st.sampled_from((0, 1_000_007)))
    by_offset = position == "time" and drawn_from.replays and draw(st.booleans())
    replays = by_offset or (position == "offset" and drawn_from.replays)
    keyless = drawn_from.keyless and draw(st.integers(0, 4)) == 4
    wide = drawn_from.wide
    second = wide and draw(st.integers(0, 3)) == 3
    full = drawn_from.full_state
    return Setup(kind, position, unit, base, zone, replays, full, keyless, second, wide)


@st.composite
def specs(draw: st.DrawFn, setup: Setup, in_time: bool = False) -> WindowSpec:
    """Draw a query; with ``in_time``, one whose firings are whole results of all messages."""
    unit = setup.unit
    short_lengths = st.sampled_from((0, 0, 1, 3, 8)).map(lambda n: n * unit)
    grace = 0 if setup.position == "arrival" else draw(short_lengths)
    policies = _draw_policies(unit)
    early = draw(st.none() | policies)
    firing = Firing(
        early=early,
        late=draw(policies),
        grace=grace,
        retention=grace + draw(short_lengths),
        accumulate=in_time or setup.kind in SESSIONS or draw(st.booleans()),
        rows=draw(st.sampled_from((None, None, 1, 5))) if setup.axis == "time" else None,
        repeat=in_time or early is None or draw(st.booleans()),
    )
    aggregates = AGGREGATES | (FULL_STATE if setup.full_state else {})
    aggregates |= (OF_NAMES | (NAMES if setup.full_state else {})) if setup.wide else {}
    names = draw(st.lists(st.sampled_from(sorted(aggregates)), min_size=1, unique=True))
    kind = draw(windows(setup))
    if isinstance(kind, Sliding) and kind.rolls:
        firing = replace(firing, accumulate=True)
    keys = setup.keys
    if isinstance(kind, Trailing):
        keys, firing = (*keys, LOOK_BACK), Firing()
    drawn_aggregates = {"n": AGGREGATES["n"]}
    for name in names:
        frame = None
        if name != "n" and isinstance(kind, Sliding):
            # No message can lie between two open ends that are one apart.
            shortest = 2 if kind.closed == "neither" and (kind.axis == "rows" or unit == 1) else 1
            frame_lengths = st.integers(shortest, max(shortest, kind.size // unit)).map(
                lambda n: n * unit
            )
            shorter = frame_lengths.filter(lambda length, size=kind.size: length <= size)
            frame = draw(st.none() | st.just(0) | shorter)
        frame_axis = kind.axis if frame else "time"
        drawn_aggregates[name] = replace(aggregates[name], frame=frame, frame_axis=frame_axis)
    firing = replace(
        firing, fill=draw(_draw_fills(setup, list(drawn_aggregates), firing.accumulate))
    )
    key = draw(st.sampled_from(("long", "string", *(("boolean",) if setup.wide else ()))))
    types = {"value": "long", "amount": "double", "flag": "boolean"}
    types |= {"second": "long"} if setup.second else {}
    types |= {"gap": "long"} if setup.kind == "own gaps" else {}
    types |= CUT_TYPES if setup.kind == "cut" else {}
    types |= {"name": "string"} if setup.wide else {}
    offsets = {"partition": "long", "offset": "long"} if setup.has_offsets else {}
    by_time = setup.axis == "time" or draw(st.booleans())
    max_ahead = None if in_time else draw(st.sampled_from((None, None, 5 * unit, SPAN * unit)))
    nulls = draw(st.sampled_from(("reject", "group")))
    return WindowSpec(
        keys=keys,
        time="time" if by_time else None,
        windows=kind,
        aggregates=drawn_aggregates,
        firing=firing,
        lateness=draw(short_lengths) if setup.axis == "time" else 0,
        max_ahead=max_ahead,
        types={"key": key} | types | offsets,
        offset=("partition", "offset") if setup.has_offsets else None,
        nulls=nulls,
    )


def _draw_fills(
    setup: Setup, names: Sequence[str], accumulate: bool
) -> st.SearchStrategy[Fill | None]:
    """Draw the fill of empty windows, for windows that can be empty.

    The count of filled windows is 0, since tests recognize them by it.
    """
    if setup.axis != "time" or setup.kind in ("sliding", "trailing", *SESSIONS):
        return st.none()
    lengths = st.integers(13, 40).map(lambda n: n * (DAY if setup.kind == "days" else setup.unit))
    methods = st.sampled_from(("zero", "null", "previous") if accumulate else ("zero", "null"))
    linear_columns = st.sets(st.sampled_from([name for name in names if name in NUMBERS] or ["n"]))
    column_values = (linear_columns if accumulate else st.just(set())).map(
        lambda drawn: tuple({**dict.fromkeys(sorted(drawn), "linear"), "n": 0}.items())
    )
    return st.none() | st.none() | st.builds(Fill, methods, lengths, column_values)


@st.composite
def windows(draw: st.DrawFn, setup: Setup) -> Kind:
    """Draw windows of the setup's kind."""
    unit, axis = setup.unit, setup.axis
    size = draw(st.integers(1, 12))
    if setup.kind == "sliding":
        sides = st.none() if axis == "rows" and size == 1 else st.none() | _CLOSED_SIDES
        return Sliding(size * unit, axis, draw(sides))
    if setup.kind == "trailing":
        every, counts = draw(st.integers(1, 4)), st.integers(1, 8)
        sizes = draw(st.lists(counts, min_size=1, max_size=3, unique=True))
        longest_first = tuple(n * every * unit for n in sorted(sizes, reverse=True))
        return Trailing(longest_first, every * unit, draw(st.integers(0, every - 1)) * unit)
    if setup.kind == "own gaps":
        return Sessions(0, draw(_CLOSED_ENDS), by="gap")
    if setup.kind == "sessions":
        return Sessions(draw(st.integers(1, 5)) * unit, draw(_CLOSED_ENDS), axis)
    if setup.kind == "longest":
        gap = draw(st.integers(1, 5))
        longest_units = draw(st.integers(gap, 12))
        return Sessions(gap * unit, draw(_CLOSED_ENDS), "time", None, longest_units * unit)
    if setup.kind == "cut":
        gap = draw(st.integers(1, 6))
        longest_units = draw(st.none() | st.none() | st.integers(gap, 12))
        subset = draw(st.sets(st.sampled_from(("opens", "flag", "state")), min_size=1))
        start, end, state_column = (
            name if name in subset else None for name in ("opens", "flag", "state")
        )
        longest = None if longest_units is None else longest_units * unit
        return Sessions(
            gap * unit, draw(_CLOSED_ENDS), "time", None, longest, start, end, state_column
        )
    if setup.kind == "cumulating":
        step = draw(st.integers(1, 4))
        origin = draw(st.integers(0, step - 1))
        return Cumulating(size // step * step * unit or step * unit, step * unit, origin, axis)
    if setup.kind == "days":
        size = draw(st.integers(1, 3))
        slide = draw(st.integers(1, size))
        grid = Windows(size, slide, draw(st.integers(0, slide - 1)), "rows")
        part = draw(st.sampled_from([DAY, DAY, 6 * HOUR, HOUR, HOUR // 2]))
        if part < DAY:
            return Hours(grid, setup.zone, draw(st.sampled_from([0, part // 4])), part)
        return Days(grid, setup.zone, draw(st.sampled_from([0, 0, 6 * HOUR, 2 * HOUR + HOUR // 2])))
    slide = draw(st.one_of(st.just(size), st.integers(1, size)))
    return Windows(size * unit, slide * unit, draw(st.integers(0, slide - 1)) * unit, axis)


_CLOSED_ENDS = st.sampled_from(("both", "left"))
_CLOSED_SIDES = st.sampled_from(("right", "both", "left", "neither"))


def _draw_policies(unit: int) -> st.SearchStrategy[Any]:
    # With 99 rows or a very long period, only the end or the close of a window emits.
    rows = st.sampled_from((1, 2, 3, 99)).map(EveryRows)
    lengths = (st.integers(1, 15) | st.just(10**6)).map(lambda n: n * unit)
    periods = st.builds(Every, lengths, st.sampled_from((1, 1, 2, 3)))
    rows_or_periods = st.builds(lambda n, p: RowsOrEvery(n.rows, p.period), rows, periods)
    ages = st.builds(
        After, lengths, st.sampled_from(("first", "last")), st.none() | st.sampled_from((2, 3))
    )
    conditions = st.sampled_from(("n >= 2", "NOT n < 3", "n = 1 OR n > 3 AND n <> 5")).map(When)
    policy = st.one_of(st.just(Each()), rows, periods, rows_or_periods, ages, conditions)
    return policy | policy | st.builds(FirstThen, policy, policy)


@st.composite
def message_lists(
    draw: st.DrawFn,
    spec: WindowSpec,
    setup: Setup,
    extreme: bool = False,
    in_time: bool = False,
) -> list[dict[str, Any]]:
    """Draw messages in no order; some are repeated.

    With ``in_time``, no two messages have the same offset.
    """
    unit, base = setup.unit, setup.base
    rests = st.sampled_from((0, 0, unit // 2, unit - 1))
    slots = st.integers(0, SPAN)
    times = st.builds(lambda slot, rest: (base + slot) * unit + rest, slots, rests)
    if extreme:
        times |= st.sampled_from(EXTREMES)
    odd_times = st.sampled_from((None, None, "soon"))
    columns = {
        "key": _add_nulls(_draw_keys(spec.types["key"]), spec),
        "time": _mix(times, odd_times),
        "value": _mix(st.integers(-9, 9), _draw_odd_values()),
        "amount": _mix(st.integers(-40, 40).map(lambda n: n / 4), _draw_odd_amounts(setup.wide)),
        "flag": st.sampled_from((True, False, None)),
    }
    if setup.wide:
        columns["name"] = st.sampled_from(("", "x", "y", "é", "\U0001f600", None))
    if setup.kind == "own gaps":
        gaps = st.integers(1, 5).map(lambda n: n * unit)
        columns["gap"] = _mix(gaps, st.sampled_from((None, 0, -unit)))
    if setup.kind == "cut":
        columns["opens"] = _mix(st.booleans(), st.none())
        columns["state"] = st.sampled_from((1, 1, 2, None))
    if setup.second:
        columns["second"] = _add_nulls(st.integers(0, 2), spec)
    if spec.time is None:
        del columns["time"]
    if spec.offset is not None:
        columns["partition"] = _mix(st.integers(0, 2), st.none())
        columns["offset"] = _mix(slots.map(lambda slot: max(base, 0) + slot), st.none())
    fewest = draw(st.sampled_from((0, 12)))
    copies = _mix(st.just(1), st.integers(2, 3))
    pairs = st.tuples(st.fixed_dictionaries(columns), copies)
    drawn = draw(st.lists(pairs, min_size=fewest, max_size=25))
    messages = [dict(message) for message, times_emitted in drawn for _ in range(times_emitted)]
    return (
        list(_drop_repeated_offsets(messages)) if in_time and spec.offset is not None else messages
    )


def _drop_repeated_offsets(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    seen_offsets = set()
    for message in messages:
        offset = (message["partition"], message["offset"])
        if None in offset or offset not in seen_offsets:
            yield message
        seen_offsets.add(offset)


def _mix(usual: st.SearchStrategy[Any], rare: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 11).flatmap(lambda n: rare if n == 11 else usual)


def _add_nulls(values: st.SearchStrategy[Any], spec: WindowSpec) -> st.SearchStrategy[Any]:
    """Add NULL to the values of a key: often if NULL is a group, rarely otherwise."""
    return st.none() | values if spec.nulls == "group" else _mix(values, st.none())


def _draw_keys(kind: str) -> st.SearchStrategy[Any]:
    strings = ("", "a", "null", "é")
    keys = {"long": (-1, 0, 2, 10), "string": strings, "boolean": (True, False)}
    return st.sampled_from(keys[kind])


def _draw_odd_amounts(wide: bool) -> st.SearchStrategy[float | None]:
    return st.sampled_from((None, None, math.nan, math.inf, -math.inf) if wide else (None,))


def _draw_odd_values() -> st.SearchStrategy[int | None]:
    return st.sampled_from((None, None, None, 2**63 - 1, -(2**63), 2**62))


@st.composite
def arrivals(
    draw: st.DrawFn, spec: WindowSpec, messages: list[dict[str, Any]], longest_delay: int, unit: int
) -> list[dict[str, Any]]:
    """Draw an order in which each message is at most ``longest_delay`` units late."""
    if spec.by_arrival:
        return messages
    column = "time" if spec.axis == "time" else "offset"
    delays = st.sampled_from((0, 0, longest_delay)) | st.integers(0, longest_delay)
    arrivals_by_time = []
    for number, message in enumerate(messages):
        position = message[column] if isinstance(message[column], int) else 0
        arrivals_by_time.append((position + draw(delays) * unit, draw(st.integers(0, 9)), number))
    return [messages[number] for _, _, number in sorted(arrivals_by_time)]


@st.composite
def insert_replays(draw: st.DrawFn, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Repeat some messages unchanged at later positions."""
    with_replays = list(messages)
    for message in messages:
        if None not in (message["partition"], message["offset"]) and draw(st.integers(0, 4)) == 4:
            first = next(at for at, other in enumerate(with_replays) if other is message)
            with_replays.insert(draw(st.integers(first + 1, len(with_replays))), dict(message))
    return with_replays


@st.composite
def splits(draw: st.DrawFn, messages: list[dict[str, Any]], unit: int, base: int) -> list[Batch]:
    """Divide messages into steps, some of them empty; the last step ends the input."""
    fewest = draw(st.sampled_from((0, 4)))
    positions = st.lists(st.integers(0, len(messages)), min_size=fewest, max_size=8)
    cuts = sorted(draw(positions))
    wall = (base + draw(st.integers(0, SPAN))) * unit
    steps = []
    for start, end in pairwise([0, *cuts, len(messages)]):
        wall += draw(st.integers(0, 12)) * unit
        steps.append(Batch(messages[start:end], wall))
    return [*steps, Batch(wall=wall + draw(st.integers(0, 12)) * unit, final=True)]
