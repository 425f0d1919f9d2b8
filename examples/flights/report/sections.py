"""The sections of the page: each has a heading, a text, a chart and a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from html import escape
from typing import Any

from examples.flights.report import charts
from examples.flights.report.story import AIRPORTS, CHANGE_STEPS, EMISSIONS, SAMPLE_COLUMNS, Story

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_HOUR = 3600.0


def build_section(title: str, words: str, *parts: str) -> str:
    """Build a section; ``words`` may contain markup, but not the title."""
    return f"<section><h2>{escape(title)}</h2><p>{words}</p>{''.join(parts)}</section>"


def build_table(titles: Sequence[str], rows: Iterable[Sequence[Any]], caption: str) -> str:
    """Build a table; numbers are right-aligned."""
    cells = [[_format_value(value) for value in row] for row in rows]
    numbers = [all(row[at][1] for row in cells) and bool(cells) for at in range(len(titles))]

    def cell(tag: str, text: str, number: bool) -> str:
        scope = ' scope="col"' if tag == "th" else ""
        return f"<{tag}{scope}{' class=number' if number else ''}>{escape(text)}</{tag}>"

    head = "".join(cell("th", title, n) for title, n in zip(titles, numbers, strict=True))
    body = "".join(
        f"<tr>{''.join(cell('td', v[0], n) for v, n in zip(row, numbers, strict=True))}</tr>"
        for row in cells
    )
    label = escape(caption, quote=True)
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{label}">'
        f'<table aria-label="{label}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        "</div>"
    )


def _format_value(value: Any) -> tuple[str, bool]:
    """Format a value; also return whether it is a number."""
    if value is None:
        return "", True
    if isinstance(value, float):
        return f"{value:,.1f}", True
    if isinstance(value, int):
        return f"{value:,}", True
    if isinstance(value, datetime):
        return f"{value:%d %b %H:%M}", False
    return str(value), False


def build_collapsed_table(
    titles: Sequence[str], rows: Iterable[Sequence[Any]], caption: str
) -> str:
    """Build a collapsed table."""
    inside = build_table(titles, rows, caption)
    return f"<details><summary>The same as a table</summary>{inside}</details>"


def _to_seconds(moment: date) -> float:
    whole = moment if isinstance(moment, datetime) else datetime(*moment.timetuple()[:3])
    return whole.replace(tzinfo=UTC).timestamp()


def build_year(story: Story) -> str:
    """Build the section of mean delay by week and airport."""
    series: dict[str, list[charts.Point]] = {}
    by_week: dict[date, dict[str, float]] = {}
    for airport, week_, mean in story.weeks:
        series.setdefault(airport, []).append((_to_seconds(week_), mean))
        by_week.setdefault(week_, {})[airport] = mean
    positions = [t for points in series.values() for t, _ in points]
    first, last = min(positions, default=0.0), max(positions, default=0.0)
    starts = [(_to_seconds(date(2013, m + 1, 1)), name) for m, name in enumerate(MONTHS)]
    ticks = [(t, name) for t, name in starts if first <= t <= last]
    rows = [[f"{w:%d %b}", *(means.get(a) for a in AIRPORTS)] for w, means in by_week.items()]
    title = "Mean delay of departures in minutes, by week and airport"
    return build_section(
        "Delay through the year",
        "Mean delay of departures in minutes, week by week, out of the windows on the full hour.",
        charts.draw_lines(title, series, AIRPORTS, ticks),
        build_collapsed_table(("week from", *AIRPORTS.values()), rows, title),
    )


def build_worst_week(story: Story) -> str:
    """Build the section of the week with most delay, window by window."""
    if not story.worst_week:
        return ""
    series: dict[str, list[tuple[float, float, float]]] = {}
    days: dict[tuple[date, str], list[tuple[float, float]]] = {}
    for airport, start, mean, p95 in story.worst_week:
        series.setdefault(airport, []).append((_to_seconds(start), mean, p95))
        days.setdefault((start.date(), airport), []).append((mean, p95))
    start_of_week = min(start for _, start, _, _ in story.worst_week)
    first = start_of_week.date()
    week_days = (first + timedelta(d) for d in range(7))
    ticks = [
        (max(_to_seconds(day), _to_seconds(start_of_week)), f"{day:%a %d %b}") for day in week_days
    ]
    rows = [
        (f"{day:%a %d %b}", AIRPORTS.get(airport, airport), *map(max, zip(*delays, strict=True)))
        for (day, airport), delays in sorted(days.items())
    ]
    title = f"Mean delay and 95th percentile by airport, week from {first:%d %B}"
    return build_section(
        f"The worst week began on {first:%d %B}".replace(" 0", " "),
        "Figures of the windows, every 15 minutes: the <strong>area</strong> is the mean "
        "delay, the <strong>thin line</strong> the 95th percentile.",
        charts.draw_panels(title, series, AIRPORTS, ticks, 2 * _HOUR),
        build_collapsed_table(("day", "airport", "highest mean", "highest p95"), rows, title),
    )


def build_hours(story: Story) -> str:
    """Build the section of mean delay by month and hour of the day."""
    cells = {
        (m, h): (mean, f"{MONTHS[m - 1]}, {h}:00: {mean:.1f} minutes over {n:,} flights")
        for m, h, mean, n in story.hours
        if n >= 30
    }
    title = "Mean delay of departures in minutes, by month and hour of the day"
    rows = [(MONTHS[m - 1], f"{h}:00", mean, n) for m, h, mean, n in story.hours]
    return build_section(
        "Delay by month and hour",
        "Mean delay in minutes by hour of scheduled departure, over all three airports.",
        charts.draw_heat_map(title, cells, MONTHS),
        build_collapsed_table(("month", "hour", "mean delay", "flights"), rows, title),
    )


def build_emissions(story: Story) -> str:
    """Build the section of early, full and late emissions, and the changes by late ones."""
    counts = {(m, emission): n for m, emission, n in story.months}
    rows = {e: [counts.get((m, e), 0) for m in range(1, 13)] for e in EMISSIONS}
    notes = {e: f"{e} {sum(values):,}" for e, values in rows.items()}
    title = "Firings by month: early, full and late"
    changes = [(name, story.changes.get(step, 0)) for step, name in enumerate(CHANGE_STEPS)]
    total = sum(n for _, n in changes)
    large_changes = sum(n for _, n in changes[3:])
    share = f"{large_changes / total:.0%}" if total else "none"
    return build_section(
        "Early, full and late firings",
        "Firings by month of the window; each row has a scale of its own. An <strong>early</strong>"
        " firing emits a window that is still open, a <strong>full</strong> one comes when the "
        "watermark reaches the end, a <strong>late</strong> one corrects it.",
        charts.draw_columns(title, rows, notes, MONTHS),
        build_collapsed_table(
            ("month", *EMISSIONS),
            [(name, *(rows[e][m] for e in EMISSIONS)) for m, name in enumerate(MONTHS)],
            title,
        ),
        "<h3>How far a late firing moved the mean delay of its window</h3>",
        f"<p>{share} of them moved it by five minutes or more.</p>",
        charts.draw_bars("Late firings by how far they moved the mean delay", changes, "late"),
        build_collapsed_table(
            ("moved by", "late firings"), changes, "Late firings by change of the mean"
        ),
    )


def build_rejected(story: Story, lateness: str, grace: str) -> str:
    """Build the section of rejected messages, with reasons."""
    reasons = {reason for by_reason in story.rejected.values() for reason in by_reason}
    counts = [
        (
            reason.replace("_", " "),
            *(by_reason.get(reason, 0) for by_reason in story.rejected.values()),
        )
        for reason in sorted(reasons)
    ]
    behind = [(f"{hours_} to {hours_ + 1} hours", n) for hours_, n in story.behind]
    total = sum(n for _, n in story.behind)
    words = (
        "A flight is rejected when all of its windows have closed, that is when the watermark "
        f"({escape(lateness)} behind the latest departure) had passed their ends by "
        f"{escape(grace)}. Cancelled flights, known at the end of "
        f"the day only, are <strong>{story.cancelled:,}</strong> of the {total:,}."
    )
    if not counts:
        return build_section("No flight was rejected", words)
    names = [f"by {key}" for key in story.rejected]
    title = "Rejected flights by how far they were behind the watermark"
    return build_section(
        "Flights that came too late for every window",
        words,
        build_table(("reason", *names), counts, "Rejected messages by reason and query"),
        "<h3>How far they were behind the watermark</h3>",
        charts.draw_bars(title, behind, "full"),
        build_collapsed_table(("behind", "flights"), behind, title),
        "<h3>The furthest behind</h3>",
        build_table(SAMPLE_COLUMNS, story.samples, "Rejected flights, a sample"),
    )


def build_worst_hours(story: Story, airlines: dict[str, str]) -> str:
    """Build the section of the worst hour of each carrier."""
    rows = [
        (airlines.get(h.name, h.name), h.start, h.flights, h.mean, h.p95, h.worst)
        for h in story.worst
    ]
    titles = ("carrier", "hour from", "flights", "mean delay", "p95", "worst")
    return build_section(
        "The worst hour of each carrier",
        "The window with the greatest mean delay in minutes, of those in which five flights or "
        "more left.",
        build_table(titles, rows, "The worst hour of each carrier"),
    )
