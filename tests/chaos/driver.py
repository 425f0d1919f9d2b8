"""A driver that lives dangerously: a topic of Kafka into PostgreSQL, until it is told to stop.

Usage: driver.py FOLDER SERVERS TOPIC DSN
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import muntin as mt
from muntin.spark.session import session

COLUMNS = "source string, number long, key string, at timestamp, value long"
SIZE, SLIDE = 30, 10


def main(folder: Path, servers: str, topic: str, dsn: str) -> None:
    # It lives for seconds, so the second compiler would only cost.
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark = session("chaos", master="local[2]", spark__driver__extraJavaOptions=quick)
    messages = mt.kafka(servers, topic, columns=COLUMNS, per_batch=3000)
    query = (
        mt.windowed(
            messages.stream(spark),
            key="key",
            time="at",
            lateness="6 hours",
            offset=("source", "number"),
        )
        .hopping(f"{SIZE} seconds", slide=f"{SLIDE} seconds")
        .early(each=True)
        .agg(n=mt.count(), total=mt.sum("value"), most=mt.max("value"))
        .start(
            checkpoint=f"{folder}/checkpoint",
            results=mt.to_postgres(dsn, "windows", history="history"),
            rejected=mt.to_postgres(dsn, "rejected"),
        )
    )
    stopped = threading.Event()
    while not stopped.wait(0.2):
        if not query.is_active:
            query.await_end()
        # Written beside it and renamed, so that whoever looks sees all of it.
        hidden = folder / "figures.new"
        figures = {"counts": query.figures.counts, "adds_up": query.figures.adds_up()}
        hidden.write_text(json.dumps({**figures, "rows": query.figures.state_rows}))
        hidden.rename(folder / "figures.json")
        if (folder / "stop").exists():
            query.stop()
            stopped.set()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
