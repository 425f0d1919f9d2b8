"""Events that the application prints: reports, changes of the maximum, and a summary."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True)
class Event:
    """An event to print, as text or as JSON."""

    def to_json(self) -> dict[str, Any]:
        """Return the event as plain JSON."""
        return {"event": type(self).__name__.lower(), **asdict(self)}


@dataclass(frozen=True)
class Maximum(Event):
    """A change of the greatest value; ``None`` stands for an empty table."""

    before: int | None
    now: int | None

    def __str__(self) -> str:
        if self.now is None:
            return f"The dataset is empty; its maximum value was {self.before:,}."
        if self.before is None:
            return f"The initial maximum value for the dataset has been set to {self.now:,}."
        change = f"from {self.before:,} to {self.now:,}"
        return f"The maximum value for the dataset has changed {change}."


@dataclass(frozen=True, kw_only=True)
class Report(Event):
    """An interval of a run.

    Attributes:
        clock: Its end, in microseconds since the epoch.
        averages: The average over each number of seconds; ``None`` without rows.
        throughput: Rows inserted per second.
        latency: Mean time from when a row was due until it was committed, milliseconds.
        latency_95: Its 95th percentile.
        deleted: Number of rows deleted.
        chunks: Number of chunks that they were deleted in.
        rows: Number of rows in the table.
        backlog: Number of rows that wait to be deleted.
        lag: By how many milliseconds the oldest row is older than allowed.
    """

    clock: int
    averages: dict[str, float | None]
    throughput: float
    latency: float | None
    latency_95: float | None
    deleted: int
    chunks: int
    rows: int
    backlog: int
    lag: int

    def __str__(self) -> str:
        spans = "".join(
            f"    Average for past {span:>4}s: {_format(mean, '.2f')}\n"
            for span, mean in self.averages.items()
        )
        latencies = f"{_format(self.latency, '.0f')}/{_format(self.latency_95, '.0f')} ms"
        return (
            f"{datetime.fromtimestamp(self.clock / 1e6, UTC):%H:%M:%S} Report:\n"
            f"  Average values over time windows:\n{spans}"
            f"  Insert Statistics:\n"
            f"    Throughput {self.throughput:,.0f}/s, Avg/95% Latency {latencies}\n"
            f"  Deleted {self.deleted:,} tuples since last report, in {self.chunks:,} chunks\n"
            f"  {self.rows:,} rows, backlog {self.backlog:,}, delete lag {self.lag:,} ms"
        )


@dataclass(frozen=True, kw_only=True)
class Figures(Event):
    """The results of a query on Spark at one time.

    Attributes:
        clock: That time, in the time of the rows.
        averages: The average over each length of time.
        rows: Number of rows in the longest of them; the query keeps only these.
    """

    clock: datetime
    averages: dict[str, float]
    rows: int

    def to_json(self) -> dict[str, Any]:
        """Return the event as plain JSON."""
        return {**super().to_json(), "clock": self.clock.isoformat()}

    def __str__(self) -> str:
        spans = "".join(
            f"    Average for past {span}: {mean:.2f}\n" for span, mean in self.averages.items()
        )
        return f"{self.clock:%H:%M:%S} Report:\n{spans}    {self.rows:,} rows"


@dataclass(frozen=True, kw_only=True)
class Summary(Event):
    """The rows since the table was created.

    Attributes:
        adds_up: Whether each row that was inserted is deleted or left.
    """

    inserted: int
    deleted: int
    rows: int
    adds_up: bool

    def __str__(self) -> str:
        verdict = "inserted = deleted + left" if self.adds_up else "WRONG: rows don't add up"
        left = f"{self.rows:,} are left: {verdict}"
        return f"Inserted {self.inserted:,} tuples, deleted {self.deleted:,}; {left}"


def _format(value: float | None, form: str) -> str:
    return "none" if value is None else format(value, form)
