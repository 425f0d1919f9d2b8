"""Pathway: ``windowby`` over a Python source, two workers, each window final when it emits.

Pathway's sessions lack this behaviour: they are emitted again as they grow, and never dropped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pathway as pw

from benches.peers.command import Outcome, Run, serve, totals
from benches.stream import Stream
from benches.workloads import CASES, Case

REQUEST = "BENCHES_PATHWAY"
"""The environment variable with the run of the spawned processes."""

BLOCK = 10_000


class Row(pw.Schema):
    """One row; the time is in whole milliseconds."""

    k: int
    v: int
    ts: int


class Rows(pw.io.python.ConnectorSubject):
    """The formula stream, computed block by block, and the sentinel."""

    def __init__(self, stream: Stream) -> None:
        super().__init__()
        self.stream = stream

    def run(self) -> None:
        """Send all rows."""
        stream = self.stream
        for start in range(0, stream.rows, BLOCK):
            i = np.arange(start, min(start + BLOCK, stream.rows), dtype=np.int64)
            k, v, ms = stream.columns(i)
            for key, value, at in zip(k.tolist(), v.tolist(), ms.tolist(), strict=True):
                self.next(k=key, v=value, ts=at)
        self.next(k=0, v=0, ts=stream.sentinel_ms)


def results(events: Any, case: Case) -> Any:
    """Return the window query of a case."""
    window: Any = pw.temporal.tumbling(duration=case.size * 1000, origin=0)
    behavior: Any = pw.temporal.exactly_once_behavior()
    if case.gap:
        # Its sessions exclude a distance equal to the gap.
        window, behavior = pw.temporal.session(max_gap=case.gap * 1000 + 1), None
    elif case.size != case.slide:
        window = pw.temporal.sliding(hop=case.slide * 1000, duration=case.size * 1000, origin=0)
    return events.windowby(
        events.ts,
        window=window,
        instance=events.k,
        behavior=behavior,
    ).reduce(
        k=pw.this._pw_instance,
        window_start=pw.this._pw_window_start,
        count=pw.reducers.count(),
        sum=pw.reducers.sum(pw.this.v),
        max=pw.reducers.max(pw.this.v),
    )


def worker() -> None:
    """Run one spawned process."""
    request = json.loads(os.environ[REQUEST])
    case = CASES[request["case"]]
    stream = case.stream(request["rows"], request["rows"], 1.0)
    table = results(pw.io.python.read(Rows(stream), schema=Row), case)
    sums = [0, 0, 0, 0]

    def tally(key: Any, row: dict[str, int], time: int, is_addition: bool) -> None:
        if row["window_start"] <= stream.last_ms:
            sign = 1 if is_addition else -1
            for column, value in enumerate((1, row["count"], row["sum"], row["max"])):
                sums[column] += sign * value

    if request["check"]:
        pw.io.subscribe(table, on_change=tally)
    else:
        pw.io.null.write(table)
    started = time.perf_counter()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    seconds = time.perf_counter() - started
    name = f"tally-{os.environ.get('PATHWAY_PROCESS_ID', '0')}.json"
    (Path(request["folder"]) / name).write_text(json.dumps([seconds, *sums]))


def main(run: Run) -> Outcome:
    """Spawn two worker threads and read their results."""
    request = {
        "case": run.case.name,
        "rows": run.stream.rows,
        "folder": str(run.work),
        "check": run.check,
    }
    command = str(Path(sys.executable).with_name("pathway"))
    program = [sys.executable, "-m", "benches.peers.pathway_table"]
    subprocess.run(
        [command, "spawn", "--threads", "2", *program],
        env=os.environ | {REQUEST: json.dumps(request)},
        check=True,
    )
    tallies = [json.loads(path.read_text()) for path in run.work.glob("tally-*.json")]
    seconds, *sums = (sum(column) for column in zip(*tallies, strict=True))
    return Outcome(seconds, totals(*sums) if run.check else None)


if __name__ == "__main__":
    if REQUEST in os.environ:
        worker()
    else:
        serve("pathway_table", main)
