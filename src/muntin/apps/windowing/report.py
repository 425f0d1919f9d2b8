"""Reports on a run: one per interval, the changes of the maximum, and a summary."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from muntin.apps.windowing.options import Options
from muntin.apps.windowing.table_shard import STEP, TableProgress
from muntin.model.counts import add_counts, format_rejections


class ReportedEvent:
    """A reported event."""

    def to_dict(self) -> dict[str, Any]:
        """Return the event as plain JSON."""
        return {"event": type(self).__name__.lower(), **asdict(self)}  # type: ignore[call-overload]


@dataclass(frozen=True)
class Maximum(ReportedEvent):
    """A change of the greatest value of the table.

    Attributes:
        before: The previous value; ``None`` if the table was empty, or at the start.
        now: The new value; ``None`` if the table is empty.
    """

    before: int | None
    now: int | None

    def __str__(self) -> str:
        if self.now is None:
            return f"The dataset is empty; its maximum value was {self.before:,}."
        if self.before is None:
            return f"The initial maximum value for the dataset has been set to {self.now:,}."
        return (
            f"The maximum value for the dataset has changed from {self.before:,} to {self.now:,}."
        )


@dataclass(frozen=True, kw_only=True)
class RunPart(ReportedEvent):
    """The numbers of a part of a run.

    Attributes:
        seconds: Its duration.
        inserted: Rows inserted.
        throughput: Rows inserted per second.
        rejected: Rejected rows, by reason.
        deleted: Rows deleted.
        chunks: Number of deletions.
        rows: Rows in the table at its end.
        maximum: The greatest value.
        batches: Number of batches.
    """

    seconds: float
    inserted: int
    throughput: float
    rejected: dict[str, int]
    deleted: int
    chunks: int
    rows: int
    maximum: int | None
    batches: int

    @property
    def reject_summary(self) -> str:
        """A description of the rejected rows."""
        return format_rejections(self.rejected) or "0"


@dataclass(frozen=True, kw_only=True)
class Report(RunPart):
    """One interval of a run.

    Attributes:
        clock: The clock of its last batch, milliseconds since the epoch.
        averages: The average of each span in seconds; ``None`` if there is no row.
        latency: Mean time from a row's time until it was inserted, in milliseconds; ``None``
            without rows.
        latency_95: The 95th percentile of the latency.
        bytes: The size of the table's rows.
        backlog: Number of rows that wait to be deleted.
        lag: By how many milliseconds the oldest row exceeds the limit.
    """

    clock: int
    averages: dict[str, float | None]
    latency: float | None
    latency_95: float | None
    bytes: int
    backlog: int
    lag: int

    def lines(self) -> list[str]:
        """Format the report as the original does, with some more numbers."""
        spans = [
            f"    Average for past {span:>4}s: {_format_optional(mean, '.2f')}"
            for span, mean in self.averages.items()
        ]
        return [
            f"{datetime.fromtimestamp(self.clock / 1000, UTC):%H:%M:%S} Report:",
            "  Average values over time windows:",
            *spans,
            "  Insert Statistics:",
            f"    Throughput {self.throughput:,.0f}/s, rejected {self.reject_summary}, "
            f"avg/95% latency {_format_optional(self.latency, '.0f')}/"
            f"{_format_optional(self.latency_95, '.0f')} ms",
            f"  Deleted {self.deleted:,} tuples since last report, in {self.chunks:,} chunks",
            f"  Table: {self.rows:,} rows ({self.bytes / 1e6:,.1f} MB), backlog {self.backlog:,}, "
            f"delete lag {self.lag:,} ms, maximum {_format_optional(self.maximum, ',')}",
        ]


@dataclass(frozen=True, kw_only=True)
class Summary(RunPart):
    """A whole run, from its first batch.

    Attributes:
        most_rows: The greatest number of rows in the table.
        most_backlog: The greatest number of rows that waited to be deleted.
        worst_latency_95: The greatest ``latency_95`` of a report.
        adds_up: True if all rows inserted since the table was created are deleted or left.
    """

    most_rows: int
    most_backlog: int
    worst_latency_95: float | None
    adds_up: bool

    def lines(self) -> list[str]:
        """Format the summary."""
        return [
            f"Summary of {self.seconds:.0f} s in {self.batches:,} batches:",
            f"  Inserted {self.inserted:,} tuples, {self.throughput:,.0f}/s; "
            f"rejected {self.reject_summary}",
            f"  Deleted {self.deleted:,} tuples in {self.chunks:,} chunks; "
            f"the backlog was {self.most_backlog:,} at most",
            f"  {self.rows:,} rows are left, {self.most_rows:,} at most; "
            f"the maximum is {_format_optional(self.maximum, ',')}",
            f"  95% latency {_format_optional(self.worst_latency_95, '.0f')} ms at worst",
            "  Inserted = deleted + left"
            if self.adds_up
            else "  WRONG: rows inserted aren't those deleted and left",
        ]


@dataclass
class _Sums:
    """Counts of an interval, or of a run."""

    inserted: int = 0
    deleted: int = 0
    chunks: int = 0
    batches: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    latencies: list[tuple[float, int]] = field(default_factory=list)

    def add(self, progress: Iterable[TableProgress]) -> None:
        self.batches += 1
        for table in progress:
            self.inserted += table.inserted
            self.deleted += table.deleted
            self.chunks += table.chunks
            self.rejected = add_counts([self.rejected, table.rejected])


@dataclass(frozen=True)
class Sample:
    """The numbers of a batch: rows inserted, rows deleted, rows in the table."""

    inserted: int
    deleted: int
    rows: int


class Monitor:
    """Follows a run by the progress of its shards; thread-safe.

    Attributes:
        progress: The progress of the shards after the last batch.
        maxima: Changes of the maximum, the newest last.
        moments: The numbers of the last batches, the newest last.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.progress: list[TableProgress] = []
        self.maxima: deque[Maximum] = deque(maxlen=100)
        self.moments: deque[Sample] = deque(maxlen=300)
        self._lock = threading.RLock()
        self._batch = -1
        self._begun: float | None = None
        self._since: float | None = None
        self._interval, self._whole = _Sums(), _Sums()
        self._most_rows = self._most_backlog = 0
        self._worst: float | None = None

    def start(self, now: float) -> None:
        """Start the run; ``now`` is in seconds of any monotonic clock."""
        self._begun = self._since = now

    def add_batch(
        self, batch: int, progress: Sequence[TableProgress], written: int
    ) -> Maximum | None:
        """Add the progress of a batch.

        Args:
            batch: The batch's number; a repeated batch changes nothing.
            progress: The progress of each shard.
            written: When the batch was done, milliseconds since the epoch.

        Returns:
            The change of the maximum, if it has changed.
        """
        with self._lock:
            if batch <= self._batch:
                return None
            self._batch, before = batch, self.maximum
            self.progress = list(progress)
            self._interval.add(progress)
            self._whole.add(progress)
            self._interval.latencies += [
                (written - time - STEP / 2, n) for table in progress for time, n in table.times
            ]
            inserted, deleted = sum(t.inserted for t in progress), sum(t.deleted for t in progress)
            self.moments.append(Sample(inserted, deleted, self.rows))
            self._most_rows = max(self._most_rows, self.rows)
            self._most_backlog = max(self._most_backlog, self.backlog)
            if self.maximum == before:
                return None
            self.maxima.append(Maximum(before, self.maximum))
            return self.maxima[-1]

    @property
    def rows(self) -> int:
        """Number of rows in the table."""
        return sum(table.rows for table in self.progress)

    @property
    def backlog(self) -> int:
        """Number of rows that wait to be deleted."""
        return sum(table.backlog for table in self.progress)

    @property
    def maximum(self) -> int | None:
        """The greatest value in the table."""
        return max((t.greatest for t in self.progress if t.greatest is not None), default=None)

    @property
    def rejected(self) -> dict[str, int]:
        """Number of rejected rows, by reason."""
        return dict(self._whole.rejected)

    @property
    def clock(self) -> int | None:
        """The clock of the last batch, milliseconds since the epoch."""
        return max((t.clock for t in self.progress if t.clock is not None), default=None)

    @property
    def averages(self) -> dict[str, float | None]:
        """The average of each span, by its seconds."""
        averages: dict[str, float | None] = {}
        for index, span in enumerate(self.options.averages):
            parts = [table.averages[index] for table in self.progress]
            count = sum(n for _, n in parts)
            averages[f"{span:g}"] = sum(total for total, _ in parts) / count if count else None
        return averages

    @property
    def lag(self) -> int:
        """By how many milliseconds the oldest row exceeds the limit."""
        oldest = min((t.oldest for t in self.progress if t.oldest is not None), default=None)
        if oldest is None or self.clock is None or self.options.history is None:
            return 0
        return max(0, self.clock - self.options.history - oldest)

    def report(self, now: float) -> Report:
        """Return the report of the time since the last one.

        Args:
            now: Seconds of the clock that ``begin`` used.
        """
        with self._lock:
            since, self._since = self._since, now
            sums, self._interval = self._interval, _Sums()
            mean, slow = _summarize_latencies(sums.latencies)
            self._worst = max((x for x in (self._worst, slow) if x is not None), default=None)
            return Report(
                **self._build_part(sums, since, now),
                clock=self.clock or 0,
                averages=self.averages,
                latency=mean,
                latency_95=slow,
                bytes=sum(table.bytes for table in self.progress),
                backlog=self.backlog,
                lag=self.lag,
            )

    def _build_part(self, sums: _Sums, since: float | None, now: float) -> dict[str, Any]:
        """Return the attributes of ``RunPart``."""
        seconds = max(now - (now if since is None else since), 0.001)
        return {
            "seconds": round(seconds, 3),
            "inserted": sums.inserted,
            "throughput": sums.inserted / seconds,
            "rejected": sums.rejected,
            "deleted": sums.deleted,
            "chunks": sums.chunks,
            "rows": self.rows,
            "maximum": self.maximum,
            "batches": sums.batches,
        }

    def summary(self, now: float) -> Summary:
        """Return the summary of the run.

        Args:
            now: Seconds of the clock that ``begin`` used.
        """
        ever_in = sum(table.totals[0] for table in self.progress)
        ever_out = sum(table.totals[1] for table in self.progress)
        return Summary(
            **self._build_part(self._whole, self._begun, now),
            most_rows=self._most_rows,
            most_backlog=self._most_backlog,
            worst_latency_95=self._worst,
            adds_up=ever_in == ever_out + self.rows,
        )


def _summarize_latencies(
    latencies: Sequence[tuple[float, int]],
) -> tuple[float | None, float | None]:
    """Return the mean and the 95th percentile of weighted latencies."""
    count = sum(n for _, n in latencies)
    if not count:
        return None, None
    passed, slow = 0, 0.0
    for late, n in sorted(latencies):
        passed, slow = passed + n, late
        if passed >= 0.95 * count:
            break
    return sum(late * n for late, n in latencies) / count, slow


def _format_optional(value: float | None, form: str) -> str:
    return "none" if value is None else format(value, form)
