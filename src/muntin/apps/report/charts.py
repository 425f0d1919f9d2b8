"""Charts as SVG text; colours come from the page's style sheet, so they follow light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, log10

WIDTH = 960
Point = tuple[float, float]
Tick = tuple[float, str]


@dataclass(frozen=True)
class Scale:
    """From a value to a place on the page."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The place of a value."""
        span = (self.high - self.low) or 1
        return self.start + (value - self.low) / span * (self.end - self.start)


def steps(low: float, high: float, about: int = 4) -> list[float]:
    """Round numbers that cover a range.

    Example:
        >>> steps(0, 47)
        [0, 20, 40, 60]
    """
    raw = max(high - low, 1e-9) / about
    power = 10 ** floor(log10(raw))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= raw)
    return [step * i for i in range(floor(low / step), ceil(high / step) + 1)]


def svg(title: str, height: float, parts: Sequence[str]) -> str:
    """A chart that scales with the page and says in words what it shows."""
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(title, quote=True)}">'
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" '
        f'aria-label="{escape(title, quote=True)}"><title>{escape(title)}</title>'
        f"{''.join(parts)}</svg></div>"
    )


def text(x: float, y: float, label: str, kind: str = "", anchor: str = "start") -> str:
    """A label."""
    where = f'x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"'
    return f"<text {where}>{escape(label)}</text>"


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _path(points: Sequence[Point], x: Scale, y: Scale, gap: float) -> str:
    """A line that is broken where points are further apart than ``gap``."""
    parts = _unbroken(points, gap)
    return "".join(
        f"{'L' if at else 'M'}{x(place):.1f},{y(value):.1f}"
        for part in parts
        for at, (place, value) in enumerate(part)
    )


def _frame(x: Scale, y: Scale, rungs: Sequence[float], ticks: Sequence[Tick], unit: str) -> str:
    parts = []
    for rung in rungs:
        label = f"{rung:g}{unit if rung == rungs[-1] else ''}"
        parts.append(_line(x.start, y(rung), x.end, y(rung), "axis" if rung == 0 else "grid"))
        parts.append(text(x.start - 8, y(rung) + 4, label, "small", "end"))
    for place, label in ticks:
        parts.append(text(x(place), y.start + 20, label, "small"))
        parts.append(_line(x(place), y.start, x(place), y.start + 6, "axis"))
    return "".join(parts)


def _apart(places: list[float], least: float) -> list[float]:
    """The same places, moved so that labels don't touch."""
    moved = list(places)
    order = sorted(range(len(places)), key=places.__getitem__)
    for before, here in pairwise(order):
        moved[here] = max(moved[here], moved[before] + least)
    return moved


def lines(
    title: str, series: dict[str, list[Point]], names: dict[str, str], ticks: Sequence[Tick]
) -> str:
    """One line per series, its name at its end.

    Args:
        title: What is shown, in words.
        series: Points by series; the series' name is also its colour's class.
        names: What to call each series.
        ticks: Labels of the horizontal axis.
    """
    values = [p for points in series.values() for p in points]
    if not values:
        return ""
    rungs = steps(min(0.0, *(v for _, v in values)), max(v for _, v in values))
    x = Scale(min(t for t, _ in values), max(t for t, _ in values), 64, WIDTH - 96)
    y = Scale(rungs[0], rungs[-1], 270, 16)
    parts = [_frame(x, y, rungs, ticks, " min")]
    ends = _apart([y(points[-1][1]) for points in series.values()], 18)
    for (name, points), end in zip(series.items(), ends, strict=True):
        path = _path(points, x, y, float("inf"))
        parts.append(f'<path d="{path}" class="line {name}"/>')
        parts.append(text(x.end + 10, end + 4, names.get(name, name), f"name {name}"))
    return svg(title, 300, parts)


def panels(
    title: str,
    series: dict[str, list[tuple[float, float, float]]],
    names: dict[str, str],
    ticks: Sequence[Tick],
    gap: float,
) -> str:
    """A panel a series, with a mean as an area and a 95th percentile as a thin line.

    Args:
        title: What is shown, in words.
        series: Place, mean and 95th percentile by series.
        names: What to call each series.
        ticks: Labels of the horizontal axis.
        gap: Where neighbours are further apart than this, nothing is known.
    """
    values = [p for points in series.values() for p in points]
    if not values:
        return ""
    rungs = steps(0, max(v for _, _, v in values), 3)
    low, high = min(t for t, _, _ in values), max(t for t, _, _ in values)
    parts, top = [], 0.0
    for at, (name, points) in enumerate(series.items()):
        x = Scale(low, high, 64, WIDTH - 8)
        y = Scale(0, rungs[-1], top + 150, top + 18)
        last = at == len(series) - 1
        parts.append(_frame(x, y, rungs, ticks if last else (), " min"))
        mean = [(t, max(m, 0.0)) for t, m, _ in points]
        for part in _unbroken(mean, gap):
            whole = [(part[0][0], 0.0), *part, (part[-1][0], 0.0)]
            path = _path(whole, x, y, float("inf"))
            parts.append(f'<path d="{path}Z" class="area {name}"/>')
        high_line = _path([(t, max(p, 0.0)) for t, _, p in points], x, y, gap)
        parts.append(f'<path d="{high_line}" class="thin {name}"/>')
        parts.append(text(76, top + 34, names.get(name, name), f"name {name}"))
        top += 162
    return svg(title, top + 26, parts)


def _unbroken(points: Sequence[Point], gap: float) -> list[list[Point]]:
    found: list[list[Point]] = []
    for point in points:
        if found and point[0] - found[-1][-1][0] <= gap:
            found[-1].append(point)
        else:
            found.append([point])
    return found


def heat(title: str, cells: dict[tuple[int, int], tuple[float, str]], rows: Sequence[str]) -> str:
    """A grid of months by hours; the darker, the more.

    Args:
        title: What is shown, in words.
        cells: By row (from 1) and hour: a value, and what to say of it.
        rows: The rows' names.
    """
    if not cells:
        return ""
    first, last = min(h for _, h in cells), max(h for _, h in cells)
    wide, tall = (WIDTH - 64 - 12) / (last - first + 1), 28
    most = max(value for value, _ in cells.values()) or 1
    parts = [
        text(64 + (hour - first + 0.5) * wide, 14, f"{hour}:00", "small", "middle")
        for hour in range(first, last + 1)
    ]
    for row, name in enumerate(rows, start=1):
        parts.append(text(54, 24 + (row - 1) * tall + 18, name, "small", "end"))
    for (row, hour), (value, label) in cells.items():
        x, y = 64 + (hour - first) * wide, 24 + (row - 1) * tall
        strength = max(0.0, min(1.0, value / most))
        kind = "cell strong" if strength > 0.55 else "cell"
        parts.append(
            f'<g><title>{escape(label)}</title><rect x="{x:.1f}" y="{y:.1f}" '
            f'width="{wide - 2:.1f}" height="{tall - 2}" rx="3" class="heat" '
            f'style="fill-opacity:{0.06 + 0.94 * strength:.2f}"/>'
            f"{text(x + wide / 2 - 1, y + 17.5, f'{round(value)}', kind, 'middle')}</g>"
        )
    return svg(title, 24 + len(rows) * tall, parts)


def columns(
    title: str, rows: dict[str, list[int]], notes: dict[str, str], labels: Sequence[str]
) -> str:
    """A row of columns a series, each row with a scale of its own, values written on top.

    Args:
        title: What is shown, in words.
        rows: Values by series; the series' name is also its colour's class.
        notes: What to call each series.
        labels: What stands below the columns.
    """
    wide = (WIDTH - 150) / max(1, len(labels))
    parts, top = [], 0.0
    for name, values in rows.items():
        most = max(values, default=0) or 1
        floor_ = top + 92
        parts.append(text(0, floor_ - 4, notes.get(name, name), f"name {name}"))
        for at, value in enumerate(values):
            x, tall = 150 + at * wide, value / most * 64
            parts.append(
                f'<rect x="{x:.1f}" y="{floor_ - tall:.1f}" width="{wide - 8:.1f}" '
                f'height="{tall:.1f}" rx="2" class="bar {name}"/>'
            )
            middle = x + (wide - 8) / 2
            parts.append(text(middle, floor_ - tall - 6, f"{value:,}", "small", "middle"))
        parts.append(_line(150, floor_, WIDTH - 8, floor_, "axis"))
        top += 104
    for at, label in enumerate(labels):
        parts.append(text(150 + at * wide + (wide - 8) / 2, top + 10, label, "small", "middle"))
    return svg(title, top + 18, parts)


def bars(title: str, rows: Sequence[tuple[str, int]], kind: str) -> str:
    """Bars from left to right, named on the left, their value at their end."""
    most = max((n for _, n in rows), default=0) or 1
    parts = []
    for at, (name, n) in enumerate(rows):
        y, wide = at * 30, n / most * (WIDTH - 330)
        parts.append(text(0, y + 18, name, "label"))
        parts.append(
            f'<rect x="240" y="{y + 3}" width="{max(wide, 1):.1f}" height="22" rx="3" '
            f'class="bar {kind}"/>'
        )
        parts.append(text(240 + wide + 8, y + 18, f"{n:,}", "label"))
    return svg(title, len(rows) * 30 + 4, parts)
