"""Draws charts as SVG text; the page's style sheet sets colours for light and dark mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, log10

CHART_WIDTH = 960
Point = tuple[float, float]
Tick = tuple[float, str]


@dataclass(frozen=True)
class Scale:
    """Maps values to coordinates on the page."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the coordinate of a value."""
        span = (self.high - self.low) or 1
        return self.start + (value - self.low) / span * (self.end - self.start)


def round_steps(low: float, high: float, about: int = 4) -> list[float]:
    """Return round numbers that cover a range.

    Example:
        >>> round_steps(0, 47)
        [0, 20, 40, 60]
    """
    raw = max(high - low, 1e-9) / about
    power = 10 ** floor(log10(raw))
    step = next(s * power for s in (1, 2, 5, 10) if s * power >= raw)
    return [step * i for i in range(floor(low / step), ceil(high / step) + 1)]


def wrap_svg(title: str, height: float, parts: Sequence[str]) -> str:
    """Wrap parts in a chart that scales with the page and has a text description."""
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(title, quote=True)}">'
        f'<svg viewBox="0 0 {CHART_WIDTH} {height:g}" role="img" '
        f'aria-label="{escape(title, quote=True)}"><title>{escape(title)}</title>'
        f"{''.join(parts)}</svg></div>"
    )


def draw_text(x: float, y: float, label: str, kind: str = "", anchor: str = "start") -> str:
    """Draw a label."""
    attributes = f'x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"'
    return f"<text {attributes}>{escape(label)}</text>"


def _draw_line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _draw_path(points: Sequence[Point], x: Scale, y: Scale, gap: float) -> str:
    """Draw a line that is interrupted where points are further apart than ``gap``."""
    parts = _split_at_gaps(points, gap)
    return "".join(
        f"{'L' if at else 'M'}{x(position):.1f},{y(value):.1f}"
        for part in parts
        for at, (position, value) in enumerate(part)
    )


def _draw_axes(x: Scale, y: Scale, rungs: Sequence[float], ticks: Sequence[Tick], unit: str) -> str:
    parts = []
    for rung in rungs:
        label = f"{rung:g}{unit if rung == rungs[-1] else ''}"
        parts.append(_draw_line(x.start, y(rung), x.end, y(rung), "axis" if rung == 0 else "grid"))
        parts.append(draw_text(x.start - 8, y(rung) + 4, label, "small", "end"))
    for position, label in ticks:
        parts.append(draw_text(x(position), y.start + 20, label, "small"))
        parts.append(_draw_line(x(position), y.start, x(position), y.start + 6, "axis"))
    return "".join(parts)


def _spread_labels(positions: list[float], least: float) -> list[float]:
    """Move coordinates so that labels don't touch."""
    coordinates = list(positions)
    order = sorted(range(len(positions)), key=positions.__getitem__)
    for before, current in pairwise(order):
        coordinates[current] = max(coordinates[current], coordinates[before] + least)
    return coordinates


def draw_lines(
    title: str, series: dict[str, list[Point]], names: dict[str, str], ticks: Sequence[Tick]
) -> str:
    """Draw one line per series, with its name at its end.

    Args:
        title: A description of the chart.
        series: Points by series; the series' name is also its colour's class.
        names: The label of each series.
        ticks: Labels of the horizontal axis.
    """
    values = [p for points in series.values() for p in points]
    if not values:
        return ""
    rungs = round_steps(min(0.0, *(v for _, v in values)), max(v for _, v in values))
    x = Scale(min(t for t, _ in values), max(t for t, _ in values), 64, CHART_WIDTH - 96)
    y = Scale(rungs[0], rungs[-1], 270, 16)
    parts = [_draw_axes(x, y, rungs, ticks, " min")]
    ends = _spread_labels([y(points[-1][1]) for points in series.values()], 18)
    for (name, points), end in zip(series.items(), ends, strict=True):
        path = _draw_path(points, x, y, float("inf"))
        parts.append(f'<path d="{path}" class="line {name}"/>')
        parts.append(draw_text(x.end + 10, end + 4, names.get(name, name), f"name {name}"))
    return wrap_svg(title, 300, parts)


def draw_panels(
    title: str,
    series: dict[str, list[tuple[float, float, float]]],
    names: dict[str, str],
    ticks: Sequence[Tick],
    gap: float,
) -> str:
    """Draw a panel per series, with a mean as an area and a 95th percentile as a thin line.

    Args:
        title: A description of the chart.
        series: Position, mean and 95th percentile by series.
        names: The label of each series.
        ticks: Labels of the horizontal axis.
        gap: Neighbours further apart than this aren't connected.
    """
    values = [p for points in series.values() for p in points]
    if not values:
        return ""
    rungs = round_steps(0, max(v for _, _, v in values), 3)
    low, high = min(t for t, _, _ in values), max(t for t, _, _ in values)
    parts, top = [], 0.0
    for at, (name, points) in enumerate(series.items()):
        x = Scale(low, high, 64, CHART_WIDTH - 8)
        y = Scale(0, rungs[-1], top + 150, top + 18)
        last = at == len(series) - 1
        parts.append(_draw_axes(x, y, rungs, ticks if last else (), " min"))
        mean = [(t, max(m, 0.0)) for t, m, _ in points]
        for part in _split_at_gaps(mean, gap):
            outline = [(part[0][0], 0.0), *part, (part[-1][0], 0.0)]
            path = _draw_path(outline, x, y, float("inf"))
            parts.append(f'<path d="{path}Z" class="area {name}"/>')
        high_line = _draw_path([(t, max(p, 0.0)) for t, _, p in points], x, y, gap)
        parts.append(f'<path d="{high_line}" class="thin {name}"/>')
        parts.append(draw_text(76, top + 34, names.get(name, name), f"name {name}"))
        top += 162
    return wrap_svg(title, top + 26, parts)


def _split_at_gaps(points: Sequence[Point], gap: float) -> list[list[Point]]:
    segments: list[list[Point]] = []
    for point in points:
        if segments and point[0] - segments[-1][-1][0] <= gap:
            segments[-1].append(point)
        else:
            segments.append([point])
    return segments


def draw_heat_map(
    title: str, cells: dict[tuple[int, int], tuple[float, str]], rows: Sequence[str]
) -> str:
    """Draw a heat map of rows by hours; greater values are darker.

    Args:
        title: A description of the chart.
        cells: By row (from 1) and hour: a value, and its description.
        rows: The rows' names.
    """
    if not cells:
        return ""
    first, last = min(h for _, h in cells), max(h for _, h in cells)
    wide, tall = (CHART_WIDTH - 64 - 12) / (last - first + 1), 28
    most = max(value for value, _ in cells.values()) or 1
    parts = [
        draw_text(64 + (hour - first + 0.5) * wide, 14, f"{hour}:00", "small", "middle")
        for hour in range(first, last + 1)
    ]
    for row, name in enumerate(rows, start=1):
        parts.append(draw_text(54, 24 + (row - 1) * tall + 18, name, "small", "end"))
    for (row, hour), (value, label) in cells.items():
        x, y = 64 + (hour - first) * wide, 24 + (row - 1) * tall
        strength = max(0.0, min(1.0, value / most))
        kind = "cell strong" if strength > 0.55 else "cell"
        parts.append(
            f'<g><title>{escape(label)}</title><rect x="{x:.1f}" y="{y:.1f}" '
            f'width="{wide - 2:.1f}" height="{tall - 2}" rx="3" class="heat" '
            f'style="fill-opacity:{0.06 + 0.94 * strength:.2f}"/>'
            f"{draw_text(x + wide / 2 - 1, y + 17.5, f'{round(value)}', kind, 'middle')}</g>"
        )
    return wrap_svg(title, 24 + len(rows) * tall, parts)


def draw_columns(
    title: str, rows: dict[str, list[int]], notes: dict[str, str], labels: Sequence[str]
) -> str:
    """Draw a row of columns per series, each row with its own scale, with values on top.

    Args:
        title: A description of the chart.
        rows: Values by series; the series' name is also its colour's class.
        notes: The label of each series.
        labels: The labels below the columns.
    """
    wide = (CHART_WIDTH - 150) / max(1, len(labels))
    parts, top = [], 0.0
    for name, values in rows.items():
        most = max(values, default=0) or 1
        floor_ = top + 92
        parts.append(draw_text(0, floor_ - 4, notes.get(name, name), f"name {name}"))
        for at, value in enumerate(values):
            x, tall = 150 + at * wide, value / most * 64
            parts.append(
                f'<rect x="{x:.1f}" y="{floor_ - tall:.1f}" width="{wide - 8:.1f}" '
                f'height="{tall:.1f}" rx="2" class="bar {name}"/>'
            )
            middle = x + (wide - 8) / 2
            parts.append(draw_text(middle, floor_ - tall - 6, f"{value:,}", "small", "middle"))
        parts.append(_draw_line(150, floor_, CHART_WIDTH - 8, floor_, "axis"))
        top += 104
    for at, label in enumerate(labels):
        parts.append(
            draw_text(150 + at * wide + (wide - 8) / 2, top + 10, label, "small", "middle")
        )
    return wrap_svg(title, top + 18, parts)


def draw_bars(title: str, rows: Sequence[tuple[str, int]], kind: str) -> str:
    """Draw horizontal bars, with names on the left and values at their ends."""
    most = max((n for _, n in rows), default=0) or 1
    parts = []
    for at, (name, n) in enumerate(rows):
        y, wide = at * 30, n / most * (CHART_WIDTH - 330)
        parts.append(draw_text(0, y + 18, name, "label"))
        parts.append(
            f'<rect x="240" y="{y + 3}" width="{max(wide, 1):.1f}" height="22" rx="3" '
            f'class="bar {kind}"/>'
        )
        parts.append(draw_text(240 + wide + 8, y + 18, f"{n:,}", "label"))
    return wrap_svg(title, len(rows) * 30 + 4, parts)
