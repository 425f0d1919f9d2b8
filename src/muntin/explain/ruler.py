"""Draws windows on a ruler: bars over ticks, with plain characters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from muntin.model.axis import (
    DAY,
    HOUR,
    MICROSECOND,
    MILLISECOND,
    MINUTE,
    SECOND,
    Axis,
    format_duration,
    format_length,
)
from muntin.model.cumulating import Cumulating
from muntin.model.days import Days, Hours
from muntin.model.kinds import Kind, Paned
from muntin.model.months import Months
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.trailing import Trailing
from muntin.model.zones import ZonedWindows

RULER_WIDTH = 64
# If more windows overlap, only some are drawn.
MAX_BARS = 6
_UNITS = (
    (DAY, "days"),
    (HOUR, "hours"),
    (MINUTE, "minutes"),
    (SECOND, "seconds"),
    (MILLISECOND, "milliseconds"),
    (MICROSECOND, "microseconds"),
)


@dataclass(frozen=True, slots=True)
class Bar:
    """One window over the ruler.

    Attributes:
        silence: Where inactivity begins, in a session.
        label: A text after the bar.
    """

    start: int
    end: int
    silence: int | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing of some windows.

    Attributes:
        bars: Lines of windows; those in one line don't overlap.
        ticks: The labelled positions below them.
        edges: The edges of panes.
        messages: The positions of messages, above the windows.
    """

    bars: tuple[tuple[Bar, ...], ...]
    ticks: tuple[int, ...]
    edges: tuple[int, ...] = ()
    messages: tuple[int, ...] = ()
    axis: Axis = "time"
    note: str = ""


def draw_ruler(windows: Kind, width: int = RULER_WIDTH) -> list[str]:
    r"""Draw some windows of a kind.

    Example:
        >>> from muntin.model.windows import hopping
        >>> print("\n".join(draw_ruler(hopping("10 minutes", "4 minutes"), 37)))
        |---------------|
              |---------------|
                     |---------------|
                           |----------------|
        +-----+------+--+--+--+------+------+  panes
        0     4      8  10 12 14     18     22  minutes
    """
    drawing = create_picture(windows)
    positions = [p for line in drawing.bars for bar in line for p in (bar.start, bar.end)]
    positions += drawing.ticks
    low, high = min(positions), max(positions)

    def to_column(position: int) -> int:
        return (position - low) * (width - 1) // max(1, high - low)

    lines = []
    if drawing.messages:
        lines.append(_place_texts([(to_column(p), "●") for p in drawing.messages]) + "  messages")
    for line in drawing.bars:
        shown = _place_texts([_format_bar(bar, to_column) for bar in line])
        lines.append(shown + "".join(f"  {bar.label}" for bar in line if bar.label))
    if drawing.edges:
        columns = sorted({to_column(p) for p in drawing.edges})
        track = "".join("+" if c in columns else "-" for c in range(columns[0], columns[-1] + 1))
        lines.append(" " * columns[0] + track + "  panes")
    lines.append(_format_ticks(drawing, to_column))
    return [*lines, drawing.note] if drawing.note else lines


def create_picture(windows: Kind) -> Picture:
    """Choose the drawing of some windows."""
    return _PICTURES.get(type(windows), _draw_numbered)(windows)


def _draw_numbered(windows: Paned) -> Picture:
    """Draw windows by their numbers, with their starts and ends."""
    axis, zero = windows.axis, windows.start(0)

    def bar(number: int) -> Bar:
        return Bar(windows.start(number) - zero, windows.end(number) - zero)

    overlapping = windows.last_window(windows.last_pane(0)) + 1
    if overlapping == 1:
        bars = tuple(bar(k) for k in range(3))
        return Picture((bars,), (0, *(b.end for b in bars)), axis=axis)
    step = max(1, -(-overlapping // MAX_BARS))
    shown = [bar(k) for k in range(0, overlapping + 1, step)]
    lines = tuple((one,) for one in shown)
    if step > 1:
        note = (
            f"one begins every {format_length(windows.pace, axis)}: {overlapping:,} hold a message"
        )
        return Picture(lines, (0, shown[0].end, shown[-1].end), axis=axis, note=note)
    edges = tuple(sorted({one.start for one in shown} | {one.end for one in shown}))
    return Picture(lines, edges, edges, axis=axis)


def _draw_days(windows: Days) -> Picture:
    months = windows.counts == "month"
    unit = 30 * DAY if months else windows.shortest
    lengths = windows.grid.size * unit, windows.grid.pace * unit
    note = f"whole {windows.counts}s of {windows.zone}, "
    note += "28 to 31 days long" if months else "23 to 25 hours long"
    if windows.counts == "part":
        note = f"by the clocks of {windows.zone}, longer where they are set back"
    return replace(create_picture(type(windows.grid)(*lengths)), note=note)


def _draw_cumulating(windows: Cumulating) -> Picture:
    size, step = windows.size, windows.step
    every = max(1, -(-windows.steps // MAX_BARS))
    ends = [*range(every, windows.steps, every), windows.steps]
    lines = [(Bar(0, k * step),) for k in ends]
    lines.append((Bar(size, size + ends[0] * step),))
    ticks = (0, *(k * step for k in ends), size + ends[0] * step)
    note = f"one ends every {format_length(step, windows.axis)}" if every > 1 else ""
    edges = () if every > 1 else ticks
    return Picture(tuple(lines), ticks, edges, axis=windows.axis, note=note)


def _draw_sliding(windows: Sliding) -> Picture:
    size = windows.size
    if windows.axis == "rows":
        lines = tuple((Bar(max(0, k - size), k),) for k in range(1, size + 3)[-MAX_BARS:])
        last = max(bar.end for line in lines for bar in line)
        return Picture(lines, (0, size, last), axis="rows", note="one ends with each message")
    first, second = 0, size // 2
    lines = ((Bar(first - size, first),), (Bar(second - size, second),))
    if windows.rolls:
        edges = (first - size, first, second)
        return Picture(lines, edges, messages=(first, second), note="one ends with each message")
    behind = (Bar(first, first + size, label="just behind the first message"),)
    note = "one ends with each message, one begins just behind it"
    ticks = (first - size, first, second, first + size)
    return Picture((*lines, behind), ticks, messages=(first, second), note=note)


def _draw_trailing(windows: Trailing) -> Picture:
    shown = windows.sizes[:MAX_BARS]
    lines = tuple((Bar(-size, 0, label=f"the last {_drop_one(size)}"),) for size in shown)
    ticks = tuple(sorted({*(-size for size in shown), 0}))
    return Picture(lines, ticks, note=f"all end every {format_duration(windows.every)}; 0 is now")


def _drop_one(length: int) -> str:
    """Return a duration in words, without the number if it is one unit."""
    return format_duration(length).removeprefix("1 ")


def _draw_sessions(windows: Sessions) -> Picture:
    if windows.by is not None:
        return _draw_sessions_of_own_gaps()
    gap = windows.gap
    messages = (0, gap // 3, gap, 3 * gap)
    bars = (Bar(0, 2 * gap, silence=gap), Bar(3 * gap, 4 * gap, silence=3 * gap))
    ticks = tuple(range(0, 5 * gap, gap))
    others = " of messages of other keys" if windows.axis == "rows" else ""
    most = windows.longest
    ends = "ends a session" + (
        "" if most is None else f", or {format_length(most, windows.axis)} in all"
    )
    ends += ", or what cuts it before" * bool(windows.conditions)
    note = f"a silence of {format_length(gap, windows.axis)}{others} {ends}"
    return Picture((bars,), ticks, messages=messages, axis=windows.axis, note=note)


def _draw_sessions_of_own_gaps() -> Picture:
    first, second, third = 0, 2 * MINUTE, 6 * MINUTE
    ends = first + 5 * MINUTE, third + 2 * MINUTE
    bars = (Bar(first, ends[0], silence=second), Bar(third, ends[1], silence=third))
    note = "a session ends when the gaps of all of its messages have passed: here 5, 1, 2 minutes"
    ticks = (first, second, ends[0], third, ends[1])
    return Picture((bars,), ticks, messages=(first, second, third), note=note)


_PICTURES: dict[type, Callable[[Any], Picture]] = {
    Cumulating: _draw_cumulating,
    Days: _draw_days,
    Hours: _draw_days,
    Months: _draw_days,
    ZonedWindows: lambda windows: _draw_days(windows.in_any_zone),
    Sliding: _draw_sliding,
    Trailing: _draw_trailing,
    Sessions: _draw_sessions,
}


def _format_bar(bar: Bar, column: Callable[[int], int]) -> tuple[int, str]:
    start, end = column(bar.start), max(column(bar.end), column(bar.start) + 1)
    silence = end if bar.silence is None else column(bar.silence)
    middle = "".join("-" if c <= silence else "~" for c in range(start + 1, end))
    return start, "|" + middle + "|"


def _place_texts(parts: Sequence[tuple[int, str]]) -> str:
    """Place texts at their columns; a later one covers an earlier one."""
    length = max((at + len(text) for at, text in parts), default=0)
    line = [" "] * length
    for at, text in parts:
        line[at : at + len(text)] = list(text)
    return "".join(line)


def _format_ticks(drawing: Picture, column: Callable[[int], int]) -> str:
    units = _UNITS if drawing.axis == "time" else ((1, "rows"),)
    factor, unit = next(one for one in units if all(tick % one[0] == 0 for tick in drawing.ticks))
    line, free = "", 0
    for tick in sorted(set(drawing.ticks)):
        label, at = f"{tick // factor:,}", column(tick)
        # Leave out a label that would overlap the previous one.
        if at >= free:
            line += " " * (at - len(line)) + label
            free = len(line) + 1
    return f"{line}  {unit}"
