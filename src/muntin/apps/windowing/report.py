"""What is reported of a run: a report each interval, the changes of the maximum, and a summary."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from muntin.apps.windowing.bucket import STEP, TableProgress
from muntin.apps.windowing.options import Options
from muntin.model.counts import rejections_in_words, summed


class Event:
    """Something that is reported."""

    def record(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"event": type(self).__name__.lower(), **asdict(self)}  # type: ignore[call-overload]


@dataclass(frozen=True)
class Maximum(Event):
    """The greatest value of the table has changed.

    Attributes:
        before: What it was; ``None`` where the table was empty, or at the beginning.
        now: What it is; ``None`` where the table is empty.
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
class RunPart(Event):
    """What happened in a part of a run.

    Attributes:
        seconds: How long it was.
        inserted: Rows inserted.
        throughput: The same a second.
        rejected: Rows that were put aside, by reason.
        deleted: Rows deleted.
        chunks: In how many deletions.
        rows: Rows in the table at its end.
        maximum: The greatest value.
        batches: How many batches there were.
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
    def aside(self) -> str:
        """What was put aside, in words."""
        return rejections_in_words(self.rejected) or "0"


@dataclass(frozen=True, kw_only=True)
class Report(RunPart):
    """One interval of a run.

    Attributes:
        clock: The clock of its last batch, milliseconds since the epoch.
        averages: The average of each span in seconds; ``None`` where there is no row.
        latency: Milliseconds from a row's time until it was inserted, on average; ``None`` where
            none was.
        latency_95: That of all but the slowest 5 %.
        bytes: What the table's rows take.
        backlog: How many of them wait to be deleted.
        lag: How many milliseconds the oldest is older than it may be.
    """

    clock: int
    averages: dict[str, float | None]
    latency: float | None
    latency_95: float | None
    bytes: int
    backlog: int
    lag: int

    def lines(self) -> list[str]:
        """The report in the original's words, and what that lacked."""
        spans = [
            f"    Average for past {span:>4}s: {_show(mean, '.2f')}"
            for span, mean in self.averages.items()
        ]
        return [
            f"{datetime.fromtimestamp(self.clock / 1000, UTC):%H:%M:%S} Report:",
            "  Average values over time windows:",
            *spans,
            "  Insert Statistics:",
            f"    Throughput {self.throughput:,.0f}/s, rejected {self.aside}, "
            f"avg/95% latency {_show(self.latency, '.0f')}/{_show(self.latency_95, '.0f')} ms",
            f"  Deleted {self.deleted:,} tuples since last report, in {self.chunks:,} chunks",
            f"  Table: {self.rows:,} rows ({self.bytes / 1e6:,.1f} MB), backlog {self.backlog:,}, "
            f"delete lag {self.lag:,} ms, maximum {_show(self.maximum, ',')}",
        ]


@dataclass(frozen=True, kw_only=True)
class Summary(RunPart):
    """A whole run, from its first batch.

    Attributes:
        most_rows: The most rows that the table had.
        most_backlog: The most rows that waited to be deleted.
        worst_latency_95: The greatest ``latency_95`` of a report.
        adds_up: Whether the rows are those inserted but those deleted, since the table began.
    """

    most_rows: int
    most_backlog: int
    worst_latency_95: float | None
    adds_up: bool

    def lines(self) -> list[str]:
        """The summary in words."""
        return [
            f"Summary of {self.seconds:.0f} s in {self.batches:,} batches:",
            f"  Inserted {self.inserted:,} tuples, {self.throughput:,.0f}/s; rejected {self.aside}",
            f"  Deleted {self.deleted:,} tuples in {self.chunks:,} chunks; "
            f"the backlog was {self.most_backlog:,} at most",
            f"  {self.rows:,} rows are left, {self.most_rows:,} at most; "
            f"the maximum is {_show(self.maximum, ',')}",
            f"  95% latency {_show(self.worst_latency_95, '.0f')} ms at worst",
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
            self.rejected = summed([self.rejected, table.rejected])


@dataclass(frozen=True)
class Sample:
    """A batch in short: rows inserted, rows deleted, rows there."""

    inserted: int
    deleted: int
    rows: int


class Monitor:
    """Follows a run by what its buckets emit; threads may share it.

    Attributes:
        progress: What the buckets emitted with the last batch.
        maxima: Changes of the maximum, the newest last.
        moments: The last batches in short, the newest last.
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

    def begin(self, now: float) -> None:
        """The run begins; seconds of any clock that goes on."""
        self._begun = self._since = now

    def take(self, batch: int, progress: Sequence[TableProgress], written: int) -> Maximum | None:
        """Take in what a batch emitted.

        Args:
            batch: Its number; one that was taken before is repeated, and changes nothing.
            progress: What each bucket emitted.
            written: When it was done, milliseconds since the epoch.

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
        """Rows in the table."""
        return sum(table.rows for table in self.progress)

    @property
    def backlog(self) -> int:
        """Rows that wait to be deleted."""
        return sum(table.backlog for table in self.progress)

    @property
    def maximum(self) -> int | None:
        """The greatest value in the table."""
        return max((t.greatest for t in self.progress if t.greatest is not None), default=None)

    @property
    def rejected(self) -> dict[str, int]:
        """Rows that were put aside, by reason."""
        return dict(self._whole.rejected)

    @property
    def clock(self) -> int | None:
        """The clock of the last batch, milliseconds since the epoch."""
        return max((t.clock for t in self.progress if t.clock is not None), default=None)

    @property
    def averages(self) -> dict[str, float | None]:
        """The average of each span, by its seconds."""
        found: dict[str, float | None] = {}
        for place, span in enumerate(self.options.averages):
            parts = [table.averages[place] for table in self.progress]
            count = sum(n for _, n in parts)
            found[f"{span:g}"] = sum(total for total, _ in parts) / count if count else None
        return found

    @property
    def lag(self) -> int:
        """How many milliseconds the oldest row is older than it may be."""
        oldest = min((t.oldest for t in self.progress if t.oldest is not None), default=None)
        if oldest is None or self.clock is None or self.options.history is None:
            return 0
        return max(0, self.clock - self.options.history - oldest)

    def report(self, now: float) -> Report:
        """The report of the time since the last one.

        Args:
            now: Seconds of the clock that ``begin`` had.
        """
        with self._lock:
            since, self._since = self._since, now
            sums, self._interval = self._interval, _Sums()
            mean, slow = _latency(sums.latencies)
            self._worst = max((x for x in (self._worst, slow) if x is not None), default=None)
            return Report(
                **self._part(sums, since, now),
                clock=self.clock or 0,
                averages=self.averages,
                latency=mean,
                latency_95=slow,
                bytes=sum(table.bytes for table in self.progress),
                backlog=self.backlog,
                lag=self.lag,
            )

    def _part(self, sums: _Sums, since: float | None, now: float) -> dict[str, Any]:
        """The attributes of ``RunPart``."""
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
        """The summary of the run.

        Args:
            now: Seconds of the clock that ``begin`` had.
        """
        ever_in = sum(table.totals[0] for table in self.progress)
        ever_out = sum(table.totals[1] for table in self.progress)
        return Summary(
            **self._part(self._whole, self._begun, now),
            most_rows=self._most_rows,
            most_backlog=self._most_backlog,
            worst_latency_95=self._worst,
            adds_up=ever_in == ever_out + self.rows,
        )


def _latency(found: Sequence[tuple[float, int]]) -> tuple[float | None, float | None]:
    """The mean and the 95th percentile of weighted latencies."""
    count = sum(n for _, n in found)
    if not count:
        return None, None
    passed, slow = 0, 0.0
    for late, n in sorted(found):
        passed, slow = passed + n, late
        if passed >= 0.95 * count:
            break
    return sum(late * n for late, n in found) / count, slow


def _show(value: float | None, form: str) -> str:
    return "none" if value is None else format(value, form)
