"""A state of tens of millions of keys: ``python -m benches.large_state [--keys 50000000]``.

Every key has one open window. Spark native with RocksDB and muntin load the same Parquet files, a
million keys a batch, and then process small batches. The query is restarted from its checkpoint,
and at last a message far ahead closes all windows at once. Each step runs in a process of its own,
with default settings except for a shard per core. A result counts only if a window closed for every
key, and with all of its messages. For Flink with RocksDB, only the size of its checkpoint is
measured.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benches.processes import proportional_mb, users_environment
from benches.scaling import Point, columns, fill, write_file
from benches.venvs import ensure

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benches/results/large_state.json"
PEERS = ("native", "muntin", "flink")
DAY = 86_400_000_000
SMALL = Point()


def native(folder: str, write: Callable[..., None]) -> Any:
    """Return the query of Spark's guide."""
    from pyspark.sql import functions as F

    from benches.peers.spark_session import session

    spark = session("rocksdb")
    counted = (
        messages(spark, folder)
        .withWatermark("at", "30 days")
        .groupBy(F.window("at", "1 second"), "k")
        .agg(F.count("*").alias("n"), F.sum("v").alias("s"), F.max("v").alias("m"))
    )
    writer = counted.writeStream.outputMode("append").foreachBatch(write)
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    return writer.trigger(availableNow=True).start()


def muntin(folder: str, write: Callable[..., None]) -> Any:
    """Return the query of the README."""
    import muntin as mt

    spark = mt.session(master="local[2]")
    windows = mt.windowed(messages(spark, folder), key="k", time="at", lateness="30 days")
    counted = windows.tumbling("1 second").agg(n=mt.count(), s=mt.sum("v"), m=mt.max("v"))
    checkpoint = f"{folder}/checkpoint"
    return counted.start(checkpoint=checkpoint, results=write, available_now=True).query


def messages(spark: Any, folder: str) -> Any:
    """Return the stream of a folder."""
    read = spark.readStream.schema("at timestamp, k long, v long")
    return read.option("maxFilesPerTrigger", SMALL.files).parquet(f"{folder}/in")


def run(peer: str, folder: str) -> None:
    """Process all files, and print the durations of batches and the closed windows as JSON."""
    from pyspark.sql import functions as F

    began, totals, ends = time.monotonic(), np.zeros(2, dtype=np.int64), []

    def write(rows: Any, _: int) -> None:
        whole = rows.agg(F.count("*"), F.sum("n")).first()
        totals[:] += [value or 0 for value in whole]
        ends.append(time.monotonic() - began)

    query = {"native": native, "muntin": muntin}[peer](folder, write)
    query.awaitTermination()
    took = [p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress
            if p["numInputRows"]]  # fmt: skip
    print(json.dumps({"closed": totals.tolist(), "took": took, "first": ends[0]}))


def watch(peer: str, folder: str) -> dict[str, Any]:
    """Run one process of a peer; return its figures and its greatest memory.

    Raises:
        RuntimeError: When it failed.
    """
    command = [sys.executable, "-m", "benches.large_state", "--run", peer, folder]
    with open(f"{folder}/errors", "w") as errors, open(f"{folder}/out", "w") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=out, stderr=errors, env=users_environment(),
            start_new_session=True,
        )  # fmt: skip
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, proportional_mb(process.pid))
            time.sleep(1)
    if process.returncode:
        raise RuntimeError(Path(folder, "errors").read_text()[-3000:])
    return {**json.loads(Path(folder, "out").read_text().splitlines()[-1]), "peak_mb": peak}


def add(folder: str, number: int, table: tuple[Any, Any, Any]) -> None:
    """Add the files of one more batch."""
    for part in range(SMALL.files):
        path = Path(folder, "in", f"9{number:04}-{part:03}.parquet")
        write_file(path, [one[part :: SMALL.files] for one in table], time.time() + number)


def measure(peer: str, keys: int) -> dict[str, float]:
    """Return the figures of a peer.

    Raises:
        RuntimeError: When windows or messages are missing.
    """
    point = replace(SMALL, keys=keys, warm=4, measured=20)
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/in")
        fill(Path(folder, "in"), point)
        first = watch(peer, folder)
        loads, small = first["took"][: point.loads], first["took"][point.loads + point.warm :]
        state = Path(folder, "checkpoint/state")
        size = sum(path.stat().st_size for path in state.rglob("*") if path.is_file())
        add(folder, 1, columns(point, point.loads))
        again = watch(peer, folder)
        at, k, v = columns(point, point.loads)
        add(folder, 2, (at[:2] + 200 * DAY, k[:2], v[:2]))
        last = watch(peer, folder)
    counted = keys + SMALL.rows * (point.warm + point.measured + 1)
    if last["closed"] != [keys, counted]:
        raise RuntimeError(f"{last['closed']} instead of {[keys, counted]}")
    return {
        "keys": keys,
        "loaded_a_second": keys / sum(loads),
        "longest_load": max(loads),
        "batch": statistics.median(small),
        "longest": max(small),
        "bytes_a_key": size / keys,
        "restart": again["first"],
        "closing": sum(last["took"]),
        "peak_mb": first["peak_mb"],
        "peak_mb_restart": again["peak_mb"],
        "peak_mb_closing": last["peak_mb"],
    }


def checkpoint_of_flink(keys: int) -> dict[str, float]:
    """Return the size of Flink's checkpoint.

    Raises:
        RuntimeError: When it failed.
    """
    command = [str(ensure("flink")), "-m", "benches.peers.flink_state", str(keys)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=users_environment()
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    line = json.loads(done.stdout.splitlines()[-1])
    return {"keys": keys, "bytes_a_key": line["bytes"] / keys, "seconds": line["seconds"]}


def main() -> None:
    """Measure the peers in turn, and store the results."""
    parser = argparse.ArgumentParser(prog="benches.large_state", description=__doc__)
    parser.add_argument("--keys", type=int, default=50_000_000)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        return run(*arguments.run)
    for peer in arguments.peers.split(","):
        flink = peer == "flink"
        figures = checkpoint_of_flink(arguments.keys) if flink else measure(peer, arguments.keys)
        print(peer, json.dumps(figures), flush=True)
        results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        results.setdefault(peer, {})[str(arguments.keys)] = figures
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
