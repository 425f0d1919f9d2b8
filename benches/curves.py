"""Draws charts of the growth of a batch's cost as SVG: points and the line fitted to them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benches.chart import STYLE, decades, short, text

WIDTH, PANEL_WIDTH, PANEL_HEIGHT, COLUMNS = 860, 430, 220, 2
LEFT, TOP, INNER_WIDTH, INNER_HEIGHT, LABEL = 56, 44, 350, 130, 30
# The figures to draw, with the class of their marks and their names.
SERIES = {"batch": ("ours", "a batch"), "cpu": ("cpu", "CPU of all processes")}
_MORE = """
.cpu { fill: #8250df } .fit { fill: none; stroke-width: 1.5; stroke: #0969da }
.fit.of-cpu { stroke: #8250df; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: dark) { .cpu { fill: #bc8cff } .fit { stroke: #58a6ff }
  .fit.of-cpu { stroke: #bc8cff } }
"""

Points = Mapping[str, Mapping[str, Any]]


def fit_line(values: Sequence[float], costs: Sequence[float]) -> tuple[float, float]:
    """Fit a fixed and a unit cost, both at least 0, that minimize the relative error.

    Example:
        >>> [round(number, 6) for number in fit_line([1, 10, 100], [12, 30, 210])]
        [10.0, 2.0]
    """
    x, y = np.asarray(values, float), np.asarray(costs, float)
    terms = np.stack([1 / y, x / y], axis=1)
    fixed, each = np.linalg.lstsq(terms, np.ones(len(y)), rcond=None)[0]
    if each < 0:
        return float(1 / (1 / y).mean()), 0.0
    if fixed < 0:
        return 0.0, float(1 / (x / y).mean())
    return float(fixed), float(each)


def exponent(values: Sequence[float], costs: Sequence[float]) -> float | None:
    """Return the power with which the cost above its fixed part grows over the last step.

    Returns:
        1 if it doubles when the work doubles; ``None`` if it hardly grows at all.

    Example:
        >>> exponent([1, 10, 100], [11, 20, 110])
        1.0
    """
    if len(costs) < 3:
        return None
    # The fixed cost is the least point without its share of the growth.
    least = costs[0] - max(0.0, costs[1] - costs[0]) * values[0] / (values[1] - values[0])
    before, last = costs[-2] - least, costs[-1] - least
    if before < 0.1 * least or last <= before:
        return None
    return round(math.log(last / before) / math.log(values[-1] / values[-2]), 2)


def series(points: Points, figure: str) -> tuple[list[float], list[float]]:
    """Return the varied values, and a figure at each."""
    figures_by_value = {
        float(value): float(point[figure]) for value, point in points.items() if figure in point
    }
    return list(figures_by_value), list(figures_by_value.values())


def draw_curves(curves: Mapping[str, Points], titles: Mapping[str, str]) -> str:
    """Draw all factors, a panel each, with the background of the page."""
    rows = -(-len(curves) // COLUMNS)
    height = rows * PANEL_HEIGHT + 8
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    label = 'role="img" aria-label="Milliseconds of a batch as one thing grows, log scales"'
    panels = []
    for number, (name, points) in enumerate(curves.items()):
        left, top = number % COLUMNS * PANEL_WIDTH, number // COLUMNS * PANEL_HEIGHT
        body = "\n".join(_panel(titles[name], points, first=not number))
        panels.append(f'<g transform="translate({left} {top})">\n{body}\n</g>')
    body = "\n".join(panels)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {label}>\n'
        f"<style>{STYLE}{_MORE}</style>\n{body}\n</svg>\n"
    )


def _panel(title: str, points: Points, first: bool) -> Iterator[str]:
    """Draw one factor: its axes, its points and the fitted lines."""
    yield text(8, 20, title, "title")
    if first:
        words = "milliseconds, log scales; blue: a batch; violet: CPU of all processes"
        yield text(8, 35, words, "note")
    costs_by_figure = {figure: series(points, figure) for figure in SERIES}
    values = costs_by_figure["batch"][0]
    low, high = decades([cost for _, costs in costs_by_figure.values() for cost in costs])
    start, end = math.log10(min(values)), math.log10(max(values))

    def across(value: float) -> float:
        return LEFT + (math.log10(value) - start) / (end - start or 1) * INNER_WIDTH

    def down(cost: float) -> float:
        share = (math.log10(cost) - low) / (high - low)
        return TOP + INNER_HEIGHT * (1 - min(max(share, 0.0), 1.0))

    for decade in range(low, high + 1):
        y = down(10.0**decade)
        yield f'<path class="grid" d="M{LEFT} {y:.1f}H{LEFT + INNER_WIDTH}"/>'
        yield text(LEFT - 6, y + 4, short(10.0**decade), "axis", "end")
    for value in values:
        # A label that is too close to the last one is left out.
        if value == values[-1] or across(values[-1]) - across(value) > LABEL:
            yield text(across(value), TOP + INNER_HEIGHT + 18, short(value), "axis", "middle")
    for figure, (xs, costs) in costs_by_figure.items():
        if len(xs) < 2:
            continue
        fixed, each = fit_line(xs, costs)
        steps = np.geomspace(min(xs), max(xs), 60)
        path = " ".join(f"{across(x):.1f},{down(fixed + each * x):.1f}" for x in steps)
        kind = SERIES[figure][0]
        yield f'<polyline class="fit of-{kind}" points="{path}"/>'
        for x, cost in zip(xs, costs, strict=True):
            yield f'<circle class="{kind}" cx="{across(x):.1f}" cy="{down(cost):.1f}" r="4"/>'


def table(curves: Mapping[str, Points], titles: Mapping[str, str]) -> str:
    """Return the cost of each factor as Markdown: fixed, per unit, and its growth at the end."""
    lines = [
        "| what grows | from | to | a batch then | fixed | each | growth "
        "| CPU: fixed | each | growth |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, points in curves.items():
        cells = [titles[name]]
        for figure in SERIES:
            xs, costs = series(points, figure)
            if len(xs) < 2:
                cells += ["", "", ""]
                continue
            if figure == "batch":
                cells += [short(xs[0]), short(xs[-1]), f"{short(costs[0])} → {short(costs[-1])} ms"]
            fixed, each = fit_line(xs, costs)
            power = exponent(xs, costs)
            cells += [f"{fixed:.0f} ms", _time(each), "hardly" if power is None else f"{power:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _time(milliseconds: float) -> str:
    """Format a duration in a fitting unit."""
    for factor, unit in ((1, "ms"), (1e3, "µs"), (1e6, "ns")):
        if milliseconds * factor >= 1:
            return f"{milliseconds * factor:.3g} {unit}"
    return f"{milliseconds * 1e6:.2g} ns"
