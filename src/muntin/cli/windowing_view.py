"""The live view of the windowing application on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from muntin.apps.windowing import Monitor, Report

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 40


def render_run(monitor: Monitor, last: Report | None, elapsed: float) -> RenderableType:
    """Return the terminal's view of a run."""
    options = monitor.options
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="bold", no_wrap=True)
    rows.add_column(justify="right", no_wrap=True)
    rows.add_column(no_wrap=True)
    for line in _list_lines(monitor, last):
        rows.add_row(*line)
    moments = list(monitor.moments)
    for name, part, style in (
        ("rows", "rows", "cyan"),
        ("inserted a batch", "inserted", "green"),
        ("deleted a batch", "deleted", "magenta"),
    ):
        values = [getattr(moment, part) for moment in moments]
        rows.add_row(name, f"{values[-1] if values else 0:,}", draw_sparks(values, style))
    bar = ProgressBar(total=options.duration, completed=min(elapsed, options.duration), width=60)
    mode = "inline" if options.inline else f"a deleter, chunks of {options.deletechunksize:,}"
    title = f"windowing: {options.limits}, {mode}"
    progress_text = f"{elapsed:.0f} of {options.duration:g} s"
    return Panel(
        Group(rows, bar), title=title, subtitle=progress_text, title_align="left", expand=False
    )


def _list_lines(monitor: Monitor, last: Report | None) -> list[tuple[str, str, str]]:
    """Return the name, number and remark of each line."""
    lines = [
        (f"average of {span} s", "none" if mean is None else f"{mean:,.2f}", "")
        for span, mean in monitor.averages.items()
    ]
    most = "none" if monitor.maximum is None else f"{monitor.maximum:,}"
    changed = monitor.maxima[-1].before if monitor.maxima else None
    change = "" if changed is None else f"was {changed:,}"
    lines.append(("maximum", most, change))
    if last is not None:
        latency = "" if last.latency is None else f"latency {last.latency:,.0f} ms"
        if last.latency_95 is not None:
            latency += f", 95% below {last.latency_95:,.0f} ms"
        lines.append(("inserted", f"{last.throughput:,.0f}/s", latency))
        if last.rejected:
            lines.append(("rejected", "", last.reject_summary))
        rate = last.deleted / last.seconds
        lines.append(("deleted", f"{rate:,.0f}/s", f"in {last.chunks:,} chunks"))
    lines.append(("backlog", f"{monitor.backlog:,}", f"delete lag {monitor.lag:,} ms"))
    return lines


def draw_sparks(values: Sequence[int], style: str) -> Text:
    """Return the newest values as small bars, from zero to the greatest value.

    Example:
        >>> draw_sparks([0, 5, 10], "green").plain
        '▁▄█'
    """
    shown = values[-_WIDTH:]
    top = max(shown, default=0) or 1
    return Text("".join(_BARS[value * (len(_BARS) - 1) // top] for value in shown), style=style)
