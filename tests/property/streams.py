"""Streams of messages, queries over them, and how they are cut into steps.

Times are small numbers of some unit around some base, so that windows, ties and edges meet often.
A message arrives at its time plus a delay. While no delay exceeds the lateness nothing is late;
``any_streams`` lets delays exceed lateness and grace together.

Which kinds of windows are drawn, on which axes, with which aggregates, and whether messages have
offsets and are emitted again, is a ``Range``: ``FIRST`` is what is drawn unless another is given,
``EVERYTHING`` is all that there is.
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
"""Zones, and when their clocks change; the messages of windows of days lie around it."""
POSITIONS = ("time", "arrival", "offset")


@dataclass(frozen=True)
class Range:
    """What streams are drawn from.

    Attributes:
        kinds: ``fixed`` (tumbling, hopping), ``cumulating``, ``days``, ``sliding``, ``sessions``,
            ``own gaps`` (sessions of which each message has its own gap), ``longest`` (sessions
            with a longest duration), ``cut`` (sessions that conditions cut), ``trailing``.
        positions: What a message's position may be: ``time``, ``arrival`` or ``offset``.
        full_state: Whether aggregates may need all messages of a window.
        replays: Whether messages may have offsets on the time axis too, and be emitted again.
        keyless: Whether a query may have no key.
        wide: Whether keys may be several, or booleans, and values texts, NaN or infinite.
    """

    kinds: tuple[str, ...] = ("fixed",)
    positions: tuple[str, ...] = ("time",)
    full_state: bool = False
    replays: bool = False
    keyless: bool = False
    wide: bool = False

    def choices(self) -> list[tuple[str, str]]:
        """The kinds with the positions that they can be measured on."""
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
"""The columns of messages of which sessions are cut, beside ``flag``."""
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
class Ground:
    """What one stream stands on.

    Attributes:
        kind: The kind of its windows.
        position: What the position of a message is.
        unit: One slot, on the axis.
        base: The first slot.
        zone: The time zone of windows of days.
        replays: Whether messages are emitted again.
        full_state: Whether aggregates may need all messages of a window.
        keyless: Whether the query has no key of its own.
        second: Whether it has a second one.
        wide: Whether values may be texts, NaN or infinite.
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
        own = () if self.keyless else ("key", "second") if self.second else ("key",)
        return ("partition", *own) if self.position == "offset" else own

    @property
    def axis(self) -> Axis:
        return "time" if self.position == "time" else "rows"

    @property
    def has_offsets(self) -> bool:
        return self.replays or self.position == "offset"


@dataclass(frozen=True)
class Stream:
    """A query and the steps that it is run through."""

    spec: WindowSpec
    steps: list[Batch]


@dataclass(frozen=True)
class Twins:
    """A query and one set of messages, arranged in two ways."""

    spec: WindowSpec
    one: list[Batch]
    other: list[Batch]


@st.composite
def any_streams(draw: st.DrawFn, drawn_from: Range = FIRST) -> Stream:
    """Everything at once: late and future messages, nulls, extreme times, every policy."""
    ground = draw(grounds(drawn_from))
    unit, base = ground.unit, ground.base
    spec = draw(specs(ground))
    # The oracle looks at each instant between two messages.
    extreme = ground.kind not in ("days", "trailing") and draw(st.integers(0, 9)) == 0
    messages = draw(message_lists(spec, ground, extreme=extreme))
    most = spec.lateness + draw(st.sampled_from((0, SPAN * unit, SPAN * unit)))
    arrived = draw(arrivals(spec, messages, most // unit, unit))
    if ground.replays:
        arrived = draw(replayed(arrived))
    return Stream(spec, draw(splits(arrived, unit, base)))


@st.composite
def twins_in_time(draw: st.DrawFn, drawn_from: Range = FIRST) -> Twins:
    """One set of messages, none of them late, in two orders and two ways of cutting.

    A message is out of order by at most the lateness, or lateness and grace. By arrival the order
    is part of the messages, so there it is one, cut in two ways.
    """
    ground = draw(grounds(drawn_from))
    unit, base = ground.unit, ground.base
    spec = draw(specs(ground, in_time=True))
    messages = draw(message_lists(spec, ground, in_time=True))
    most = spec.lateness + draw(st.sampled_from((0, spec.firing.grace)))
    if ground.position == "offset":
        most = max(spec.firing.grace - 1, 0)  # the offset before the next is the last in time
    twins = []
    for _ in range(2):
        arrived = draw(arrivals(spec, messages, most // unit, unit))
        if ground.replays:
            arrived = draw(replayed(arrived))
        twins.append(draw(splits(arrived, unit, base)))
    return Twins(spec, *twins)


@st.composite
def grounds(draw: st.DrawFn, drawn_from: Range) -> Ground:
    """What a stream stands on, out of a range."""
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
    return Ground(kind, position, unit, base, zone, replays, full, keyless, second, wide)


@st.composite
def specs(draw: st.DrawFn, ground: Ground, in_time: bool = False) -> WindowSpec:
    """Queries; with ``in_time`` such that every firing is the whole result and none is refused."""
    unit = ground.unit
    few = st.sampled_from((0, 0, 1, 3, 8)).map(lambda n: n * unit)
    grace = 0 if ground.position == "arrival" else draw(few)
    policies = _policies(unit)
    early = draw(st.none() | policies)
    firing = Firing(
        early=early,
        late=draw(policies),
        grace=grace,
        retention=grace + draw(few),
        accumulate=in_time or ground.kind in SESSIONS or draw(st.booleans()),
        rows=draw(st.sampled_from((None, None, 1, 5))) if ground.axis == "time" else None,
        repeat=in_time or early is None or draw(st.booleans()),
    )
    known = AGGREGATES | (FULL_STATE if ground.full_state else {})
    known |= (OF_NAMES | (NAMES if ground.full_state else {})) if ground.wide else {}
    names = draw(st.lists(st.sampled_from(sorted(known)), min_size=1, unique=True))
    kind = draw(windows(ground))
    if isinstance(kind, Sliding) and kind.rolls:
        firing = replace(firing, accumulate=True)
    keys = ground.keys
    if isinstance(kind, Trailing):
        keys, firing = (*keys, LOOK_BACK), Firing()
    computed = {"n": AGGREGATES["n"]}
    for name in names:
        frame = None
        if name != "n" and isinstance(kind, Sliding):
            # Between two open ends that are one apart no message can be.
            least = 2 if kind.closed == "neither" and (kind.axis == "rows" or unit == 1) else 1
            lengths = st.integers(least, max(least, kind.size // unit)).map(lambda n: n * unit)
            shorter = lengths.filter(lambda length, size=kind.size: length <= size)
            frame = draw(st.none() | st.just(0) | shorter)
        measured = kind.axis if frame else "time"
        computed[name] = replace(known[name], frame=frame, frame_axis=measured)
    firing = replace(firing, fill=draw(_fills(ground, list(computed), firing.accumulate)))
    key = draw(st.sampled_from(("long", "string", *(("boolean",) if ground.wide else ()))))
    kinds = {"value": "long", "amount": "double", "flag": "boolean"}
    kinds |= {"second": "long"} if ground.second else {}
    kinds |= {"gap": "long"} if ground.kind == "own gaps" else {}
    kinds |= CUT_TYPES if ground.kind == "cut" else {}
    kinds |= {"name": "string"} if ground.wide else {}
    offsets = {"partition": "long", "offset": "long"} if ground.has_offsets else {}
    by_time = ground.axis == "time" or draw(st.booleans())
    ahead = None if in_time else draw(st.sampled_from((None, None, 5 * unit, SPAN * unit)))
    nulls = draw(st.sampled_from(("reject", "group")))
    return WindowSpec(
        keys=keys,
        time="time" if by_time else None,
        windows=kind,
        aggregates=computed,
        firing=firing,
        lateness=draw(few) if ground.axis == "time" else 0,
        max_ahead=ahead,
        types={"key": key} | kinds | offsets,
        offset=("partition", "offset") if ground.has_offsets else None,
        nulls=nulls,
    )


def _fills(
    ground: Ground, names: Sequence[str], accumulate: bool
) -> st.SearchStrategy[Fill | None]:
    """Whether empty windows are filled, where there are some; the longest by a few windows.

    Their count is 0, since tests recognize them by it.
    """
    if ground.axis != "time" or ground.kind in ("sliding", "trailing", *SESSIONS):
        return st.none()
    lengths = st.integers(13, 40).map(lambda n: n * (DAY if ground.kind == "days" else ground.unit))
    words = st.sampled_from(("zero", "null", "previous") if accumulate else ("zero", "null"))
    lines = st.sets(st.sampled_from([name for name in names if name in NUMBERS] or ["n"]))
    own = (lines if accumulate else st.just(set())).map(
        lambda drawn: tuple({**dict.fromkeys(sorted(drawn), "linear"), "n": 0}.items())
    )
    return st.none() | st.none() | st.builds(Fill, words, lengths, own)


@st.composite
def windows(draw: st.DrawFn, ground: Ground) -> Kind:
    """Windows of the kind that a stream stands on."""
    unit, axis = ground.unit, ground.axis
    size = draw(st.integers(1, 12))
    if ground.kind == "sliding":
        sides = st.none() if axis == "rows" and size == 1 else st.none() | _sides
        return Sliding(size * unit, axis, draw(sides))
    if ground.kind == "trailing":
        every, counts = draw(st.integers(1, 4)), st.integers(1, 8)
        sizes = draw(st.lists(counts, min_size=1, max_size=3, unique=True))
        longest_first = tuple(n * every * unit for n in sorted(sizes, reverse=True))
        return Trailing(longest_first, every * unit, draw(st.integers(0, every - 1)) * unit)
    if ground.kind == "own gaps":
        return Sessions(0, draw(_closed), by="gap")
    if ground.kind == "sessions":
        return Sessions(draw(st.integers(1, 5)) * unit, draw(_closed), axis)
    if ground.kind == "longest":
        gap = draw(st.integers(1, 5))
        most = draw(st.integers(gap, 12))
        return Sessions(gap * unit, draw(_closed), "time", None, most * unit)
    if ground.kind == "cut":
        gap = draw(st.integers(1, 6))
        most = draw(st.none() | st.none() | st.integers(gap, 12))
        subset = draw(st.sets(st.sampled_from(("opens", "flag", "state")), min_size=1))
        start, end, same = (name if name in subset else None for name in ("opens", "flag", "state"))
        longest = None if most is None else most * unit
        return Sessions(gap * unit, draw(_closed), "time", None, longest, start, end, same)
    if ground.kind == "cumulating":
        step = draw(st.integers(1, 4))
        origin = draw(st.integers(0, step - 1))
        return Cumulating(size // step * step * unit or step * unit, step * unit, origin, axis)
    if ground.kind == "days":
        size = draw(st.integers(1, 3))
        slide = draw(st.integers(1, size))
        grid = Windows(size, slide, draw(st.integers(0, slide - 1)), "rows")
        part = draw(st.sampled_from([DAY, DAY, 6 * HOUR, HOUR, HOUR // 2]))
        if part < DAY:
            return Hours(grid, ground.zone, draw(st.sampled_from([0, part // 4])), part)
        return Days(
            grid, ground.zone, draw(st.sampled_from([0, 0, 6 * HOUR, 2 * HOUR + HOUR // 2]))
        )
    slide = draw(st.one_of(st.just(size), st.integers(1, size)))
    return Windows(size * unit, slide * unit, draw(st.integers(0, slide - 1)) * unit, axis)


_closed = st.sampled_from(("both", "left"))
_sides = st.sampled_from(("right", "both", "left", "neither"))


def _policies(unit: int) -> st.SearchStrategy[Any]:
    # Where 99 rows or a great period are waited for, only the end or the close of a window emits.
    rows = st.sampled_from((1, 2, 3, 99)).map(EveryRows)
    lengths = (st.integers(1, 15) | st.just(10**6)).map(lambda n: n * unit)
    periods = st.builds(Every, lengths, st.sampled_from((1, 1, 2, 3)))
    either = st.builds(lambda n, p: RowsOrEvery(n.rows, p.period), rows, periods)
    ages = st.builds(
        After, lengths, st.sampled_from(("first", "last")), st.none() | st.sampled_from((2, 3))
    )
    conditions = st.sampled_from(("n >= 2", "NOT n < 3", "n = 1 OR n > 3 AND n <> 5")).map(When)
    one = st.one_of(st.just(Each()), rows, periods, either, ages, conditions)
    return one | one | st.builds(FirstThen, one, one)


@st.composite
def message_lists(
    draw: st.DrawFn,
    spec: WindowSpec,
    ground: Ground,
    extreme: bool = False,
    in_time: bool = False,
) -> list[dict[str, Any]]:
    """Messages in no order; some are there several times.

    Where they have offsets, with ``in_time`` no two have the same.
    """
    unit, base = ground.unit, ground.base
    within = st.sampled_from((0, 0, unit // 2, unit - 1))
    slots = st.integers(0, SPAN)
    times = st.builds(lambda slot, rest: (base + slot) * unit + rest, slots, within)
    if extreme:
        times |= st.sampled_from(EXTREMES)
    odd = st.sampled_from((None, None, "soon"))
    columns = {
        "key": _with_nulls(_keys(spec.types["key"]), spec),
        "time": _mostly(times, odd),
        "value": _mostly(st.integers(-9, 9), _odd_values()),
        "amount": _mostly(st.integers(-40, 40).map(lambda n: n / 4), _odd_amounts(ground.wide)),
        "flag": st.sampled_from((True, False, None)),
    }
    if ground.wide:
        columns["name"] = st.sampled_from(("", "x", "y", "é", "\U0001f600", None))
    if ground.kind == "own gaps":
        gaps = st.integers(1, 5).map(lambda n: n * unit)
        columns["gap"] = _mostly(gaps, st.sampled_from((None, 0, -unit)))
    if ground.kind == "cut":
        columns["opens"] = _mostly(st.booleans(), st.none())
        columns["state"] = st.sampled_from((1, 1, 2, None))
    if ground.second:
        columns["second"] = _with_nulls(st.integers(0, 2), spec)
    if spec.time is None:
        del columns["time"]
    if spec.offset is not None:
        columns["partition"] = _mostly(st.integers(0, 2), st.none())
        columns["offset"] = _mostly(slots.map(lambda slot: max(base, 0) + slot), st.none())
    least = draw(st.sampled_from((0, 12)))
    copies = _mostly(st.just(1), st.integers(2, 3))
    pairs = st.tuples(st.fixed_dictionaries(columns), copies)
    drawn = draw(st.lists(pairs, min_size=least, max_size=25))
    messages = [dict(message) for message, times_emitted in drawn for _ in range(times_emitted)]
    return list(_emitted_once(messages)) if in_time and spec.offset is not None else messages


def _emitted_once(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    known = set()
    for message in messages:
        place = (message["partition"], message["offset"])
        if None in place or place not in known:
            yield message
        known.add(place)


def _mostly(usual: st.SearchStrategy[Any], odd: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 11).flatmap(lambda n: odd if n == 11 else usual)


def _with_nulls(values: st.SearchStrategy[Any], spec: WindowSpec) -> st.SearchStrategy[Any]:
    """Values of a key, of which NULL is one as good as others where it makes a group."""
    return st.none() | values if spec.nulls == "group" else _mostly(values, st.none())


def _keys(kind: str) -> st.SearchStrategy[Any]:
    strings = ("", "a", "null", "é")
    keys = {"long": (-1, 0, 2, 10), "string": strings, "boolean": (True, False)}
    return st.sampled_from(keys[kind])


def _odd_amounts(wide: bool) -> st.SearchStrategy[float | None]:
    return st.sampled_from((None, None, math.nan, math.inf, -math.inf) if wide else (None,))


def _odd_values() -> st.SearchStrategy[int | None]:
    return st.sampled_from((None, None, None, 2**63 - 1, -(2**63), 2**62))


@st.composite
def arrivals(
    draw: st.DrawFn, spec: WindowSpec, messages: list[dict[str, Any]], most: int, unit: int
) -> list[dict[str, Any]]:
    """The messages in an order in which each is at most so many units behind those before it."""
    if spec.by_arrival:
        return messages
    column = "time" if spec.axis == "time" else "offset"
    delays = st.sampled_from((0, 0, most)) | st.integers(0, most)
    arrived = []
    for number, message in enumerate(messages):
        position = message[column] if isinstance(message[column], int) else 0
        arrived.append((position + draw(delays) * unit, draw(st.integers(0, 9)), number))
    return [messages[number] for _, _, number in sorted(arrived)]


@st.composite
def replayed(draw: st.DrawFn, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with some of them emitted again, as they were, at some later place."""
    emitted = list(messages)
    for message in messages:
        if None not in (message["partition"], message["offset"]) and draw(st.integers(0, 4)) == 4:
            first = next(at for at, other in enumerate(emitted) if other is message)
            emitted.insert(draw(st.integers(first + 1, len(emitted))), dict(message))
    return emitted


@st.composite
def splits(draw: st.DrawFn, messages: list[dict[str, Any]], unit: int, base: int) -> list[Batch]:
    """The messages cut into steps, some of them empty, the last one the end of the input."""
    fewest = draw(st.sampled_from((0, 4)))
    places = st.lists(st.integers(0, len(messages)), min_size=fewest, max_size=8)
    cuts = sorted(draw(places))
    wall = (base + draw(st.integers(0, SPAN))) * unit
    steps = []
    for start, end in pairwise([0, *cuts, len(messages)]):
        wall += draw(st.integers(0, 12)) * unit
        steps.append(Batch(messages[start:end], wall))
    return [*steps, Batch(wall=wall + draw(st.integers(0, 12)) * unit, final=True)]
