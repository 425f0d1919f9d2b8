"""The cost of muntin's batches over Kafka, by rate, shards and partitions of the topic.

    .venv/bin/python -m benches.batches [--rates 1,1000] [--shards 1,2,16,64]
                                        [--partitions 4] [--seconds 20]

The query is that of ``benches.latency``, whose results go to another topic. Each combination runs
in a process of its own. Its first 30 seconds are left out, and so are batches without messages.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from benches.latency import muntin, send
from benches.processes import users_environment
from benches.topics import ROOT

WARM = 30


def run(servers: str, inlet: str, outlet: str, shards: int, seconds: int) -> None:
    """Run the query for a while, and print the durations of its batches in ms, as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        query = muntin(servers, inlet, outlet, f"{folder}/checkpoint", shards=shards)
        time.sleep(WARM)
        first = query.lastProgress["batchId"]
        time.sleep(seconds)
        batches = [p for p in query.recentProgress if p["batchId"] > first and p["numInputRows"]]
        query.stop()
    took = {p["batchId"]: p["durationMs"]["triggerExecution"] for p in batches}
    print(json.dumps(list(took.values())))


def measure(servers: str, topics: tuple[str, str], shards: int, rate: int, seconds: int) -> str:
    """Return a row of the table.

    Raises:
        RuntimeError: When the query ended by itself, or had no batches.
    """
    ends = threading.Event()
    sender = threading.Thread(target=send, args=(servers, topics[0], ends, rate))
    sender.start()
    command = [sys.executable, "-m", "benches.batches", "--run", servers, *topics, str(shards),
               str(seconds)]  # fmt: skip
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=users_environment()
    )
    ends.set()
    sender.join()
    took = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else []
    if not took:
        raise RuntimeError(done.stderr[-2000:])
    return f"{statistics.median(took):.0f} | {max(took):.0f} | {len(took)}"


def main() -> None:
    """Measure all combinations, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", default="1,1000")
    parser.add_argument("--shards", default="1,2,16,64")
    parser.add_argument("--partitions", default="4")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--run", nargs=5)
    arguments = parser.parse_args()
    if arguments.run:
        return run(*arguments.run[:3], *map(int, arguments.run[3:]))
    from tests.services.kafka import Kafka

    rates, shards, partitions = (
        [int(number) for number in text.split(",")]
        for text in (arguments.rates, arguments.shards, arguments.partitions)
    )
    print("| messages/s | partitions | shards | a batch, ms | longest | batches |")
    print("| --- | --- | --- | --- | --- | --- |")
    broker = Kafka()
    try:
        for rate, lanes, count in ((r, p, s) for r in rates for p in partitions for s in shards):
            topics = broker.topic(lanes), broker.topic(1)
            row = measure(broker.servers, topics, count, rate, arguments.seconds)
            print(f"| {rate} | {lanes} | {count} | {row} |", flush=True)
    finally:
        broker.remove()
    return None


if __name__ == "__main__":
    main()
