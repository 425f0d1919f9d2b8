"""The sections of the page, each a heading, a few words, a chart and its table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from html import escape
from typing import Any

from muntin.apps.report import charts
from muntin.apps.report.story import AIRPORTS, EMISSIONS, SAMPLE, STEPS, Story

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_HOUR = 3600.0


def section(title: str, words: str, *parts: str) -> str:
    """A section; ``words`` may hold markup, the title doesn't."""
    return f"<section><h2>{escape(title)}</h2><p>{words}</p>{''.join(parts)}</section>"


def table(titles: Sequence[str], rows: Iterable[Sequence[Any]], caption: str) -> str:
    """A table; numbers stand to the right."""
    cells = [[_formatted(value) for value in row] for row in rows]
    numbers = [all(row[at][1] for row in cells) and bool(cells) for at in range(len(titles))]

    def cell(tag: str, shown: str, number: bool) -> str:
        scope = ' scope="col"' if tag == "th" else ""
        return f"<{tag}{scope}{' class=number' if number else ''}>{escape(shown)}</{tag}>"

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


def _formatted(value: Any) -> tuple[str, bool]:
    """A value in words, and whether it is a number."""
    if value is None:
        return "", True
    if isinstance(value, float):
        return f"{value:,.1f}", True
    if isinstance(value, int):
        return f"{value:,}", True
    if isinstance(value, datetime):
        return f"{value:%d %b %H:%M}", False
    return str(value), False


def folded(titles: Sequence[str], rows: Iterable[Sequence[Any]], caption: str) -> str:
    """The same table, shown on demand."""
    inside = table(titles, rows, caption)
    return f"<details><summary>The same as a table</summary>{inside}</details>"


def _seconds(moment: date) -> float:
    whole = moment if isinstance(moment, datetime) else datetime(*moment.timetuple()[:3])
    return whole.replace(tzinfo=UTC).timestamp()


def year(story: Story) -> str:
    """Mean delay by week and airport."""
    series: dict[str, list[charts.Point]] = {}
    by_week: dict[date, dict[str, float]] = {}
    for airport, week_, mean in story.weeks:
        series.setdefault(airport, []).append((_seconds(week_), mean))
        by_week.setdefault(week_, {})[airport] = mean
    places = [t for points in series.values() for t, _ in points]
    first, last = min(places, default=0.0), max(places, default=0.0)
    starts = [(_seconds(date(2013, m + 1, 1)), name) for m, name in enumerate(MONTHS)]
    ticks = [(t, name) for t, name in starts if first <= t <= last]
    rows = [[f"{w:%d %b}", *(found.get(a) for a in AIRPORTS)] for w, found in by_week.items()]
    title = "Mean delay of departures in minutes, by week and airport"
    return section(
        "Delay through the year",
        "Mean delay of departures in minutes, week by week, out of the windows on the full hour.",
        charts.lines(title, series, AIRPORTS, ticks),
        folded(("week from", *AIRPORTS.values()), rows, title),
    )


def week(story: Story) -> str:
    """The week with most delay, window by window."""
    if not story.worst_week:
        return ""
    series: dict[str, list[tuple[float, float, float]]] = {}
    days: dict[tuple[date, str], list[tuple[float, float]]] = {}
    for airport, start, mean, p95 in story.worst_week:
        series.setdefault(airport, []).append((_seconds(start), mean, p95))
        days.setdefault((start.date(), airport), []).append((mean, p95))
    begun = min(start for _, start, _, _ in story.worst_week)
    first = begun.date()
    week_days = (first + timedelta(d) for d in range(7))
    ticks = [(max(_seconds(day), _seconds(begun)), f"{day:%a %d %b}") for day in week_days]
    rows = [
        (f"{day:%a %d %b}", AIRPORTS.get(airport, airport), *map(max, zip(*found, strict=True)))
        for (day, airport), found in sorted(days.items())
    ]
    title = f"Mean delay and 95th percentile by airport, week from {first:%d %B}"
    return section(
        f"The worst week began on {first:%d %B}".replace(" 0", " "),
        "What the windows themselves say, every 15 minutes: the <strong>area</strong> is the mean "
        "delay, the <strong>thin line</strong> the 95th percentile.",
        charts.panels(title, series, AIRPORTS, ticks, 2 * _HOUR),
        folded(("day", "airport", "highest mean", "highest p95"), rows, title),
    )


def hours(story: Story) -> str:
    """Mean delay by month and hour of the day."""
    cells = {
        (m, h): (mean, f"{MONTHS[m - 1]}, {h}:00: {mean:.1f} minutes over {n:,} flights")
        for m, h, mean, n in story.hours
        if n >= 30
    }
    title = "Mean delay of departures in minutes, by month and hour of the day"
    rows = [(MONTHS[m - 1], f"{h}:00", mean, n) for m, h, mean, n in story.hours]
    return section(
        "Delay by month and hour",
        "Mean delay in minutes by hour of scheduled departure, over all three airports.",
        charts.heat(title, cells, MONTHS),
        folded(("month", "hour", "mean delay", "flights"), rows, title),
    )


def firings(story: Story) -> str:
    """What came early, in full and late, and what late firings changed."""
    found = {(m, emission): n for m, emission, n in story.months}
    rows = {e: [found.get((m, e), 0) for m in range(1, 13)] for e in EMISSIONS}
    notes = {e: f"{e} {sum(values):,}" for e, values in rows.items()}
    title = "Firings by month: early, full and late"
    changed = [(name, story.changes.get(step, 0)) for step, name in enumerate(STEPS)]
    total = sum(n for _, n in changed)
    much = sum(n for _, n in changed[3:])
    share = f"{much / total:.0%}" if total else "none"
    return section(
        "What the windows said, and when",
        "Firings by month of the window; each row has a scale of its own. An <strong>early</strong>"
        " firing emits a window that is still open, a <strong>full</strong> one comes when the "
        "watermark reaches the end, a <strong>late</strong> one corrects it.",
        charts.columns(title, rows, notes, MONTHS),
        folded(
            ("month", *EMISSIONS),
            [(name, *(rows[e][m] for e in EMISSIONS)) for m, name in enumerate(MONTHS)],
            title,
        ),
        "<h3>How far a late firing moved the mean delay of its window</h3>",
        f"<p>{share} of them moved it by five minutes or more.</p>",
        charts.bars("Late firings by how far they moved the mean delay", changed, "late"),
        folded(("moved by", "late firings"), changed, "Late firings by change of the mean"),
    )


def rejected(story: Story, lateness: str, grace: str) -> str:
    """What no window took, and why."""
    reasons = {reason for found in story.rejected.values() for reason in found}
    counts = [
        (reason.replace("_", " "), *(found.get(reason, 0) for found in story.rejected.values()))
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
        return section("No flight was rejected", words)
    names = [f"by {key}" for key in story.rejected]
    title = "Rejected flights by how far they were behind the watermark"
    return section(
        "Flights that came too late for every window",
        words,
        table(("reason", *names), counts, "Rejected messages by reason and query"),
        "<h3>How far they were behind the watermark</h3>",
        charts.bars(title, behind, "full"),
        folded(("behind", "flights"), behind, title),
        "<h3>The furthest behind</h3>",
        table(SAMPLE, story.samples, "Rejected flights, a sample"),
    )


def worst(story: Story, airlines: dict[str, str]) -> str:
    """The worst hour of each carrier."""
    rows = [
        (airlines.get(h.name, h.name), h.start, h.flights, h.mean, h.p95, h.worst)
        for h in story.worst
    ]
    titles = ("carrier", "hour from", "flights", "mean delay", "p95", "worst")
    return section(
        "The worst hour of each carrier",
        "The window with the greatest mean delay in minutes, of those in which five flights or "
        "more left.",
        table(titles, rows, "The worst hour of each carrier"),
    )
