"""A driver that starts queries whose executors differ from it, and prints how each one ends.

Executors run a script in place of Python, by which those of one worker run another program.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import muntin as mt

folder, master = Path(sys.argv[1]), sys.argv[2]
# This path is another folder in every process, as on machines with their own disks.
UNSHARED = "/proc/self/cwd/unshared"


def run(case: str, checkpoint: str, table: str, source: str) -> None:
    """Run a query to its end, and print how it ended; the last one until an executor joins."""
    rows = spark.readStream.schema("k string, at timestamp, v long").json(source)
    sketches = {"p": mt.quantile("v", 0.9)} if case == "sketches" else {}
    tumbling = mt.windowed(rows, key="k", time="at").tumbling("1 minute")
    windows = tumbling.agg(n=mt.count(), **sketches)
    try:
        sink, ends = mt.to_parquet(table), case != "later"
        query = windows.start(checkpoint=checkpoint, results=sink, available_now=ends)
        for number in range(0 if ends else 500):
            file = folder / "source" / f"{number}.json"
            file.write_text('{"k": "a", "at": "2026-01-01T00:00:00Z"}\n')
            (folder / "waiting").touch()
            if query.await_end(1):
                break
        query.await_end()
        print(f"{case}: {query.progress.counts}, {query.shards} shards", flush=True)
    except mt.MuntinError as error:
        print(f"{case}: {type(error).__name__}: {error}", flush=True)


spark = mt.session(
    master=master,
    spark__executor__memory="600m",
    spark__executor__extraJavaOptions=os.environ["SPARK_SUBMIT_OPTS"],
)
for case in sys.argv[3:]:
    checkpoint, table = str(folder / f"{case}-checkpoint"), str(folder / f"{case}-table")
    source = str(folder / "source")
    folders = {
        "checkpoint": (UNSHARED, table, source),
        "table": (checkpoint, UNSHARED, source),
        "unwritable": (checkpoint, "/proc/table", source),
        "source": (checkpoint, table, f"{UNSHARED}-source"),
    }
    # Executors start a new Python for each program.
    program = str(folder / ("good" if case in folders else case))
    # This is the path in the archive of an environment, which these executors don't have.
    spark.sparkContext.pythonExec = "./env/bin/python" if case == "absent" else program
    run(case, *folders.get(case, (checkpoint, table, source)))
spark.stop()
