"""W9e: standalone operators that take single messages, by policy.

    .venv/bin/python -m benches.policies [--messages 1000000] [--rounds 3]

The stream is W1's: 10 000 keys, 50 000 messages a second of event time, in one process of one core.
Late messages and those of sessions come up to two seconds out of order. Outputs are flushed after
every 100 000 messages. A rate counts only if all messages were counted and windows emitted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np

import muntin as mt
from benches.topics import ROOT, stream
from muntin.standalone import JoinWindow, SessionAggregator, WindowedAggregator, join, windowed

FLUSHED = 100_000
SIDES = ("left", "right")
LATE = 2_000  # milliseconds


def _tumbling() -> Any:
    return windowed(key="k", time="at", lateness="1 second").tumbling("10 seconds")


def _make_aggregator(windows: Any) -> WindowedAggregator:
    return WindowedAggregator(windows.agg(n=mt.count(), s=mt.sum("v"), m=mt.max("v")))


def _sessions() -> SessionAggregator:
    windows = windowed(key="k", time="at", lateness="3 seconds").session("100 milliseconds")
    return SessionAggregator(windows.agg(n=mt.count(), s=mt.sum("v")))


def _join() -> JoinWindow:
    side = windowed(time="at", lateness="1 second").early(every="1 second")
    return JoinWindow(join(side, side, on="k", within="1 second", how="left"))


OPERATORS: dict[str, Callable[[], Any]] = {
    "plain": lambda: _make_aggregator(_tumbling()),
    ".early(each=True)": lambda: _make_aggregator(_tumbling().early(each=True)),
    ".early(rows=1000)": lambda: _make_aggregator(_tumbling().early(rows=1000)),
    ".late(each=True)": lambda: _make_aggregator(_tumbling().late(each=True, grace="1 minute")),
    "sessions, disordered": _sessions,
    "join, .early(every=)": _join,
}


def messages(policy: str, count: int) -> Iterator[tuple[int, int, int]]:
    """Return the time in microseconds, the key and the value of each message, in order."""
    times, keys, values = stream(0, count)
    if "disordered" in policy or "late" in policy:
        behind = np.random.default_rng(7).integers(0, LATE, count)
        order = np.argsort(times + behind, kind="stable")
        times, keys, values = times[order], keys[order], values[order]
    return zip((1000 * times).tolist(), keys.tolist(), values.tolist(), strict=True)


def run(policy: str, count: int) -> None:
    """Add all messages one by one, and print the figures as JSON.

    Raises:
        RuntimeError: When messages weren't counted, or nothing was emitted.
    """
    feed = list(messages(policy, count))
    op, emitted = OPERATORS[policy](), 0
    began = time.perf_counter()
    for number, (at, key, value) in enumerate(feed, 1):
        if isinstance(op, JoinWindow):
            op.add_message(SIDES[number % 2], key=key, value={"v": value}, time=at)
        else:
            op.add_message(key=key, value={"v": value}, time=at)
        if number % FLUSHED == 0:
            op.timeout(number * 20)
            emitted += len(op.flush().results)
    seconds = time.perf_counter() - began
    if op.counts["counted"] != count or not emitted:
        raise RuntimeError(f"{policy}: {op.counts} of {count} messages, {emitted} rows emitted")
    print(json.dumps({"rate": count / seconds, "emitted": emitted}))


def main() -> None:
    """Run each policy in a process of its own, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run")
    arguments = parser.parse_args()
    if arguments.run:
        return run(arguments.run, arguments.messages)
    print("| policy | messages/s | rows emitted |")
    print("| --- | --- | --- |")
    for policy in OPERATORS:
        figures = [measure(policy, arguments.messages) for _ in range(arguments.rounds)]
        rate = statistics.median(one["rate"] for one in figures)
        print(f"| `{policy}` | {rate:,.0f} | {figures[0]['emitted']:,} |", flush=True)
    return None


def measure(policy: str, count: int) -> dict[str, float]:
    """Return the figures of one run, in a process of its own."""
    command = [sys.executable, "-m", "benches.policies", "--run", policy, "--messages", str(count)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{policy}: {done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    main()
