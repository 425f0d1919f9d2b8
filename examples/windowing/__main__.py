"""VoltDB's windowing application: a table that is pruned while it grows."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
from examples.windowing.options import Options, parse_options
from examples.windowing.report import Event, Maximum, Report
from examples.windowing.table import NOTHING, Deleted, TimeData, add_up
from examples.windowing.tuples import make_tuples

import muntin as mt
from muntin.sources.source import Source

# The seconds between inserts, which bound how long a row waits to be committed.
_PAUSE = 0.05


@dataclass
class Figures:
    """The figures of an interval."""

    inserted: int = 0
    deleted: Deleted = NOTHING
    latencies: list[pl.Series] = field(default_factory=list)


class Application:
    """The tasks: insert, delete, follow the maximum, and report.

    Args:
        options: The options.
        source: Ticks, each of which becomes a tuple.
        write: Called with each report and each change of the maximum.
        clock: Returns seconds since the epoch.
    """

    def __init__(
        self,
        options: Options,
        source: Source,
        write: Callable[[Event], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.options = options
        self.table = TimeData(options)
        if options.deletes is not None:
            options.deletes.mkdir(parents=True, exist_ok=True)
        self._write = write
        self._clock = clock
        self._reader = source.open()
        self._offset: Mapping[str, Any] | None = None
        self._maximum: int | None = None
        self._figures = Figures()
        self._began = self._reported = clock()
        self._deletes_at = 0.0

    def run(self) -> None:
        """Run all tasks for the duration."""
        due = self._began + self.options.displayinterval
        while (begun := self._clock()) < self._began + self.options.duration:
            self.step()
            if self._clock() >= due:
                self.report()
                due += self.options.displayinterval
            time.sleep(max(0.0, begun + _PAUSE - self._clock()))

    def step(self) -> None:
        """Insert what is due, delete, and commit both in one transaction."""
        now = self._clock()
        end = self._reader.plan(self._offset, None).end
        batches = [
            make_tuples(ticks, self.options.seed) for ticks in self._reader.read(self._offset, end)
        ]
        self._offset = end
        deleted = [self.table.insert(tuples) for tuples in batches]
        if not self.options.inline and now >= self._deletes_at:
            deleted.append(self._run_deleter(now))
        requests = _list_requests(self.options.deletes)
        deleted += [self.table.delete_through(int(request.stem)) for request in requests]
        self.table.commit()
        for request in requests:
            request.unlink()
        self._count(batches, add_up(deleted))
        self._follow_maximum()

    def _run_deleter(self, now: float) -> Deleted:
        """Delete everywhere; then wait for a while, unless there is more to delete."""
        deleted = self.table.delete_everywhere(round(now * 1e6))
        if not self.table.backlog:
            self._deletes_at = now + self.options.deleteyieldtime / 1000
        return deleted

    def _count(self, batches: list[pl.DataFrame], deleted: Deleted) -> None:
        committed, figures = round(self._clock() * 1e6), self._figures
        figures.inserted += sum(map(len, batches))
        figures.deleted = add_up([figures.deleted, deleted])
        figures.latencies += [
            (committed - tuples["update_ts"].dt.epoch("us")) / 1000 for tuples in batches
        ]

    def _follow_maximum(self) -> None:
        before, self._maximum = self._maximum, self.table.find_maximum()
        if self._maximum != before:
            self._write(Maximum(before, self._maximum))

    def report(self) -> None:
        """Report what has happened since the last report."""
        now, table, figures = self._clock(), self.table, self._figures
        clock = round(now * 1e6)
        latencies: Any = pl.concat([pl.Series(dtype=pl.Float64), *figures.latencies])
        report = Report(
            clock=clock,
            averages={f"{s:g}": table.compute_average(s, clock) for s in self.options.spans},
            throughput=figures.inserted / max(now - self._reported, 0.001),
            latency=latencies.mean(),
            latency_95=latencies.quantile(0.95),
            deleted=figures.deleted.rows,
            chunks=figures.deleted.chunks,
            rows=table.rows,
            backlog=table.backlog,
            lag=table.find_lag(clock),
        )
        self._figures, self._reported = Figures(), now
        self._write(report)


def _list_requests(folder: Path | None) -> list[Path]:
    """List the files by which other processes request deletions.

    A file ``1767225600000000.delete`` requests to delete the rows up to that time (microseconds).
    """
    files = [] if folder is None else folder.glob("*.delete")
    return [file for file in files if file.stem.isdecimal()]


def _run_on_spark(options: Options, write: Callable[[Event], None]) -> int:
    from examples.windowing.on_spark import run_on_spark

    try:
        run_on_spark(options, write)
    except KeyboardInterrupt:
        return 130
    return 0


def main(arguments: list[str]) -> int:
    """Run the application until its end or Ctrl-C, and return the exit code."""

    def write(event: Event) -> None:
        print(json.dumps(event.to_json()) if options.json else event, flush=True)

    try:
        options = parse_options(arguments)
        if options.host == "spark":
            return _run_on_spark(options, write)
        application = Application(options, mt.ticks(options.ratelimit), write)
    except mt.MuntinError as error:
        print(f"error {error}", file=sys.stderr)
        return 1
    interrupted = False
    try:
        application.run()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        application.table.close()
    summary = application.table.summarize()
    write(summary)
    return 130 if interrupted else int(not summary.adds_up)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
