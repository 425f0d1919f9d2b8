"""Draws the pictures of docs/pictures from what queries emit, so that no picture is wrong.

Each picture runs a query over a few messages and draws its messages, windows or pairs. Run it after
windows, triggers or joins have changed; ``tests/docs/test_pictures.py`` compares the files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl

import muntin as mt
from muntin import testing

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"
WIDTH, MARGIN, LANE = 720, 24, 34
DAY = datetime(2026, 1, 1, tzinfo=UTC)
STYLE = """
.panel{fill:#fff}.ink{fill:#1f2937}.soft{fill:#6b7280}.line{stroke:#9ca3af}.dot{fill:#1f2937}
.bar{fill:#ccfbf1;stroke:#0f766e}.early{fill:#fef3c7;stroke:#b45309}.full{fill:#ccfbf1;stroke:#0f766e}
.late{fill:#ede9fe;stroke:#6d28d9}.rejected{fill:#fee2e2;stroke:#b91c1c}.mark{stroke:#0369a1;stroke-width:2}
.markname{fill:#0369a1}text{font:12px ui-sans-serif,system-ui,sans-serif}
@media (prefers-color-scheme:dark){.panel{fill:#1b1f27}.ink,.dot{fill:#e5e7eb}.soft{fill:#9ca3af}
.line{stroke:#6b7280}.bar,.full{fill:#134e4a;stroke:#2dd4bf}.early{fill:#5b3a09;stroke:#fbbf24}
.late{fill:#3b2a6b;stroke:#c4b5fd}.rejected{fill:#641c1c;stroke:#fca5a5}.mark{stroke:#7dd3fc}
.markname{fill:#7dd3fc}}
"""


@dataclass
class Canvas:
    """Shapes over a horizontal axis from ``low`` to ``high``."""

    low: float
    high: float
    left: int = MARGIN
    parts: list[str] = field(default_factory=list)
    height: int = 0

    def x(self, position: float) -> float:
        """Return the pixel of a position on the axis."""
        width = WIDTH - self.left - MARGIN
        return round(self.left + (position - self.low) / (self.high - self.low) * width, 1)

    def text(
        self, x: float, y: float, text: str, name: str = "ink", anchor: str = "middle"
    ) -> None:
        self.parts.append(
            f'<text class="{name}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def box(self, start: float, end: float, y: float, name: str, label: str = "") -> None:
        """Draw an interval of the axis, with a label in it, or beside it if it is too long."""
        left, right = self.x(start), self.x(end)
        self.parts.append(
            f'<rect class="{name}" x="{left:g}" y="{y:g}" width="{max(right - left, 2):g}" '
            'height="22" rx="4"/>'
        )
        if len(label) * 6.4 < right - left:
            self.text((left + right) / 2, y + 15.5, label)
        elif label:
            self.text(right + 6, y + 15.5, label, anchor="start")

    def dot(self, position: float, y: float) -> None:
        self.parts.append(f'<circle class="dot" cx="{self.x(position):g}" cy="{y:g}" r="4.5"/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, name: str = "line") -> None:
        self.parts.append(f'<line class="{name}" x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"/>')

    def axis(self, y: float, ticks: Sequence[float], label: Callable[[float], str]) -> None:
        """Draw the axis below all else, and finish the height; earlier ticks have labels first."""
        self.line(self.left, y, WIDTH - MARGIN, y)
        labels: list[tuple[float, float]] = []
        for tick in ticks:
            at, text = self.x(tick), label(tick)
            self.line(at, y, at, y + 5)
            half = len(text) * 3.4
            middle = min(max(at, half + 2), WIDTH - half - 2)
            if all(abs(middle - other) > half + width + 6 for other, width in labels):
                self.text(middle, y + 19, text, "soft")
                labels.append((middle, half))
        self.height = int(y + 30)

    def svg(self, title: str) -> str:
        """Return the picture as a file."""
        name = escape(title)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" '
            f'role="img" aria-label="{name}"><title>{name}</title><style>{STYLE}</style>\n'
            f'<rect class="panel" width="{WIDTH}" height="{self.height}" rx="8"/>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def clock(minute: float) -> str:
    """Return a time of day of minutes after midnight."""
    return f"{int(minute) // 60:02}:{int(minute) % 60:02}"


def minutes(moment: Any) -> float:
    """Return a time as minutes after the first midnight; a number of a row stays as it is."""
    if isinstance(moment, datetime):
        return (moment.replace(tzinfo=UTC) - DAY) / timedelta(minutes=1)
    return float(moment)


def draw_windows(
    title: str,
    messages: Sequence[float],
    rows: Sequence[dict[str, Any]],
    describe: Callable[[dict[str, Any]], str],
    label: Callable[[float], str] = clock,
) -> str:
    """Draw messages above the windows that a query has emitted for them."""
    spans = [(minutes(row["window_start"]), minutes(row["window_end"]), row) for row in rows]
    spans.sort(key=lambda span: span[:2])
    edges = [edge for start, end, _ in spans for edge in (start, end)]
    low, high = min([*edges, *messages]), max([*edges, *messages])
    space = (high - low) * 0.02
    canvas = Canvas(low - space, high + space)
    canvas.text(MARGIN, 22, title, anchor="start")
    for position in messages:
        canvas.dot(position, 42)
    lanes: list[float] = []
    for start, end, row in spans:
        lane = next((n for n, free in enumerate(lanes) if free <= start), len(lanes))
        lanes[lane : lane + 1] = [end]
        canvas.box(start, end, 60 + lane * LANE, "bar", describe(row))
    bottom = 60 + len(lanes) * LANE
    for position in messages:
        canvas.line(canvas.x(position), 47, canvas.x(position), bottom)
    canvas.parts.sort(key=lambda part: not part.startswith("<line"))
    canvas.axis(bottom, [*sorted(edges), *sorted(messages)], label)
    return canvas.svg(title)


def describe_count(row: dict[str, Any]) -> str:
    """Return the label of a window: its number of messages."""
    return f"n = {row['n']}"


def window_kinds() -> dict[str, str]:
    """Return a picture of each kind of windows."""
    at = [542, 548, 552, 573]
    clicks = pl.DataFrame({"at": [DAY + timedelta(minutes=minute) for minute in at]})
    w = mt.windowed(clicks, time="at")
    kinds = {
        'tumbling("10 minutes")': w.tumbling("10 minutes"),
        'hopping("10 minutes", "4 minutes")': w.hopping("10 minutes", "4 minutes"),
        'cumulating("20 minutes", "5 minutes")': w.cumulating("20 minutes", "5 minutes"),
        'sliding("10 minutes")': w.sliding("10 minutes"),
        'rolling("10 minutes")': w.rolling("10 minutes"),
        'session("10 minutes")': w.session("10 minutes"),
    }
    pictures = {
        title.partition("(")[0]: draw_windows(
            title, at, windows.agg(n=mt.count()).results.to_dicts(), describe_count
        )
        for title, windows in kinds.items()
    }
    return pictures | {"days": _days(), "rows": _rows()}


def _days() -> str:
    zone = ZoneInfo("Europe/Berlin")
    start = datetime(2026, 3, 28, 6, tzinfo=zone).astimezone(UTC)
    at = [start + timedelta(hours=12 * n) for n in range(6)]
    days = mt.windowed(pl.DataFrame({"at": at}), time="at").tumbling("1 day", zone=str(zone))

    def describe(row: dict[str, Any]) -> str:
        local = row["window_start"].astimezone(zone)
        hours = (row["window_end"] - row["window_start"]) // timedelta(hours=1)
        return f"{local:%d %B}: {hours} hours, n = {row['n']}"

    def label(minute: float) -> str:
        local = (DAY + timedelta(minutes=minute)).astimezone(zone)
        return f"{local:%d %b %H:%M}"

    rows = days.agg(n=mt.count()).results.to_dicts()
    title = 'tumbling("1 day", zone="Europe/Berlin"), when clocks go forward'
    return draw_windows(title, [minutes(moment) for moment in at], rows, describe, label)


def _rows() -> str:
    rows = mt.windowed(pl.DataFrame({"value": range(7)})).tumbling(mt.rows(3)).agg(n=mt.count())
    title = "tumbling(mt.rows(3)): by the number of the message"
    return draw_windows(
        title, range(7), rows.results.to_dicts(), describe_count, lambda row: f"{row:g}"
    )


BATCHES: tuple[list[float], ...] = ([540.2, 541.8], [543], [546.5], [544.5], [552], [542])
"""The times of the messages of each batch, in minutes after midnight."""


def _messages(batches: Sequence[Sequence[float]]) -> list[list[dict[str, Any]]]:
    return [[{"at": DAY + timedelta(minutes=minute)} for minute in batch] for batch in batches]


def life_of_a_window() -> str:
    """Return a picture of everything that one window emits, batch by batch, from top to bottom."""
    frame = pl.DataFrame(schema={"at": pl.Datetime("us", "UTC")})
    views = (
        mt.windowed(frame, time="at", lateness="1 minute")
        .tumbling("5 minutes")
        .early(each=True)
        .late(grace="4 minutes", each=True)
        .agg(n=mt.count())
    )
    canvas = Canvas(539, 553, left=78)
    title = (
        'lateness="1 minute"  tumbling("5 minutes")  early(each=True)  late(grace="4 minutes", …)'
    )
    canvas.text(MARGIN, 22, title, anchor="start")
    for number, batch in enumerate(BATCHES):
        y = 42 + number * 40
        messages = _messages(BATCHES[: number + 1])
        result = testing.run(views, messages, final=False)
        canvas.text(MARGIN, y + 16, f"batch {number}", "soft", "start")
        emitted = result.emissions.filter(
            (pl.col("batch") == number) & (pl.col("window_start") == DAY + timedelta(minutes=540))
        )
        for row in emitted.to_dicts():
            label = f"{row['emission']}: n = {row['n']}, revision {row['revision']}"
            canvas.box(540, 545, y, row["emission"], label)
        for row in result.rejected.filter(pl.col("batch") == number).to_dicts():
            canvas.box(540, 545, y, "rejected", f"rejected: {row['reason']}")
        for minute in batch:
            canvas.dot(minute, y + 28)
        mark = canvas.x(minutes(result.progress.watermark))
        canvas.line(mark, y + 22, mark, y + 36, "mark")
    canvas.dot(550, 50)
    canvas.text(canvas.x(550) + 12, 54, "message", anchor="start")
    canvas.line(canvas.x(550), 64, canvas.x(550), 78, "mark")
    canvas.text(canvas.x(550) + 12, 76, "watermark", "markname", "start")
    canvas.axis(42 + len(BATCHES) * 40, [540, 545, 549, 553], clock)
    return canvas.svg("What one window emits: early, full, late, and a rejected message")


def trigger_policies() -> str:
    """Return a picture of when a window emits early, by policy."""
    arrivals = [[540.2], [540.9, 541.1], [541.6], [542.4, 542.8], [543.9], [545.5]]
    ticks = [DAY + timedelta(minutes=batch[-1]) for batch in arrivals]
    frame = pl.DataFrame(schema={"at": pl.Datetime("us", "UTC")})
    window = mt.windowed(frame, time="at").tumbling("5 minutes")
    policies = {
        "none": window,
        "early(each=True)": window.early(each=True),
        "early(rows=3)": window.early(rows=3),
        'early(every="2 minutes")': window.early(every="2 minutes"),
        'early(when="n >= 4")': window.early(when="n >= 4"),
        "early(each=True).deltas()": window.early(each=True).deltas(),
    }
    canvas = Canvas(540, 546, left=200)
    canvas.text(MARGIN, 22, "What the window from 09:00 to 09:05 emits, by policy", anchor="start")
    for batch in arrivals:
        for minute in batch:
            canvas.dot(minute, 42)
    for number, (name, windows) in enumerate(policies.items()):
        y = 58 + number * LANE
        canvas.text(MARGIN, y + 15, name, anchor="start")
        result = testing.run(
            windows.agg(n=mt.count()), _messages(arrivals), ticks=ticks, final=False
        )
        first = result.emissions.filter(pl.col("window_start") == DAY + timedelta(minutes=540))
        for row in first.to_dicts():
            at = minutes(ticks[row["batch"]])
            canvas.box(at - 0.15, at + 0.15, y, row["emission"], str(row["n"]))
    canvas.axis(58 + len(policies) * LANE, [540, 541, 542, 543, 544, 545], clock)
    return canvas.svg("When a window emits early, by trigger policy")


def joins() -> dict[str, str]:
    """Return a picture of a join by distance and of one with the version of a time."""
    left, right = [541, 544, 550], [540, 546, 547]
    sides = [
        pl.DataFrame({"k": 1, name: [DAY + timedelta(minutes=m) for m in at]})
        for name, at in (("placed", left), ("paid", right))
    ]
    orders = mt.windowed(sides[0], time="placed")
    payments = mt.windowed(sides[1], time="paid")
    near = mt.join(orders, payments, on="k", within="3 minutes")
    as_of = mt.join(orders, payments, on="k", as_of=True)
    return {
        "join-within": _pairs('join(…, within="3 minutes")', left, right, near.results),
        "join-as-of": _pairs("join(…, as_of=True)", left, right, as_of.results),
    }


def _pairs(title: str, left: Sequence[float], right: Sequence[float], pairs: pl.DataFrame) -> str:
    canvas = Canvas(539, 551, left=90)
    canvas.text(MARGIN, 22, title, anchor="start")
    for name, y, positions in (("left", 50, left), ("right", 110, right)):
        canvas.text(MARGIN, y + 4, name, "soft", "start")
        for position in positions:
            canvas.dot(position, y)
    for placed, paid in pairs.select("placed", "paid").rows():
        canvas.line(canvas.x(minutes(placed)), 50, canvas.x(minutes(paid)), 110, "mark")
    canvas.axis(130, sorted({*left, *right}), clock)
    return canvas.svg(title)


def pictures() -> dict[str, str]:
    """Return all pictures by the names of their files."""
    policies = {"life": life_of_a_window(), "policies": trigger_policies()}
    return {f"{name}.svg": text for name, text in {**window_kinds(), **policies, **joins()}.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (FOLDER / name).write_text(text)
