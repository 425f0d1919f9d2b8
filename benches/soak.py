"""A day in an hour: ``python -m benches.soak [--minutes 60] [--before REVISION]``.

A query with all features that hold state reads the messages of ``benches.day`` from a Kafka topic
of JSON, aggregates them in hopping windows, and writes to a table in PostgreSQL. Meanwhile, the
query is killed, stopped and restarted, both servers are killed and return, the number of shards
grows and shrinks while the query runs, and halfway this build of muntin replaces an earlier one. At
the end, every window in the table must equal the day's formula, and every invalid message must be
among the rejected ones, once.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import psycopg

from benches.day import HOUR, REASONS, START, Day
from benches.processes import RunError, end_session, members, users_environment
from benches.soak_report import make_page

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benches/results"
QUERY = "benches.peers.muntin_soak"
SLIDE, OVERLAP, LATENESS = HOUR // 4, 4, HOUR // 12  # milliseconds, as in the query
AWAY_SECONDS = 5  # The time for which a killed server is away.
LOOK_SECONDS, SAMPLE_SECONDS = 0.2, 5.0
# The incidents, and the shares of the time after which they happen.
EVENTS = (
    (0.10, "query killed"), (0.22, "query stopped and started"), (0.34, "PostgreSQL killed"),
    (0.46, "build changed"), (0.58, "rescale 3"), (0.68, "Kafka killed"), (0.78, "query killed"),
    (0.90, "rescale 2"),
)  # fmt: skip
_NEWEST = """
SELECT extract(epoch FROM max(window_end)) FROM results
WHERE emission IN ('full', 'late') AND k >= 0
"""
_WINDOWS = """
SELECT k, extract(epoch FROM window_start)::bigint, n, total, most, emission FROM results
WHERE k >= 0
"""


def memory(session: int) -> dict[str, float]:
    """Return the memory by kind of process, in MB; shared pages count once."""
    sizes = dict.fromkeys(("driver", "JVM", "workers"), 0.0)
    for pid in members(session):
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_text()
            rolled = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            kind = "workers" if "muntin.spark.host.daemon" in command else "driver"
            kind = "JVM" if "SparkSubmit" in command else kind
            sizes[kind] += sum(int(w.split()[1]) for w in rolled if w.startswith("Pss:")) / 1024
    return sizes


@dataclass
class Query:
    """The processes of the query, one after the other.

    Attributes:
        arguments: Arguments of the query: servers, topic, database and folder.
        folder: Folder that it writes to.
        before: Source of the earlier build, until this one replaces it.
    """

    arguments: list[str]
    folder: Path
    before: Path | None
    process: subprocess.Popen[str] = field(init=False)

    def start(self) -> None:
        """Start the query, with the build that is due."""
        environment = users_environment()
        if self.before is not None:
            environment["PYTHONPATH"] = str(self.before)
        with (self.folder / "out").open("a") as out, (self.folder / "errors").open("a") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", QUERY, *self.arguments], cwd=ROOT, env=environment,
                stdin=subprocess.PIPE, stdout=out, stderr=errors, text=True,
                start_new_session=True,
            )  # fmt: skip

    def order(self, command: str) -> None:
        """Send it a command."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command}\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        """Stop it as its user would, and wait for its end."""
        self.order("stop")
        self.process.wait(timeout=180)

    def kill(self) -> None:
        """Kill it, as in a crash."""
        end_session(self.process.pid)
        self.process.wait(timeout=60)

    def check(self) -> None:
        """Raise ``RunError`` if it has ended by itself."""
        if self.process.poll() is not None:
            raise RunError((self.folder / "errors").read_text()[-3000:])


@dataclass
class Hour:
    """The run, and its observations."""

    day: Day
    query: Query
    kafka: Any
    postgres: Any
    dsn: str
    began: float = 0.0
    samples: list[dict[str, float]] = field(default_factory=list)
    happened: list[dict[str, Any]] = field(default_factory=list)
    latencies: list[dict[str, float]] = field(default_factory=list)
    closed: int = START

    def happen(self, event: str) -> None:
        """Cause an incident; the return of a server isn't waited for."""
        self.happened.append({"minute": round((time.time() - self.began) / 60, 2), "what": event})
        print(self.happened[-1], flush=True)
        server = {"PostgreSQL killed": self.postgres, "Kafka killed": self.kafka}.get(event)
        if server is not None:
            server.kill()
            threading.Timer(AWAY_SECONDS, server.start).start()
        elif event.startswith("rescale"):
            self.query.order(event)
        else:
            self.query.kill() if event == "query killed" else self.query.stop()
            if event == "build changed":
                self.query.before = None
            self.query.start()

    def look(self, reader: Iterator[int]) -> None:
        """Note the windows that have become readable since the last look."""
        newest, now = next(reader), time.time()
        while self.closed < newest:
            self.closed += SLIDE
            due = (self.closed + LATENESS - START) / 1000 / self.day.speed
            late = round(now - self.began - due, 2)
            latency = {"minute": round(due / 60, 2), "seconds": late}
            if self.closed <= START + 24 * HOUR - LATENESS:
                self.latencies.append(latency)

    def sample(self) -> None:
        """Note the memory in use."""
        minute = (time.time() - self.began) / 60
        sizes = {kind: round(size) for kind, size in memory(self.query.process.pid).items()}
        self.samples.append({"minute": round(minute, 2), **sizes})

    def run(self) -> None:
        """Run from the day's first message to its last."""
        reader, events, sampled = newest_windows(self.dsn), list(EVENTS), 0.0
        while (spent := time.time() - self.began) < self.day.seconds:
            self.query.check()
            if events and spent >= events[0][0] * self.day.seconds:
                self.happen(events.pop(0)[1])
            self.look(reader)
            if spent - sampled >= SAMPLE_SECONDS:
                sampled = spent
                self.sample()
            time.sleep(LOOK_SECONDS)


def newest_windows(dsn: str) -> Iterator[int]:
    """Yield the end of the last complete window in the table, in ms, at each look."""
    connection, newest = None, START
    while True:
        with suppress(psycopg.Error):
            connection = connection or psycopg.connect(dsn, autocommit=True, connect_timeout=1)
        if connection is not None:
            try:
                (end,) = connection.execute(_NEWEST).fetchone() or (None,)
                newest = newest if end is None else int(end * 1000)
            except psycopg.errors.UndefinedTable:
                pass
            except psycopg.Error:
                connection = None
        yield newest


def compute_expected(day: Day) -> tuple[pl.DataFrame, dict[str, int]]:
    """Return all windows by the day's formula, and the number of messages of each reason."""
    parts, reasons = [], dict.fromkeys(REASONS, 0)
    for step in range(day.steps):
        messages = day.messages(step)
        is_valid = messages.reasons < 0
        pane = messages.at[is_valid] // SLIDE
        parts.append(
            pl.DataFrame(
                {"k": messages.keys[is_valid], "pane": pane, "v": messages.values[is_valid]}
            )
        )
        for number in messages.reasons[~is_valid].tolist():
            reasons[REASONS[number]] += 1
    aggregates = [pl.col("n").sum(), pl.col("total").sum(), pl.col("most").max()]
    first = [pl.len().alias("n"), pl.col("v").sum().alias("total"), pl.col("v").max().alias("most")]
    panes = pl.concat(parts).group_by("k", "pane").agg(first).cast(pl.Int64)
    shifted = [panes.with_columns(pl.col("pane") - n) for n in range(OVERLAP)]
    return pl.concat(shifted).group_by("k", "pane").agg(aggregates).sort("k", "pane"), reasons


def check(day: Day, dsn: str) -> dict[str, Any]:
    """Compare the tables with the formula.

    Raises:
        RunError: When a window is missing, unexpected or wrong, or a rejected message is missing
            or duplicated.
    """
    windows, reasons = compute_expected(day)
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(_WINDOWS).fetchall()
        query = "SELECT reason, count(*) FROM rejected GROUP BY reason"
        rejected = dict(connection.execute(query).fetchall())
    names = ["k", "pane", "n", "total", "most", "emission"]
    results = pl.DataFrame(rows, schema=names, orient="row")
    results = results.with_columns(pl.col("pane") * 1000 // SLIDE).sort("k", "pane")
    emissions = dict(results["emission"].value_counts().iter_rows())
    values = results.drop("emission").cast(pl.Int64)
    if not values.equals(windows):
        joined = values.join(windows, on=["k", "pane"], how="full", coalesce=True)
        wrong = joined.filter(
            pl.any_horizontal(
                pl.col(n).ne_missing(pl.col(f"{n}_right")) for n in ("n", "total", "most")
            )
        )
        raise RunError(f"{len(wrong)} windows of {len(windows)} differ: {wrong.head(10)}")
    if rejected != {reason: count for reason, count in reasons.items() if count}:
        raise RunError(f"{rejected} were rejected, {reasons} had to be")
    counted = int(windows["n"].sum()) // OVERLAP
    return {"windows": len(windows), "counted": counted, "rejected": rejected, "emitted": emissions}


def extract_build(revision: str, folder: Path) -> Path:
    """Extract the source of an earlier build."""
    packed = subprocess.run(
        ["git", "archive", revision, "src"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


@contextmanager
def hour(minutes: float, before: str) -> Iterator[Hour]:
    """Start everything that the run needs on loopback; it ends with the run."""
    from tests.services.kafka import Kafka
    from tests.services.postgres import Postgres

    with tempfile.TemporaryDirectory() as name, ExitStack() as ends:
        folder, kafka, postgres = Path(name), Kafka(), Postgres()
        ends.callback(kafka.remove)
        ends.callback(postgres.remove)
        topic, dsn = kafka.topic(4), postgres.database()
        day = Day(minutes * 60)
        query = Query([kafka.servers, topic, dsn, name], folder, extract_build(before, folder))
        run = Hour(day, query, kafka, postgres, dsn)
        query.start()
        ends.callback(query.kill)
        while "started" not in (folder / "out").read_text():
            query.check()
            time.sleep(LOOK_SECONDS)
        run.began = time.time() + 5
        sender = subprocess.Popen(
            [sys.executable, "-m", "benches.day", kafka.servers, topic, str(day.seconds),
             str(run.began)], cwd=ROOT,
        )  # fmt: skip
        ends.callback(sender.kill)
        yield run
        if sender.wait(timeout=660):
            raise RunError("the messages couldn't be sent")


def main() -> int:
    """Run the hour, check the results, and store the observations."""
    parser = argparse.ArgumentParser(prog="benches.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--before", default="HEAD~1", help="the build that makes way in the middle")
    arguments = parser.parse_args()
    os.environ.setdefault("MUNTIN_SERVICES", "required")
    with hour(arguments.minutes, arguments.before) as run:
        run.run()
        settle(run)
        run.query.stop()
        figures = check(run.day, run.dsn)
        lines = (run.query.folder / "batches").read_text().splitlines()
        output = (run.query.folder / "out").read_text().splitlines()
    batches = [in_minutes(json.loads(line), run.began) for line in lines]
    report = {
        "minutes": arguments.minutes, "before": arguments.before, "began": run.began, **figures,
        "said": [line for line in output if line != "started"], "events": run.happened,
        "samples": run.samples, "latencies": run.latencies, "batches": batches,
    }  # fmt: skip
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "soak.json").write_text(json.dumps(report) + "\n")
    text = make_page(report)
    (RESULTS / "soak.md").write_text(text)
    print(text)
    return 0


def in_minutes(batch: dict[str, Any], began: float) -> list[float]:
    """Return when a batch began, in minutes, and its duration in seconds."""
    at = datetime.fromisoformat(batch["at"]).timestamp()
    return [round((at - began) / 60, 2), batch["ms"] / 1000]


def settle(run: Hour) -> None:
    """Wait until the table has the day's last windows, and no more rows arrive."""
    reader, until = newest_windows(run.dsn), time.time() + 300
    while time.time() < until and next(reader) < START + 24 * HOUR + 3 * SLIDE:
        run.query.check()
        run.look(reader)
        time.sleep(LOOK_SECONDS)
    time.sleep(15)


if __name__ == "__main__":
    sys.exit(main())
