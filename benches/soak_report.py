"""The observations of the soak's hour, as a page of Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benches.day import STEP, Day

KINDS = ("driver", "JVM", "workers")
# The number of rows in the table.
PARTS = 12
# The number of minutes for which an incident may have effects.
AFTER = 1.0


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value at or below which a share of the values lies.

    Example:
        >>> percentile([3, 1, 2], 0.5), percentile([3, 1, 2], 0.99)
        (2, 3)
    """
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Return the median, 99th percentile and maximum of some values."""
    figures = (percentile(values, 0.5), percentile(values, 0.99), max(values))
    return " / ".join(f"{figure:.{digits}f}" for figure in figures)


def make_page(report: Mapping[str, Any]) -> str:
    """Return the page."""
    batches = [{"minute": minute, "seconds": took} for minute, took in report["batches"]]
    latencies = [latency["seconds"] for latency in report["latencies"]]
    quiet = [
        latency["seconds"]
        for latency in report["latencies"]
        if not is_disturbed(report, latency["minute"])
    ]
    rejected = ", ".join(f"{n} `{reason}`" for reason, n in report["rejected"].items())
    emitted = ", ".join(f"{n} `{emission}`" for emission, n in report["emitted"].items())
    messages = report["counted"] + sum(report["rejected"].values())
    delays = f"{spread(latencies)}; {spread(quiet)} where nothing happened a minute before"
    took = spread([batch["seconds"] for batch in batches], 2)
    head = f"""# A day in {report["minutes"]:g} minutes

{messages:,} messages of JSON in Kafka, hopping windows of an hour by 15 minutes of the
day's clock, early and late firing, two hours' grace, a table in PostgreSQL. All
{report["windows"]:,} windows in the table equal the formula's ({emitted} last), and of the rejected
each is there once: {rejected}.

- From the moment a window is due until it can be read in PostgreSQL, seconds (median / 99 % /
  longest): {delays}
- Batches, seconds: {took}
- {report["before"]} made way for the build that is measured; {"; ".join(report["said"])}
"""
    return "\n".join([head, *table(report, batches)]) + "\n"


def is_disturbed(report: Mapping[str, Any], minute: float) -> bool:
    """Return whether an incident happened shortly before."""
    return any(
        event["minute"] - 0.1 <= minute <= event["minute"] + AFTER for event in report["events"]
    )


def table(report: Mapping[str, Any], batches: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a line for each twelfth of the time."""
    length, day = report["minutes"] / PARTS, Day(report["minutes"] * 60)
    memory = [f"{kind} MB" for kind in KINDS]
    names = ["minutes", "messages/s", *memory, "batches s", "windows s", ""]
    lines = ["| " + " | ".join(names) + " |", "| --- " * len(names) + "|"]
    for part in range(PARTS):
        first, end = part * length, (part + 1) * length

        def select_part(rows: Any, first: float = first, end: float = end) -> list[Any]:
            return [row for row in rows if first <= row["minute"] < end]

        samples, part_batches = select_part(report["samples"]), select_part(batches)
        latencies = [latency["seconds"] for latency in select_part(report["latencies"])]
        steps = range(round(first * 60 / STEP), round(end * 60 / STEP))
        rate = sum(map(day.count, steps)) / length / 60
        cells = [f"{first:g}–{end:g}", f"{rate:,.0f}"]
        cells += [f"{statistics.median(sample[kind] for sample in samples):.0f}" for kind in KINDS]
        cells.append(
            spread([batch["seconds"] for batch in part_batches], 2) if part_batches else ""
        )
        cells.append(spread(latencies) if latencies else "")
        cells.append(", ".join(event["what"] for event in select_part(report["events"])))
        lines.append("| " + " | ".join(cells) + " |")
    return lines
