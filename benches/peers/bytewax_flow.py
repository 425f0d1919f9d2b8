"""Bytewax: ``fold_window`` in two processes, each reading the keys of one parity.

Reading by parity keeps the rows of a key in order, so that none is late. The rows are
computed by NumPy and passed as Python objects, in blocks.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as w
import numpy as np
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition

from benches.peers.command import Outcome, Run, serve, totals
from benches.stream import Stream
from benches.workloads import CASES, Case

BLOCK = 10_000
PROCESSES = 2
REQUEST = "BENCHES_BYTEWAX"
"""The environment variable with the run of the two processes."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Event = tuple[str, tuple[datetime, int]]


def blocks(stream: Stream, parity: int) -> Iterator[list[Event]]:
    """Yield blocks of rows with the keys of one parity."""
    for start in range(0, stream.rows, BLOCK):
        i = np.arange(start, min(start + BLOCK, stream.rows), dtype=np.int64)
        is_of_parity = stream.columns(i)[0] % PROCESSES == parity
        k, v, ms = stream.columns(i[is_of_parity])
        times = [EPOCH + timedelta(milliseconds=x) for x in ms.tolist()]
        yield [
            (key, (at, value))
            for key, at, value in zip(map(str, k.tolist()), times, v.tolist(), strict=True)
        ]


class Part(StatefulSourcePartition[Event, None]):
    """The rows of one process."""

    def __init__(self, stream: Stream, parity: int) -> None:
        self.blocks = blocks(stream, parity)

    def next_batch(self) -> list[Event]:
        """Return the next block; the end of the stream closes every window."""
        return next(self.blocks)

    def snapshot(self) -> None:
        """Return None, since nothing is recovered."""


class Rows(FixedPartitionedSource[Event, None]):
    """The input, with a part for each process."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    def list_parts(self) -> list[str]:
        """Return the names of the parts."""
        return [str(parity) for parity in range(PROCESSES)]

    def build_part(self, step_id: str, for_part: str, resume_state: Any) -> Part:
        """Open a part."""
        return Part(self.stream, int(for_part))


class Tally(StatelessSinkPartition[Any]):
    """Counts and sums outputs into a file of this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sums = [0, 0, 0, 0]

    def write_batch(self, items: list[Any]) -> None:
        """Add a batch of (key, (window, [count, sum, max]))."""
        for _, (_, (count, total, top)) in items:
            sums = self.sums
            self.sums = [sums[0] + 1, sums[1] + count, sums[2] + total, sums[3] + top]

    def close(self) -> None:
        """Write the sums."""
        self.path.write_text(json.dumps(self.sums))


class TallySink(DynamicSink[Any]):
    """The output, with a tally for each worker."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def build(self, step_id: str, worker_index: int, worker_count: int) -> Tally:
        """Open the tally of a worker."""
        return Tally(self.folder / f"tally-{worker_index}.json")


def fold(sums: list[int], event: tuple[datetime, int]) -> list[int]:
    """Add one row."""
    sums[0] += 1
    sums[1] += event[1]
    sums[2] = max(sums[2], event[1])
    return sums


def merge(left: list[int], right: list[int]) -> list[int]:
    """Merge the sums of two windows; only sessions need it."""
    return [left[0] + right[0], left[1] + right[1], max(left[2], right[2])]


def windower(case: Case) -> Any:
    """Return the windows of a case."""
    if case.gap:
        return w.SessionWindower(gap=timedelta(seconds=case.gap))
    size, slide = timedelta(seconds=case.size), timedelta(seconds=case.slide)
    if size == slide:
        return w.TumblingWindower(length=size, align_to=EPOCH)
    return w.SlidingWindower(length=size, offset=slide, align_to=EPOCH)


def make_flow() -> Dataflow:
    """Return the dataflow that each process runs."""
    request = json.loads(os.environ[REQUEST])
    case = CASES[request["case"]]
    # The system clock is fixed: a watermark that follows it would overtake the rows.
    clock: Any = w.EventClock(
        lambda event: event[0], timedelta(0), lambda: EPOCH, lambda window_end: None
    )
    flow = Dataflow("benches")
    events = op.input("rows", flow, Rows(case.stream(request["rows"], request["rows"], 1.0)))
    windows = w.fold_window(
        "fold", events, clock, windower(case), lambda: [0, 0, 0], fold, merge, ordered=False
    )
    op.output("tally", windows.down, TallySink(Path(request["folder"])))
    return flow


def addresses() -> str:
    """Return the addresses of two free local ports."""
    sockets = [socket.socket() for _ in range(PROCESSES)]
    for listener in sockets:
        listener.bind(("127.0.0.1", 0))
    names = [f"127.0.0.1:{listener.getsockname()[1]}" for listener in sockets]
    for listener in sockets:
        listener.close()
    return ";".join(names)


def main(run: Run) -> Outcome:
    """Run the processes to their end; their start-up is part of the time."""
    request = {"case": run.case.name, "rows": run.stream.rows, "folder": str(run.work)}
    environment = os.environ | {REQUEST: json.dumps(request)}
    program = [sys.executable, "-m", "bytewax.run", "benches.peers.bytewax_flow:make_flow"]
    hosts = addresses()
    started = time.perf_counter()
    processes = [
        subprocess.Popen([*program, "-i", str(n), "-a", hosts], env=environment)
        for n in range(PROCESSES)
    ]
    codes = [process.wait() for process in processes]
    seconds = time.perf_counter() - started
    if any(codes):
        raise RuntimeError(f"a process ended with {codes}")
    tallies = [json.loads(path.read_text()) for path in run.work.glob("tally-*.json")]
    return Outcome(seconds, totals(*(sum(column) for column in zip(*tallies, strict=True))))


if __name__ == "__main__":
    serve("bytewax_flow", main)
