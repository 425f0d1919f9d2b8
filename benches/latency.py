"""The latency from a message in Kafka to its window's early result in Kafka, without a trigger.

    .venv/bin/python -m benches.latency [--rounds 3] [--seconds 60]
                                        [--peers native,muntin,local,shard,realtime]

A thousand messages a second are sent. No two messages within ten seconds have the same key, so
every message has a result of its own. The latency is the time from before a message is sent until
its result is received. The benchmark starts its own broker on loopback; peers run one after the
other, each in a process of its own, with default settings. The first part of each run is left out.
The table also has the time from the script's start to the first result, and the memory of all its
processes (proportional set size) at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benches.processes import proportional_mb, users_environment
from benches.topics import ROOT

PEERS = ("native", "muntin")
COLUMNS = "k long, at timestamp, sent long"
PER_SECOND, KEYS, PARTITIONS, WARM = 1000, 10_000, 4, 40


def native(servers: str, inlet: str, outlet: str, folder: str, realtime: bool = False) -> Any:
    """Return the query of Spark's guide, in update mode."""
    from pyspark.sql import functions as F

    from benches.peers.spark_session import session

    jars = ",".join(map(str, (ROOT / "build/services/kafka-connector").glob("*.jar")))
    # In real-time mode all stages run at once, and each of their tasks needs its own slot.
    slots = {"spark.master": "local[8]"} if realtime else {}
    spark = session("rocksdb", {"spark.jars": jars, **slots})
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    read = read.option("subscribe", inlet).option("startingOffsets", "earliest")
    counted = (
        read.load()
        .select(F.from_json(F.col("value").cast("string"), COLUMNS).alias("m"))
        .select("m.*")
        .withWatermark("at", "1 second")
        .groupBy(F.window("at", "10 seconds"), "k")
        .agg(F.count("*").alias("n"), F.max("sent").alias("sent"))
    )
    rows = counted.select(F.to_json(F.struct("k", "n", "sent")).alias("value"))
    writer = rows.writeStream.outputMode("update").format("kafka").option("topic", outlet)
    writer = writer.option("kafka.bootstrap.servers", servers)
    writer = writer.option("checkpointLocation", folder)
    return (writer.trigger(realTime="5 minutes") if realtime else writer).start()


def muntin(servers: str, inlet: str, outlet: str, folder: str, shards: int | None = None) -> Any:
    """Return the query of the README."""
    import muntin as mt

    spark = mt.session(master="local[2]")
    messages = mt.kafka(servers, inlet, columns=COLUMNS).stream(spark)
    windows = mt.windowed(messages, key="k", time="at", lateness="1 second", shards=shards)
    windows = windows.tumbling("10 seconds").early(each=True)
    counted = windows.agg(n=mt.count(), sent=mt.max("sent"))
    return counted.start(checkpoint=folder, results=mt.to_kafka(servers, outlet)).query


def local(servers: str, inlet: str, outlet: str, folder: str) -> Any:
    """Return the query of the README in one process, without Spark."""
    import muntin as mt

    messages = mt.kafka(servers, inlet, columns=COLUMNS)
    windows = mt.windowed(messages, key="k", time="at", lateness="1 second")
    counted = windows.tumbling("10 seconds").early(each=True)
    results = counted.agg(n=mt.count(), sent=mt.max("sent"))
    return results.start(checkpoint=folder, results=mt.to_kafka(servers, outlet))


def shard(servers: str, inlet: str, outlet: str, folder: str) -> Any:
    """Return that query with one shard, which is enough for so few messages."""
    return muntin(servers, inlet, outlet, folder, shards=1)


def realtime(servers: str, inlet: str, outlet: str, folder: str) -> Any:
    """Return Spark's own windows in real-time mode, if this Spark supports them."""
    return native(servers, inlet, outlet, folder, realtime=True)


STARTS: dict[str, Callable[..., Any]] = {
    "native": native,
    "muntin": muntin,
    "local": local,
    "shard": shard,
    "realtime": realtime,
}


def run(peer: str, servers: str, inlet: str, outlet: str) -> None:
    """Run one peer until its standard input ends."""
    with tempfile.TemporaryDirectory() as folder:
        query = STARTS[peer](servers, inlet, outlet, f"{folder}/checkpoint")
        sys.stdin.read()
        if peer != "local" and query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        query.stop()


def send(servers: str, topic: str, ends: threading.Event, per_second: int = PER_SECOND) -> None:
    """Send messages at an even rate until an event is set."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    began, number = time.monotonic(), 0
    while not ends.is_set():
        while number < (time.monotonic() - began) * per_second:
            now = time.time()
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
            text = (
                f'{{"k":{number % KEYS},"at":"{stamp}.{int(now % 1 * 1000):03d}Z",'
                f'"sent":{time.time_ns() // 1000}}}'
            )
            producer.produce(topic, text, None, number % PARTITIONS)
            number += 1
        producer.poll(0)
        time.sleep(0.002)
    producer.flush(10)


def receive(servers: str, topic: str, until: Callable[[], bool]) -> tuple[float, list[float]]:
    """Return the time of the first result, and the latency of each message after ``WARM`` s."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": servers, "group.id": "latency", "fetch.wait.max.ms": 10}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    first, delays, received = 0.0, [], set()
    while not until():
        for message in consumer.consume(1000, 0.005):
            if message.error() is not None or message.value() is None:
                continue
            now, row = time.time(), json.loads(message.value())
            first = first or now
            # The full emission of a window repeats a result that was received before.
            if row["sent"] not in received and now > first + WARM:
                delays.append(now - row["sent"] / 1e6)
            received.add(row["sent"])
    consumer.close()
    return first, delays


def measure(peer: str, servers: str, topics: tuple[str, str], seconds: int) -> dict[str, float]:
    """Return the figures of one run.

    Raises:
        RuntimeError: When it ended by itself, or results are missing.
    """
    command = [sys.executable, "-m", "benches.latency", "--run", peer, servers, *topics]
    ends, began = threading.Event(), time.time()
    sender = threading.Thread(target=send, args=(servers, topics[0], ends))
    sender.start()
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True, env=users_environment(),
                               start_new_session=True)  # fmt: skip
    deadline = time.monotonic() + 60 + WARM + seconds
    over = lambda: time.monotonic() > deadline or process.poll() is not None  # noqa: E731
    first, delays = receive(servers, topics[1], over)
    memory = proportional_mb(process.pid)
    ends.set()
    sender.join()
    if process.poll() is not None:
        raise RuntimeError(f"{peer}: {process.communicate()[1][-2000:]}")
    process.communicate("")
    if len(delays) < 0.9 * seconds * PER_SECOND:
        raise RuntimeError(f"{peer}: {len(delays)} messages in {seconds} s")
    return {
        "p50": float(np.percentile(delays, 50)), "p90": float(np.percentile(delays, 90)),
        "p99": float(np.percentile(delays, 99)), "greatest": max(delays),
        "start": first - began, "memory": memory,
    }  # fmt: skip


def main() -> None:
    """Run all peers in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--run", nargs=4)
    arguments = parser.parse_args()
    if arguments.run:
        return run(*arguments.run)
    os.environ.setdefault("MUNTIN_KAFKA_JARS", str(ROOT / "build/services/kafka-connector"))
    print_table(rounds_of(arguments.peers.split(","), arguments.rounds, arguments.seconds))
    return None


def rounds_of(peers: Sequence[str], rounds: int, seconds: int) -> dict[str, list[dict[str, float]]]:
    """Return the figures of some rounds, in which the peers take turns."""
    from tests.services.kafka import Kafka

    broker, figures = Kafka(), {peer: [] for peer in peers}
    try:
        for number in range(rounds):
            turn = number % len(peers)
            for peer in [*peers[turn:], *peers[:turn]]:
                topics = broker.topic(PARTITIONS), broker.topic(1)
                figures[peer].append(measure(peer, broker.servers, topics, seconds))
                print(peer, figures[peer][-1], file=sys.stderr, flush=True)
    finally:
        broker.remove()
    return figures


def print_table(figures: dict[str, list[dict[str, float]]]) -> None:
    """Print the medians of all rounds."""
    print("| peer | p50, s | p90 | p99 | greatest | script to first result, s | memory, MB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for peer, rounds in figures.items():
        middle = {name: statistics.median(figure[name] for figure in rounds) for name in rounds[0]}
        times = " | ".join(f"{middle[name]:.2f}" for name in ("p50", "p90", "p99", "greatest"))
        print(f"| {peer} | {times} | {middle['start']:.1f} | {middle['memory']:.0f} |")


if __name__ == "__main__":
    main()
