"""Nexmark from Kafka, in SQL as Flink prints it: muntin on both hosts beside Flink SQL.

    .venv/bin/python -m benches.nexmark [--queries q5,q7] [--peers local,muntin,flink,flink-rocksdb]

Every peer reads the same topics of JSON, by the same ``CREATE TABLE``, and writes Parquet. The
events are those of ``examples/nexmark``. Queries that group by a day have windows of a day.

Each peer also runs over short topics, whose time is mostly its start. The rate is the number of
further events divided by the further seconds. A result counts only if its rows are DuckDB's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benches.generate_auctions import closing
from benches.processes import users_environment
from benches.venvs import ensure

ROOT = Path(__file__).resolve().parent.parent
PER_SECOND, PARTITIONS = 10_000, 4
SHORT_EVENTS = 100_000
DAY_MS = 86_400_000
COLUMNS = {
    "persons": "id BIGINT, name STRING, email STRING, city STRING, state STRING",
    "auctions": "id BIGINT, seller BIGINT, category BIGINT, opening BIGINT, reserve BIGINT",
    "bids": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING",
}
TABLE = """
CREATE TEMPORARY TABLE {name} (
    {columns}, `time` TIMESTAMP_LTZ(3){expires},
    WATERMARK FOR `time` AS `time` - INTERVAL '1' SECOND
) WITH (
    'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}',
    'scan.startup.mode' = 'earliest-offset',{bounded}
    'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601'
)
"""
PEERS = ("local", "muntin", "flink", "flink-rocksdb")


class Statement(NamedTuple):
    """A query.

    Attributes:
        text: The statement.
        columns: Columns of its results.
        expected: The query in DuckDB, over all events.
    """

    text: str
    columns: tuple[str, ...]
    expected: str


def read_statements() -> dict[str, Statement]:
    """Return the queries by number."""
    from examples.nexmark.printed import PRINTED

    queries = {
        name.split()[0]: Statement(*query) for name, query in PRINTED.items() if name[0] == "q"
    }
    # Flink's mean of whole numbers is a whole number.
    columns = tuple(f"floor({n})" if n == "mean" else n for n in queries["q17"].columns)
    text = queries["q17"].expected.replace("avg(price)", "floor(avg(price))")
    return {**queries, "q17": queries["q17"]._replace(columns=columns, expected=text)}


def declare_tables(servers: str, topics: dict[str, str], bounded: str = "") -> list[str]:
    """Return a ``CREATE TABLE`` for each kind of events; ``bounded`` is one more option."""
    return [
        TABLE.format(
            name=name,
            columns=columns,
            expires=", expires TIMESTAMP_LTZ(3)" if name == "auctions" else "",
            topic=topics[name],
            servers=servers,
            bounded=bounded,
        ).strip()
        for name, columns in COLUMNS.items()
    ]


def fill(broker: Any, events: int, folder: Path) -> dict[str, str]:
    """Send the events to a topic of each kind, and write them as Parquet for DuckDB.

    Two events of each partition, days after all others, close the windows, also those over
    results of windows.
    """
    import polars as pl
    from confluent_kafka import Producer
    from examples.nexmark.generator import T0_MS, Nexmark

    nexmark, topics = Nexmark(per_second=PER_SECOND), {}
    last_ms = T0_MS + (events - 1) * 1000 // PER_SECOND
    folder.mkdir()
    for kind in COLUMNS:
        topics[kind] = topic = broker.topic(PARTITIONS)
        table = getattr(nexmark, kind)(0, events)
        pl.from_arrow(table).write_parquet(folder / f"{kind}.parquet")
        tails = [closing(table, last_ms + days * DAY_MS) for days in (2, 4)]
        producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 50,
                             "queue.buffering.max.messages": 1_000_000})  # fmt: skip
        send(producer, topic, encode(table), False)
        for tail in tails:
            send(producer, topic, encode(tail), True)
        assert producer.flush(120) == 0
    return topics


def encode(table: Any) -> list[bytes]:
    """Return events as lines of JSON."""
    import polars as pl

    frame = pl.from_arrow(table)
    times = pl.selectors.datetime().dt.to_string("%Y-%m-%dT%H:%M:%S%.3fZ")
    return frame.with_columns(times).write_ndjson().encode().splitlines()


def send(producer: Any, topic: str, messages: list[bytes], to_all: bool) -> None:
    """Send messages to the partitions by turns, or each message to all of them."""
    for n, message in enumerate(messages):
        for partition in range(PARTITIONS) if to_all else (n % PARTITIONS,):
            while True:
                try:
                    producer.produce(topic, message, None, partition)
                    break
                except BufferError:
                    producer.poll(0.1)


def check(statement: Statement, events: Path, results: Path) -> int:
    """Return the number of rows, all of which DuckDB has too, but for those of the last events.

    Raises:
        RuntimeError: When rows are missing, or there are others.
    """
    import duckdb

    with duckdb.connect() as database:
        for kind in COLUMNS:
            database.execute(
                f"CREATE VIEW {kind} AS SELECT * FROM read_parquet('{events / kind}.parquet')"
            )
        database.execute(f"CREATE TABLE expected AS {statement.expected}")
        files = [str(path) for path in results.rglob("*") if is_result(path)]
        columns = ", ".join(statement.columns)
        database.read_parquet(files).create("emitted")  # type: ignore[arg-type]
        database.execute(f"CREATE TABLE results AS SELECT {columns} FROM emitted")
        difference = "SELECT count(*) FROM (FROM {} EXCEPT ALL FROM {})"
        missing, others = (
            database.execute(difference.format(*pair)).fetchall()[0][0]
            for pair in (("expected", "results"), ("results", "expected"))
        )
        (rows,) = database.execute("SELECT count(*) FROM expected").fetchall()[0]
    if missing or others > 4 * PARTITIONS:
        raise RuntimeError(f"{missing} of {rows} rows are missing, {others} are others")
    return int(rows)


def is_result(path: Path) -> bool:
    """Return whether a file holds results, not a table's or a sink's notes."""
    is_parquet_or_part = path.name.endswith(".parquet") or path.name.startswith("part-")
    return is_parquet_or_part and path.is_file() and path.stat().st_size > 0


def run(query: str, host: str, servers: str, topics: str, folder: str) -> None:
    """Run a query with muntin to the end of its topics."""
    import muntin as mt

    spark = None if host == "local" else mt.session(master="local[2]")
    tables = ";\n".join(declare_tables(servers, json.loads(topics)))
    statement = read_statements()[query].text
    running_query = mt.sql(spark, f"{tables};\n{statement}").start(
        checkpoint=f"{folder}/state", results=mt.to_parquet(f"{folder}/results"), available_now=True
    )
    running_query.await_end()


def measure(query: str, peer: str, servers: str, topics: dict[str, str], events: Path) -> float:
    """Run a peer over topics, check its results, and return the seconds that it took."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [query, peer, servers, json.dumps(topics), folder]
        program = [sys.executable, "-m", "benches.nexmark", "--run"]
        if peer.startswith("flink"):
            text = read_statements()[query].text
            tables = declare_tables(servers, topics, " 'scan.bounded.mode' = 'latest-offset',")
            arguments = [text, peer, json.dumps(tables), folder]
            program = [str(ensure("flink")), "-m", "benches.peers.flink_nexmark"]
        begin = time.monotonic()
        done = subprocess.run(
            [*program, *arguments],
            cwd=ROOT, capture_output=True, text=True, check=False, env=users_environment(),
        )  # fmt: skip
        seconds = time.monotonic() - begin
        if done.returncode:
            raise RuntimeError(f"{peer}: {summarize(done.stderr)}")
        # Flink's rows of this query change, and files take no changes.
        if (query, peer.partition("-")[0]) != ("q9", "flink"):
            check(read_statements()[query], events, Path(folder) / "results")
    return seconds


def summarize(text: str) -> str:
    """Return the line of an error's text with the cause."""
    lines = [line.strip() for line in text.splitlines() if "Error" in line or "xception" in line]
    causes = [line for line in lines if "Caused by" in line] or lines or [text[-300:]]
    return causes[-1]


@contextmanager
def open_topics(events: int) -> Iterator[tuple[str, list[tuple[dict[str, str], Path]]]]:
    """Start a broker, and fill short topics and long ones."""
    from tests.services.kafka import Kafka

    broker = Kafka()
    try:
        with tempfile.TemporaryDirectory() as folder:
            pairs = []
            for count in (SHORT_EVENTS, events):
                files = Path(folder) / str(count)
                pairs.append((fill(broker, count, files), files))
            yield broker.servers, pairs
    finally:
        broker.remove()


def compare(queries: Sequence[str], peers: Sequence[str], events: int) -> Iterator[str]:
    """Yield a line of a table for each query and peer."""
    with open_topics(events) as (servers, (short, long)):
        for query in queries:
            for peer in peers:
                try:
                    start = measure(query, peer, servers, *short)
                    whole = measure(query, peer, servers, *long)
                except RuntimeError as error:
                    yield f"| {query} | {peer} | {str(error)[-300:]!r} | | |"
                    continue
                rate = (events - SHORT_EVENTS) / (whole - start)
                yield f"| {query} | {peer} | {rate:,.0f} | {start:.1f} | {whole:.1f} |"


def main() -> None:
    """Run all peers in turn, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", default="q5,q7,q8,q9,q11,q15,q16,q17")
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--run", nargs=5)
    arguments = parser.parse_args()
    if arguments.run:
        return run(*arguments.run)
    print("| query | peer | events/s | short topics, s | long topics, s |")
    print("| --- | --- | --- | --- | --- |")
    for line in compare(arguments.queries.split(","), arguments.peers.split(","), arguments.events):
        print(line, flush=True)
    return None


if __name__ == "__main__":
    main()
