"""The query of the soak: ``python -m benches.peers.muntin_soak SERVERS TOPIC DSN FOLDER``.

It reads commands from its standard input, a line each: ``rescale N``, and ``stop``.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import muntin as mt

SIZE, SLIDE, LATENESS, GRACE = "1 hour", "15 minutes", "5 minutes", "2 hours"


def count_messages(spark: Any, servers: str, topic: str) -> Any:
    """Return a query with all features that hold state: panes, early and late firing, grace."""
    messages = mt.kafka(servers, topic, columns="at timestamp, k long, v long").stream(spark)
    windows = mt.windowed(messages, key="k", time="at", lateness=LATENESS).hopping(SIZE, SLIDE)
    windows = windows.early(every="10 seconds").late(grace=GRACE, every="10 seconds")
    return windows.agg(n=mt.count(), total=mt.sum("v"), most=mt.max("v"))


def note_batches(query: Any, path: Path, ends: threading.Event) -> None:
    """Append the time of each batch, once, to a file."""
    noted_batches: set[tuple[str, int]] = set()
    while not ends.wait(1):
        inner = query.query
        for progress in [] if inner is None else inner.recentProgress:
            batch = str(progress["runId"]), progress["batchId"]
            if progress["numInputRows"] and batch not in noted_batches:
                noted_batches.add(batch)
                took = progress["durationMs"]["triggerExecution"]
                line = {"at": progress["timestamp"], "ms": took}
                with path.open("a") as file:
                    file.write(json.dumps(line) + "\n")


def main(servers: str, topic: str, dsn: str, folder: str) -> None:
    """Run the query until it is stopped."""
    spark = mt.session(master="local[2]")
    query = count_messages(spark, servers, topic).start(
        checkpoint=f"{folder}/checkpoint",
        results=mt.to_postgres(dsn, "results"),
        rejected=mt.to_postgres(dsn, "rejected"),
    )
    ends = threading.Event()
    notes = threading.Thread(target=note_batches, args=(query, Path(folder, "batches"), ends))
    notes.start()
    print("started", flush=True)
    try:
        for line in sys.stdin:
            word, *rest = line.split()
            if word == "stop":
                break
            began = time.monotonic()
            query.rescale(int(rest[0]))
            print(f"rescaled in {time.monotonic() - began:.1f} s", flush=True)
        if not query.is_active:
            query.await_end(1)
        query.stop()
    finally:
        ends.set()
        notes.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
