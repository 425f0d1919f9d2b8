"""The cost of a batch as one factor at a time grows: ``make bench ARGS=scaling``.

    .venv/bin/python -m benches.scaling [--factors rows,keys] [--draw]

Each point is a query in a process of its own: the README's query over Parquet files, a few per
batch, with default settings. The first batches load the state and warm up the JVM. The point is the
median duration of the others, and the CPU time of all processes. It counts only if no message is
missing and as many windows closed as the formula predicts. Points are stored in
``benches/results/scaling.json``, from which the chart is drawn.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benches.curves import draw_curves, table
from benches.processes import members, users_environment

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benches/results/scaling.json"
CHART = ROOT / "benches/notes/growth.svg"
START = 1_767_225_600_000_000  # microseconds
SECOND = 1_000_000
# The number of messages in each batch that loads the state.
LOADED = 1_000_000
TICK = os.sysconf("SC_CLK_TCK")
_STEPS = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")


@dataclass(frozen=True)
class Point:
    """The contents of a batch and of the state.

    Attributes:
        rows: Messages a batch.
        keys: Their keys, which are in the state before the first measured batch.
        open: Windows of each key that are in the state, and stay open.
        overlap: Windows per message, which start every second; if windows close.
        closes: Whether each batch closes a window of every key, or none.
        shards: Partitions of the state.
        files: Files a batch, which are tasks.
        sink: Sink of the results: a function, or a table of DuckDB.
        hot: Percentage of messages that have the same key.
        executors: Processes of a separate cluster, with a core each; 0 for one process with two.
        warm: Batches that aren't measured.
        measured: Batches that are.
    """

    rows: int = 10_000
    keys: int = 1_000
    open: int = 1
    overlap: int = 1
    closes: bool = False
    shards: int = 2
    files: int = 2
    sink: str = "function"
    hot: int = 0
    executors: int = 0
    warm: int = 12
    measured: int = 12

    @property
    def loads(self) -> int:
        """The number of batches that load the state; one if windows close."""
        return 1 if self.closes else -(-self.keys * self.open // LOADED)

    @property
    def batches(self) -> int:
        """The number of all batches of the run."""
        return self.loads + self.warm + self.measured


@dataclass(frozen=True)
class Factor:
    """One factor that grows while all others stay the same."""

    title: str
    base: Point
    values: tuple[int, ...]
    names: tuple[str, ...] = field(default=())

    def points(self, name: str) -> dict[int, Point]:
        """Return the points by the value of the factor."""
        grown = self.names or (name,)
        return {n: _shorter(replace(self.base, **dict.fromkeys(grown, n))) for n in self.values}


def _shorter(point: Point) -> Point:
    """Return a point with fewer batches if each takes seconds."""
    long = point.rows >= 10_000_000 or point.shards >= 100 or point.files >= 100
    return replace(point, warm=4, measured=5) if long else point


_CLOSING = Point(closes=True, keys=100)
FACTORS = {
    "rows": Factor("messages a batch", Point(), (10**3, 10**4, 10**5, 10**6, 10**7, 10**8)),
    "keys": Factor(
        "keys in the state, one window each", Point(), (10**3, 10**4, 10**5, 10**6, 10**7)
    ),
    "open": Factor("open windows of each of 100 keys", Point(keys=100), (1, 10, 100, 1000, 10_000)),
    "overlap": Factor("windows that hold a message", _CLOSING, (1, 10, 60, 600, 3600)),
    "emitted": Factor(
        "windows that close in a batch", _CLOSING, (10**2, 10**3, 10**4, 10**5, 10**6),
        ("rows", "keys"),
    ),
    "duckdb": Factor(
        "the same, into DuckDB", replace(_CLOSING, sink="duckdb"), (10**2, 10**3, 10**4, 10**5),
        ("rows", "keys"),
    ),
    "shards": Factor("shards", Point(), (1, 2, 4, 16, 64, 200, 400)),
    "files": Factor("tasks that read", Point(), (1, 2, 4, 16, 64, 200, 400)),
    "both": Factor("tasks that read, and as many shards", Point(), (1, 2, 4, 16, 64, 128),
                   ("files", "shards")),
    "hot": Factor("of a hundred messages those of one key", Point(rows=1_000_000), (1, 50, 90, 99)),
    "executors": Factor("processes of a cluster on two cores, each with a task and a shard",
                        Point(rows=100_000), (2, 4, 8, 16), ("executors", "files", "shards")),
    "tasks": Factor("tasks that read, and as many shards, of two processes of a cluster",
                    Point(executors=2, warm=30), (2, 16, 64, 200), ("files", "shards")),
}  # fmt: skip


def columns(point: Point, batch: int) -> tuple[Any, Any, Any]:
    """Return the times, keys and values of a batch's messages."""
    if batch < point.loads and point.closes:
        i = np.arange(point.keys * point.overlap, dtype=np.int64)
        return START + i // point.keys * SECOND, i % point.keys, i % 1000
    if batch < point.loads:
        first = batch * LOADED
        i = np.arange(first, min(first + LOADED, point.keys * point.open), dtype=np.int64)
        return START + i // point.keys * SECOND, i % point.keys, i % 1000
    i = np.arange(point.rows, dtype=np.int64)
    mixed = (i * 1_103_515_245 + 12_345) % 2**31
    if point.closes:
        times = START + (point.overlap + batch - 1) * SECOND + i * SECOND // point.rows
        # Each key thus has a window that closes.
        keys = i % point.keys
    else:
        keys = np.where(i % 100 < point.hot, 0, mixed // 256 % point.keys)
        times = START + mixed // 7 % point.open * SECOND
    return times, keys, mixed % 1000


def fill(folder: Path, point: Point) -> None:
    """Write the files of all batches; equal files are stored once."""
    # Spark reads files in the order of their modification times.
    when = time.time() - 100_000
    for batch in range(point.batches):
        repeats = not point.closes and batch > point.loads
        values = None if repeats else columns(point, batch)
        for part in range(point.files):
            path = folder / f"{batch:05}-{part:03}.parquet"
            if values is None:
                path.hardlink_to(folder / f"{point.loads:05}-{part:03}.parquet")
                continue
            write_file(path, [column[part :: point.files] for column in values], when + batch)


def write_file(path: Path, columns: Sequence[Any], when: float) -> None:
    """Write a file of times, keys and values with a modification time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    at, keys, values = columns
    moments = pa.array(at, pa.int64()).cast(pa.timestamp("us", "UTC"))
    table = pa.table({"at": moments, "k": keys, "v": values})
    pq.write_table(table, path, row_group_size=1 << 20)
    os.utime(path, (when, when))


def run(point: Point, folder: str, master: str, machines: Sequence[int]) -> dict[str, Any]:
    """Run a point's query to the end.

    Args:
        point: Point to measure.
        folder: Folder of its input files and of all other files.
        master: Spark master of the cluster.
        machines: Processes that represent the cluster's machines.

    Raises:
        RuntimeError: When messages or windows are missing.
    """
    import muntin as mt

    more = {"spark.executor.memory": "600m"} if machines else {}
    spark = mt.session(master=master, **{k.replace(".", "__"): v for k, v in more.items()})
    messages = spark.readStream.schema("at timestamp, k long, v long")
    messages = messages.option("maxFilesPerTrigger", point.files).parquet(f"{folder}/in")
    lateness = "0 seconds" if point.closes else "30 days"
    windows = mt.windowed(messages, key="k", time="at", lateness=lateness, shards=point.shards)
    windows = windows.hopping(f"{point.overlap} seconds", "1 second")
    counted = windows.agg(n=mt.count(), s=mt.sum("v"), m=mt.max("v"))
    marks: list[list[float]] = []

    def write(rows: Any, _: int) -> None:
        rows.count()
        marks.append([cpu_seconds(session) for session in (os.getsid(0), *machines)])

    sink = write if point.sink == "function" else mt.to_duckdb(f"{folder}/out.duckdb", "results")
    query = counted.start(checkpoint=f"{folder}/state", results=sink, available_now=True)
    query.await_end()
    _check(point, query.progress)
    first = point.loads + point.warm
    took = {p["batchId"]: p["durationMs"] for p in query.query.recentProgress if p["numInputRows"]}
    measured = [steps for batch, steps in took.items() if first <= batch < point.batches]
    figures = {step: statistics.median(steps.get(step, 0) for steps in measured) for step in _STEPS}
    figures["batch"] = statistics.median(steps["triggerExecution"] for steps in measured)
    figures["longest"] = max(steps["triggerExecution"] for steps in measured)
    if marks:
        pairs = zip(marks[point.batches - 1], marks[first - 1], strict=True)
        spent = [1000 * (end - begin) / point.measured for end, begin in pairs]
        figures["cpu"] = sum(spent)
        if machines:
            figures["driver"] = spent[0]
    return {**figures, "state_rows": query.progress.state_rows, "batches": len(measured)}


def _check(point: Point, progress: Any) -> None:
    loaded = point.keys * (point.overlap if point.closes else point.open)
    expected = loaded + point.rows * (point.batches - point.loads)
    if progress.counts.get("counted") != expected or not progress.adds_up():
        raise RuntimeError(f"{progress.counts} of {expected} messages")
    # A batch's first messages close the windows before them; the last second stays open.
    closed = point.keys * (point.overlap + point.batches - 2) if point.closes else 0
    if progress.fired.get("full", 0) != closed:
        raise RuntimeError(f"{progress.fired} of {closed} windows")


def cpu_seconds(session: int) -> float:
    """Return the CPU time of all processes of a session so far, with those that have ended."""
    ticks = 0
    for pid in members(session):
        try:
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, words[11:15]))
    return ticks / TICK


def measure(point: Point) -> dict[str, Any]:
    """Return the figures of one point, from a process of its own.

    Raises:
        RuntimeError: When it failed.
    """
    from tests.services.cluster import Cluster

    with tempfile.TemporaryDirectory() as folder, ExitStack() as ends:
        os.mkdir(f"{folder}/in")
        fill(Path(folder) / "in", point)
        cluster = Cluster(Path(folder), point.executors) if point.executors else None
        if cluster is not None:
            ends.callback(cluster.remove)
        master = cluster.master if cluster else "local[2]"
        machines = [worker.pid for worker in cluster.workers] if cluster else []
        argument = json.dumps([asdict(point), folder, master, machines])
        done = subprocess.run(
            [sys.executable, "-m", "benches.scaling", "--run", argument], cwd=ROOT,
            capture_output=True, text=True, check=False, env=users_environment(),
            start_new_session=True,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure_points(
    names: list[str], values: list[int]
) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Return the figures of the points of some factors, or of those with some values."""
    for name in names:
        for value, point in FACTORS[name].points(name).items():
            if values and value not in values:
                continue
            try:
                figures = measure(point)
            except RuntimeError as error:
                print(name, value, error, file=sys.stderr, flush=True)
                continue
            print(name, value, figures, file=sys.stderr, flush=True)
            yield name, value, figures


def store_point(name: str, value: int, figures: Mapping[str, Any]) -> None:
    """Add a point to the stored ones."""
    curves = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    curves.setdefault(name, {})[str(value)] = figures
    for factor in curves:
        curves[factor] = dict(sorted(curves[factor].items(), key=lambda item: int(item[0])))
    ordered = {factor: curves[factor] for factor in FACTORS if factor in curves}
    RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")


def main(arguments: list[str] | None = None) -> int:
    """Measure the requested points, and draw all stored ones."""
    parser = argparse.ArgumentParser(prog="benches.scaling", description=__doc__)
    parser.add_argument("--factors", default=",".join(FACTORS), help=", ".join(FACTORS))
    parser.add_argument("--values", type=int, nargs="*", default=[], help="only these points")
    parser.add_argument(
        "--draw", action="store_true", help="draw the stored points, measure nothing"
    )
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        point, *rest = json.loads(options.run)
        print(json.dumps(run(Point(**point), *rest)))
        return 0
    for measurement in (
        () if options.draw else measure_points(options.factors.split(","), options.values)
    ):
        store_point(*measurement)
    curves = json.loads(RESULTS.read_text())
    titles = {name: factor.title for name, factor in FACTORS.items()}
    CHART.write_text(draw_curves(curves, titles))
    print(table(curves, titles))
    return 0


if __name__ == "__main__":
    sys.exit(main())
