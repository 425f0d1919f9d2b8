"""Kafka: Spark native, muntin on both hosts, Flink SQL and Quix on a topic, all at their defaults.

    .venv/bin/python -m benches.topics [--works K1,K1a,P64] [--peers native,muntin,local,flink]

The benchmark starts its own broker on loopback (``make services`` installs it). Each peer runs
alone, in a process of its own. Steady state is computed from the durations of batches, without the
first third. A result counts only if its windows, counts and sums equal those of the formula.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benches.processes import users_environment
from benches.venvs import ensure

ROOT = Path(__file__).resolve().parent.parent
# Peers with their own environment.
OTHERS = {"flink": "benches.peers.flink_topics", "quix": "benches.peers.quix_topics"}
# Formats that a peer reads; Flink's CSV doesn't accept a zone after a time.
FORMS_READ = ("json", "avro", "csv", "parquet")
FORMS = {"flink": ("json", "avro"), "quix": ("json",), "local": ("json", "avro", "csv")}
# Peers of this environment that don't run on Spark.
IN_PROCESS = {"local": "benches.peers.muntin_local"}
COLUMNS = "id long, at timestamp, k long, v long"
KEYS, PER_SECOND, PARTITIONS = 10_000, 50_000, 4
START = 1_767_225_600_000  # milliseconds
FAR = 1_780_272_000_000  # The end of the message that closes all windows.
_MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
AVRO = json.dumps({"type": "record", "name": "Order", "fields": [
    {"name": name, "type": _MILLIS if name == "at" else "long"} for name in ("id", "at", "k", "v")
]})  # fmt: skip
TEXTS = {"json": '{"id":%d,"at":"%s","k":%d,"v":%d}', "csv": "%d,%s,%d,%d"}


@dataclass(frozen=True)
class Work:
    """A measured case.

    Attributes:
        size: Length of a window, in seconds.
        slide: Distance between two starts, in seconds.
        per_batch: Messages per batch.
        batches: Number of batches; enough for half a minute of muntin without the first third.
        shuffled: Spark's shuffle partitions; by default its number of cores.
        form: Format of messages: ``json``, ``avro`` or ``csv``; ``parquet`` stands for files
            instead of a topic, one per batch.
        partitions: Partitions of the topic.
        keyed: Whether messages have their window's key, and are in its partition.
    """

    size: int = 10
    slide: int = 10
    per_batch: int = 600_000
    batches: int = 36
    shuffled: int | None = None
    form: Literal["json", "avro", "csv", "parquet"] = "json"
    partitions: int = PARTITIONS
    keyed: bool = False

    @property
    def rows(self) -> int:
        return self.per_batch * self.batches


WORKS = {
    "K1": Work(batches=60),
    "K1a": Work(batches=60, form="avro"),
    "K1c": Work(batches=60, form="csv"),
    "K2": Work(size=60, slide=1, per_batch=40_000, batches=60),
    "K2l": Work(size=60, slide=1, per_batch=200_000, batches=24),
    "P64": Work(batches=45, shuffled=64),
    "P200": Work(batches=45, shuffled=200),
    "K1-1": Work(partitions=1),
    "K1-64": Work(partitions=64),
    "K1-200": Work(partitions=200),
    "W1": Work(per_batch=2_000_000, batches=110, form="parquet"),
    # For engines that process single messages, by the topic's own keys.
    "K1q": Work(batches=1, keyed=True),
}


def stream(first: int, end: int) -> tuple[Any, Any, Any]:
    """Return the times in milliseconds, keys and values of some messages."""
    i = np.arange(first, end, dtype=np.int64)
    h = (i * 1_103_515_245 + 12_345) % 2**31
    return START + 1000 * i // PER_SECOND, (h // 256) % KEYS, (i * 48_271) % 1000


def encode_messages(form: str, first: int, columns: tuple[Any, Any, Any]) -> Iterator[bytes]:
    """Return the payloads of messages with some times, keys and values."""
    times, keys, values = columns
    if form != "avro":
        texts = np.datetime_as_string(times.astype("datetime64[ms]"), timezone="UTC")
        for n, row in enumerate(zip(texts, keys, values, strict=True), first):
            yield (TEXTS[form] % (n, *row)).encode()
        return
    for n, row in enumerate(
        zip(times.tolist(), keys.tolist(), values.tolist(), strict=True), first
    ):
        # A zigzag varint: twice the number if it isn't negative, seven bits a byte, the lowest
        # first.
        out = bytearray()
        for number in (n, *row):
            rest = number << 1
            while rest > 127:
                out.append(rest & 127 | 128)
                rest >>= 7
            out.append(rest)
        yield bytes(out)


def fill(servers: str, topic: str, work: Work) -> None:
    """Send the stream, and one message far after it that closes all windows."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "batch.size": 1 << 20,
                         "queue.buffering.max.messages": 1_000_000})  # fmt: skip
    for first in range(0, work.rows, 100_000):
        columns = stream(first, min(work.rows, first + 100_000))
        for n, message in enumerate(encode_messages(work.form, first, columns), first):
            while True:
                try:
                    key = int(columns[1][n - first]) if work.keyed else None
                    partition = n % work.partitions if key is None else key % work.partitions
                    producer.produce(topic, message, None if key is None else str(key), partition)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    nothing = np.zeros(1, dtype=np.int64)
    (last,) = encode_messages(work.form, 0, (nothing + FAR, nothing, nothing))
    for partition in range(work.partitions):
        producer.produce(topic, last, "0" if work.keyed else None, partition)
    assert producer.flush(120) == 0


def fill_folder(folder: Path, work: Work) -> None:
    """Write the stream as files, and one with a message far after it that closes all windows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    nothing = np.zeros(1, dtype=np.int64)
    for number in range(work.batches + 1):
        first = number * work.per_batch
        columns = stream(first, first + work.per_batch)
        times, keys, values = (
            columns if number < work.batches else (nothing + FAR, nothing, nothing)
        )
        at = pa.array(1000 * times).cast(pa.timestamp("us", "UTC"))
        table = pa.table({"at": at, "k": keys, "v": values})
        pq.write_table(table, folder / f"{number:05}.parquet", row_group_size=1 << 20)


def compute_expected(work: Work) -> list[int]:
    """Return the number of windows, and the sums of their counts, sums and maxima."""
    overlap = work.size // work.slide
    last = 1000 * (work.rows - 1) // PER_SECOND // (1000 * work.slide)
    greatest = np.full((last + 2 * overlap - 1, KEYS), -1, dtype=np.int64)
    summed = 0
    for first in range(0, work.rows, 2_000_000):
        times, keys, values = stream(first, min(work.rows, first + 2_000_000))
        panes = (times - START) // (1000 * work.slide)
        np.maximum.at(greatest, (panes + overlap - 1, keys), values)
        summed += int(values.sum())
    windows = np.maximum.reduce(
        [greatest[n : len(greatest) - overlap + 1 + n] for n in range(overlap)]
    )
    is_emitted = windows >= 0
    return [
        int(is_emitted.sum()),
        work.rows * overlap,
        summed * overlap,
        int(windows[is_emitted].sum()),
    ]


def native(
    work: Work,
    servers: str,
    topic: str,
    write: Callable[..., None],
    folder: str,
    *,
    bounded: bool = True,
) -> Any:
    """Return the query of Spark's guide."""
    from pyspark.sql import functions as F

    from benches.peers.spark_session import session

    jars = ",".join(map(str, (ROOT / "build/services/kafka-connector").glob("*.jar")))
    more = {"spark.sql.shuffle.partitions": str(work.shuffled)} if work.shuffled else {}
    spark = session("rocksdb", {"spark.jars": jars, **more})
    if work.form == "parquet":
        orders = files(spark, topic)
    else:
        read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
        read = read.option("subscribe", topic).option("startingOffsets", "earliest")
        read = read.option("maxOffsetsPerTrigger", str(work.per_batch)) if bounded else read
        orders = read.load().select(parse_value(work.form).alias("m")).select("m.*")
    counted = (
        orders.withWatermark("at", "1 second")
        .groupBy(F.window("at", f"{work.size} seconds", f"{work.slide} seconds"), "k")
        .agg(F.count("*").alias("n"), F.sum("v").alias("s"), F.max("v").alias("m"))
    )
    writer = counted.writeStream.outputMode("append").foreachBatch(write)
    return writer.option("checkpointLocation", folder).trigger(availableNow=True).start()


def parse_value(form: str) -> Any:
    """Return a message's payload as Spark parses it."""
    from pyspark.sql import functions as F
    from pyspark.sql.avro.functions import from_avro

    if form == "avro":
        return from_avro("value", AVRO)
    parse: Any = F.from_json if form == "json" else F.from_csv
    return parse(F.col("value").cast("string"), COLUMNS)


def files(spark: Any, folder: str) -> Any:
    """Return the stream of a folder, a file per batch."""
    read = spark.readStream.schema("at timestamp, k long, v long")
    return read.option("maxFilesPerTrigger", "1").parquet(folder)


def muntin(reader: Any, *, bounded: bool = True, by_spark: bool = False) -> Callable[..., Any]:
    """Return the query of the README; its batches are bounded by its defaults or by the work.

    Spark's own `writeStream` starts it with `by_spark`, with a task for each shuffle partition.
    """

    def start(work: Work, servers: str, topic: str, write: Callable[..., None], folder: str) -> Any:
        import muntin as mt

        more = {"spark__sql__shuffle__partitions": str(work.shuffled)} if work.shuffled else {}
        spark = mt.session(master="local[2]", **more)
        columns = {"schema": AVRO} if work.form == "avro" else {"columns": COLUMNS}
        if work.form == "parquet":
            orders = files(spark, topic)
        else:
            per_batch = work.per_batch if bounded else None
            orders = mt.kafka(
                servers, topic, **columns, format=work.form, per_batch=per_batch, reader=reader
            ).stream(spark)
        windows = mt.windowed(orders, key="k", time="at", lateness="1 second")
        hopping = windows.hopping(f"{work.size} seconds", f"{work.slide} seconds")
        counted = hopping.agg(n=mt.count(), s=mt.sum("v"), m=mt.max("v"))
        if by_spark:
            writer = counted.results.writeStream.foreachBatch(write)
            writer = writer.option("checkpointLocation", folder)
            return writer.trigger(availableNow=True).start()
        return counted.start(checkpoint=folder, results=write, available_now=True).query

    return start


STARTS: dict[str, Callable[..., Any]] = {
    "native": native,
    "muntin": muntin(None),
    "connector": muntin("spark"),
    "results": muntin(None, by_spark=True),
    "native-unbounded": partial(native, bounded=False),
    "muntin-unbounded": muntin(None, bounded=False),
    "results-unbounded": muntin(None, bounded=False, by_spark=True),
}


def count_messages(progress: dict[str, Any], work: Work) -> int:
    """Return the messages of a batch, by the offsets of its topic, or by its number of files."""
    if work.form == "parquet":
        return work.per_batch
    (source_progress,) = progress["sources"]
    start, end = (_sum_offsets(source_progress[name]) for name in ("startOffset", "endOffset"))
    return end - start


def _sum_offsets(offset: Any) -> int:
    # Spark's first batch starts at no offset.
    offset = (json.loads(offset) if isinstance(offset, str) else offset) or {}
    topics = offset.get("ends", offset)
    return sum(number for partitions in topics.values() for number in partitions.values())


def run(work: str, peer: str, servers: str, topic: str) -> None:
    """Run one peer to the end, and print its figures as JSON."""
    from pyspark.sql import functions as F

    totals, began = np.zeros(4, dtype=np.int64), time.monotonic()
    ends: list[float] = []

    def write(rows: Any, _: int) -> None:
        whole = rows.agg(F.count("*"), F.sum("n"), F.sum("s"), F.sum("m")).first()
        totals[:] += [value or 0 for value in whole]
        ends.append(time.monotonic() - began)

    with tempfile.TemporaryDirectory() as folder:
        query = STARTS[peer](WORKS[work], servers, topic, write, f"{folder}/checkpoint")
        query.awaitTermination()
        batches = [p for p in query.recentProgress if p["numInputRows"]]
        took = [p["durationMs"]["triggerExecution"] / 1000 for p in batches]
        counts = [count_messages(p, WORKS[work]) for p in batches]
    figures = {"first": ends[0], "whole": ends[-1], "took": took, "counts": counts}
    print(json.dumps({"totals": totals.tolist(), **figures}))


def measure(work: str, peer: str, servers: str, topic: str, totals: list[int]) -> dict[str, float]:
    """Return the figures of one run.

    Raises:
        RuntimeError: When its output differs from the formula.
    """
    program = [sys.executable, "-m", "benches.topics", "--run", work, peer]
    if peer in OTHERS:
        program = [str(ensure(peer)), "-m", OTHERS[peer], work]
    if peer in IN_PROCESS:
        program = [sys.executable, "-m", IN_PROCESS[peer], work]
    command = [*program, servers, topic]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=users_environment()
    )
    if done.returncode:
        raise RuntimeError(f"{peer}: {done.stderr[-2000:]}")
    line = json.loads(done.stdout.splitlines()[-1])
    if line["totals"] != totals:
        raise RuntimeError(f"{peer}: {line['totals']} instead of {totals}")
    whole = {"first": line["first"], "whole": line["whole"]}
    if "messages" in line:
        rate, took = line["messages"] / line["seconds"], line["seconds"]
        return {"rate": rate, "batches": 0, "seconds": took, **whole}
    # The last batch may have only a few messages. Where there is one batch, it is the whole run.
    number = len(line["took"])
    measured = slice(number // 3, -1) if number > 2 else slice(1)
    steady, counts = line["took"][measured], line["counts"][measured]
    rate = sum(counts) / sum(steady)
    return {"rate": rate, "batches": len(steady), "seconds": sum(steady), **whole}


def rounds_of(work: str, peers: Sequence[str], rounds: int) -> dict[str, list[dict[str, float]]]:
    """Return the figures of some rounds, in which the peers take turns."""
    figures: dict[str, list[dict[str, float]]] = {peer: [] for peer in peers}
    with source(WORKS[work]) as location:
        totals = compute_expected(WORKS[work])
        for number in range(rounds):
            turn = number % len(peers)
            for peer in [*peers[turn:], *peers[:turn]]:
                figures[peer].append(measure(work, peer, *location, totals))
                print(work, peer, figures[peer][-1], file=sys.stderr, flush=True)
    return figures


@contextmanager
def source(work: Work) -> Iterator[tuple[str, str]]:
    """Start a broker and fill a topic with the stream, or write a folder of files."""
    if work.form == "parquet":
        with tempfile.TemporaryDirectory() as folder:
            fill_folder(Path(folder), work)
            yield "", folder
        return
    from tests.services.kafka import Kafka

    broker = Kafka()
    try:
        topic = broker.topic(work.partitions)
        fill(broker.servers, topic, work)
        yield broker.servers, topic
    finally:
        broker.remove()


def main() -> None:
    """Run all peers in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--works", default="K1", help=", ".join(WORKS))
    parser.add_argument(
        "--peers", default="native,muntin", help=", ".join([*STARTS, *IN_PROCESS, *OTHERS])
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", nargs=4)
    arguments = parser.parse_args()
    if arguments.run:
        return run(*arguments.run)
    os.environ.setdefault("MUNTIN_KAFKA_JARS", str(ROOT / "build/services/kafka-connector"))
    peers = arguments.peers.split(",")
    lines = []
    for work in arguments.works.split(","):
        able = [peer for peer in peers if WORKS[work].form in FORMS.get(peer, FORMS_READ)]
        if unable := [peer for peer in peers if peer not in able]:
            print(f"{work}: skipped for {', '.join(unable)}, which can't read it", file=sys.stderr)
        figures = rounds_of(work, able, arguments.rounds)
        first = figures[able[0]]
        for peer, rounds in figures.items():
            middle = {
                name: statistics.median(figure[name] for figure in rounds) for name in rounds[0]
            }
            ratio = statistics.median(
                own["rate"] / base["rate"] for own, base in zip(rounds, first, strict=True)
            )
            rates = f"{middle['rate']:,.0f} | {ratio:.2f} | {middle['batches']:.0f}"
            times = f"{middle['seconds']:.1f} | {middle['first']:.1f} | {middle['whole']:.1f}"
            lines.append(f"| {work} | {peer} | {rates} | {times} |")
    steady = f"rows/s, steady | ÷ {peers[0]} | batches | seconds"
    print(f"| work | peer | {steady} | first batch after, s | whole run, s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    print("\n".join(lines))
    return None


if __name__ == "__main__":
    main()
