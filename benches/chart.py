"""Draws the chart as SVG: bars on a log scale, one panel for each case."""

from __future__ import annotations

import math
from html import escape

from benches.summary import Document

WIDTH, LEFT, RIGHT = 860, 170, 110
BAR, GAP, HEAD, FOOT = 18, 6, 44, 30

STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600; font-size: 15px }
.axis, .note { fill: #57606a; font-size: 11px }
.grid { stroke: #d0d7de; stroke-width: 1 }
.peer { fill: #8c959f } .ceiling { fill: #c8ced6 } .ours { fill: #0969da }
.lost { fill: #b35900 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .axis, .note { fill: #9198a1 } .grid { stroke: #3d444d }
  .peer { fill: #656c76 } .ceiling { fill: #3d444d } .ours { fill: #58a6ff }
  .lost { fill: #f0883e }
}
"""


def svg(results: dict[str, Document]) -> str:
    """Return the whole chart, with the background of the page."""
    top, panels = 8, []
    for workload in results.values():
        for name, case in workload["cases"].items():
            panel, height = _panel(f"{name}: {case['title']}", case, top)
            panels.append(panel)
            top += height
    size = f'width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}"'
    label = 'role="img" aria-label="Benchmark results, log scale"'
    body = "\n".join(panels)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {label}>\n'
        f"<style>{STYLE}</style>\n{body}\n</svg>\n"
    )


def _panel(title: str, case: Document, top: int) -> tuple[str, int]:
    """Return one case and its height."""
    peers = case["peers"]
    figures = {n: p["median"]["figure"] for n, p in peers.items() if p["status"] == "ok"}
    better = "more is better" if case["measure"] == "throughput" else "less is better"
    height = HEAD + len(peers) * (BAR + GAP) + FOOT
    lines = [
        text(8, top + 16, title, "title"),
        text(8, top + 32, f"{case['unit']}, log scale, {better}", "note"),
    ]
    low, high = decades(list(figures.values()))
    bottom = top + height - FOOT
    for decade in range(low, high + 1):
        x = _position(10.0**decade, low, high)
        lines.append(f'<path class="grid" d="M{x:.1f} {top + HEAD}V{bottom}"/>')
        lines.append(text(x, bottom + 14, short(10.0**decade), "axis", "middle"))
    for number, (name, peer) in enumerate(peers.items()):
        y = top + HEAD + number * (BAR + GAP)
        lines.append(text(LEFT - 8, y + 13, name, anchor="end"))
        lines += _bar(name, peer, figures.get(name), y, (low, high))
    return "\n".join(lines), height


def _bar(
    name: str, peer: Document, figure: float | None, y: int, decades: tuple[int, int]
) -> list[str]:
    """Return one bar with its figure, or the reason why there is none."""
    if figure is None:
        return [text(LEFT + 6, y + 13, f"{peer['status']}: {peer['reason'][:80]}", "lost")]
    end = _position(figure, *decades)
    kind = {"muntin": "ours", "duckdb": "ceiling", "polars": "ceiling"}.get(name, "peer")
    return [
        f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{end - LEFT:.1f}" height="{BAR}" rx="2"/>',
        text(end + 6, y + 13, short(figure)),
    ]


def decades(figures: list[float]) -> tuple[int, int]:
    """Return the powers of ten that enclose all figures."""
    if not figures:
        return 0, 1
    low = math.floor(math.log10(min(figures)) - 0.1)
    return low, max(low + 1, math.ceil(math.log10(max(figures))))


def _position(figure: float, low: int, high: int) -> float:
    """Return the position of a figure on the log axis."""
    return LEFT + (math.log10(figure) - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Return a line of text."""
    attribute = f' class="{kind}"' if kind else ""
    return f'<text{attribute} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def short(value: float) -> str:
    """Format a figure in few characters: 1.2 M, 350 K, 0.04."""
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e3, " K")):
        if value >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"
