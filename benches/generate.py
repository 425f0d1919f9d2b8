"""Write the files of a stream once: ``python -m benches.generate CASE --rows N``."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import duckdb

from benches.peers.command import Outcome, Run, serve
from benches.stream import Stream


def write(stream: Stream) -> None:
    """Write the Parquet files, oldest modification time first, unless they are there."""
    if stream.folder.exists():
        return
    stream.folder.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=stream.folder.parent, prefix="writing-"))
    connection = duckdb.connect(config={"threads": 2})
    # Spark reads a row group as one task, and has two cores.
    group = max(2048, min(122_880, stream.batch // 8))
    for number, (name, query) in enumerate(stream.files()):
        path = work / name
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE {group})")
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
    try:
        work.rename(stream.folder)
    except OSError:
        shutil.rmtree(work)


def main(run: Run) -> Outcome:
    """Write the files and return the seconds that it took."""
    started = time.perf_counter()
    for side in run.stream.sides:
        write(side)
    return Outcome(time.perf_counter() - started)


if __name__ == "__main__":
    serve("generate", main)
