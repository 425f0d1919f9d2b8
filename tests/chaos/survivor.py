"""A driver that survives faults: reads Kafka into PostgreSQL until all messages are sent.

Usage: survivor.py FOLDER SERVERS TOPIC; the address of the database is in ``SURVIVOR_DSN``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import muntin as mt
from muntin.spark.session import session

COLUMNS = "id long, at timestamp, value long"
SIZE, SLIDE = 600, 300


def main(folder: Path, servers: str, topic: str) -> None:
    # A task may fail, since the test kills its Python worker now and then.
    spark = session("survivor", master="local[2,4]")
    dsn = os.environ["SURVIVOR_DSN"]
    # If the broker is down, a task waits for it, and doesn't fail at once.
    patient = {"fetchOffset.numRetries": "60", "fetchOffset.retryIntervalMs": "500"}
    source = mt.kafka(servers, topic, columns=COLUMNS, per_batch=4000, options=patient)
    query = (
        mt.windowed(
            source.stream(spark), key="key", time="at", offset=("partition", "offset"),
            lateness="10 minutes",
        )
        .hopping(f"{SIZE} seconds", slide=f"{SLIDE} seconds")
        .early(each=True)
        .late(grace="4 hours", each=True)
        .agg(n=mt.count(), total=mt.sum("value"), most=mt.max("value"))
        .start(
            checkpoint=f"{folder}/checkpoint",
            results=mt.to_postgres(dsn, "windows", history="history", patience="1 minute"),
            rejected=mt.to_postgres(dsn, "rejected", patience="1 minute"),
        )
    )  # fmt: skip
    while not (folder / "sent").exists():
        if query.await_end(1):
            raise RuntimeError("the query ended by itself")
    if not query.await_idle(300):
        raise RuntimeError("the query doesn't end")
    progress = {
        "counts": query.progress.counts,
        "adds_up": query.progress.adds_up(),
        "state_rows": query.progress.state_rows,
    }
    query.stop()
    (folder / "figures.json").write_text(json.dumps(progress))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
