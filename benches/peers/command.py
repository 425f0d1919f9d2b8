"""The command line and the line of JSON that all peer programs share."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benches.auctions import Auctions
from benches.stream import DATA, Stream
from benches.workloads import CASES, Case

STARTED = time.perf_counter()
WORK = DATA.parent / ".work"


@dataclass(frozen=True)
class Run:
    """The options of one run of a peer program.

    Attributes:
        case: Case to run.
        stream: Rows of the case.
        check: Whether outputs are counted and summed instead of timed only.
        state: Name of the state backend, for peers that have a choice.
        mini_batch: Whether Flink gathers rows before it touches state.
        scale: Factor on the rows.
        work: A new folder for checkpoints and outputs, removed at the end.
    """

    case: Case
    stream: Stream | Auctions
    check: bool
    state: str
    mini_batch: bool
    scale: float
    work: Path


@dataclass
class Outcome:
    """The results of a run.

    Attributes:
        seconds: Time from the start of the query to its last output.
        output: Number of rows, and their sums of count, sum and max; empty if only timed.
        figures: Further figures: latencies, times of batches.
    """

    seconds: float
    output: dict[str, int] | None = None
    figures: dict[str, float] | None = None


def totals(rows: int, count: int | None, total: int | None, top: int | None) -> dict[str, int]:
    """Return a checksum of outputs that doesn't depend on their order."""
    return {
        "rows": int(rows),
        "count": int(count or 0),
        "sum": int(total or 0),
        "max": int(top or 0),
    }


def parse(program: str) -> Run:
    """Parse the command line of a peer program."""
    parser = argparse.ArgumentParser(prog=f"benches.peers.{program}")
    parser.add_argument("case", choices=sorted(CASES))
    parser.add_argument("--rows", type=int, required=True, help="rows of this run")
    parser.add_argument("--full-rows", type=int, help="rows of the full run, if this is a tenth")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--state", default="", help="state backend")
    parser.add_argument("--mini-batch", action="store_true")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="count and sum the outputs")
    mode.add_argument("--time", action="store_true", help="only time (default)")
    options = parser.parse_args()
    case = CASES[options.case]
    WORK.mkdir(exist_ok=True)
    return Run(
        case=case,
        stream=case.stream(options.rows, options.full_rows or options.rows, options.scale),
        check=options.check,
        state=options.state,
        mini_batch=options.mini_batch,
        scale=options.scale,
        work=Path(tempfile.mkdtemp(dir=WORK)),
    )


def serve(program: str, run: Callable[[Run], Outcome]) -> None:
    """Run a peer program and print its result line."""
    options = parse(program)
    try:
        outcome = run(options)
    finally:
        shutil.rmtree(options.work, ignore_errors=True)
    line = {
        "case": options.case.name,
        "rows": options.stream.rows,
        "seconds": {
            "query": round(outcome.seconds, 4),
            "whole": round(time.perf_counter() - STARTED, 4),
        },
        "output": outcome.output,
        "figures": outcome.figures,
    }
    print("RESULT " + json.dumps(line), flush=True)
    sys.stdout.flush()
