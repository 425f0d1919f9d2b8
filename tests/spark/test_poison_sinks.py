"""Tests of every sink with hostile rows: each is stored, or set aside with a reason."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.services.postgres import Postgres
from tests.services.postgres import rows as fetch_rows
from tests.spark.feed import Feed, rows

import muntin as mt

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
STAMP = pa.timestamp("us", tz="UTC")
DEEP = pa.list_(pa.struct({"m": pa.map_(pa.string(), pa.list_(pa.float64())), "at": STAMP}))
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("key", pa.string()),
        ("at", STAMP),
        ("x", pa.float64()),
        ("raw", pa.binary()),
        ("deep", DEEP),
    ]
)
NOW = 1_767_225_600_000_000
YEARS = [-219_966_000_000_000_000, -62_135_596_800_000_001, NOW * 1000, 253_402_300_800_000_000]
TEXTS = [b"a", b"a\0", "a␀".encode(), b"", None, b'"\\\n']
NUMBERS = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, None]
KEYS = ["a", "a\0", "a␀", "", "␛", " ", "'; DROP TABLE x; --", '"', "\\", "\x7f\x01", "x" * 6000]


def make_long_text(size: int) -> str:
    """Return a text that can't be compressed much."""
    return "".join(random.Random(size).choices(ALPHABET, k=size))


def messages(*long_keys: str) -> list[tuple[Any, ...]]:
    """Return messages of key, time, number, text and nested value; a key has one window."""
    rows: list[tuple[Any, ...]] = []
    for n, key in enumerate([*KEYS, make_long_text(6000), *long_keys]):
        rows.append((key, NOW, NUMBERS[n % len(NUMBERS)], TEXTS[n % len(TEXTS)]))
    for text in TEXTS:
        rows += [(None, NOW, 0.0, text), ("a", NOW, 0.0, text)]
    rows += [("b", year, number, b"b") for year, number in zip(YEARS, NUMBERS, strict=False)]
    nested = [[{"m": [("k\0", [number])], "at": year}] for number, year in
              zip(NUMBERS, YEARS * 2, strict=False)]  # fmt: skip
    rows += [(None, NOW, 0.0, b"deep", value) for value in [*nested, [], [None]]]
    return [(*row, None)[:5] for row in rows]


def fill(feed: Feed, *batches: list[tuple[Any, ...]]) -> None:
    for batch in batches:
        feed.add(*((key, at, x, raw, deep) for key, at, x, raw, deep in batch))


@dataclass
class Target:
    """Sinks, and functions that read them: windows by key, rejected messages by number."""

    results: Any
    rejected: Any
    windows: Callable[[], list[Any]]
    ids: Callable[[], list[Any]]


def duckdb(folder: Path) -> Target:
    path = folder / "out.duckdb"
    return Target(
        mt.to_duckdb(str(path), "windows", history="history"),
        mt.to_duckdb(str(path), "rejected"),
        lambda: rows(path, "SELECT key, epoch_us(window_start) FROM windows"),
        lambda: rows(path, "SELECT id, reason FROM rejected"),
    )


def postgres_in(dsn: str) -> Target:
    def windows() -> list[Any]:
        query = "SELECT key, (extract(epoch FROM window_start) * 1000000)::bigint FROM windows"
        return [(decode_text(key), start) for key, start in fetch_rows(dsn, query)]

    return Target(
        mt.to_postgres(dsn, "windows", history="history", patience="1 hour"),
        mt.to_postgres(dsn, "rejected", patience="1 hour"),
        windows,
        lambda: fetch_rows(dsn, "SELECT id, reason FROM rejected"),
    )


def parquet(spark: SparkSession, folder: Path) -> Target:
    windows, rejected = f"{folder}/windows", f"{folder}/rejected"

    def newest() -> list[Any]:
        emitted = spark.read.parquet(windows).selectExpr(
            "key", "unix_micros(window_start) AS start"
        )
        return [(row.key, row.start) for row in emitted.distinct().collect()]

    def read_rejected() -> list[Any]:
        return [tuple(r) for r in spark.read.parquet(rejected).select("id", "reason").collect()]

    return Target(mt.to_parquet(windows), mt.to_parquet(rejected), newest, read_rejected)


def function() -> Target:
    emitted: dict[int, list[Any]] = {}
    rejected: dict[int, list[Any]] = {}

    def take(frame: DataFrame, number: int) -> None:
        emitted[number] = [tuple(row) for row in frame.selectExpr(
            "key", "unix_micros(window_start)").distinct().collect()]  # fmt: skip

    def reject(frame: DataFrame, number: int) -> None:
        rejected[number] = [tuple(row) for row in frame.select("id", "reason").collect()]

    return Target(
        take,
        reject,
        lambda: list({row for rows in emitted.values() for row in rows}),
        lambda: [row for rows in rejected.values() for row in rows],
    )


def decode_text(text: str) -> str:
    """Return the text that a text in PostgreSQL stands for."""
    characters, escaped = [], False
    for c in text:
        if not escaped and c == "␛":
            escaped = True
            continue
        characters.append("\0" if c == "␀" and not escaped else c)
        escaped = False
    return "".join(characters)


class AllSinks:
    """Several sinks as one."""

    def __init__(self, sinks: list[Any]) -> None:
        self.sinks = sinks

    def write(self, batch: Any) -> None:
        for sink in self.sinks:
            if callable(sink):
                sink(batch.frame, batch.number)
            else:
                sink.write(batch)


def run(spark: SparkSession, feed: Feed, folder: Path, targets: list[Target]) -> mt.WindowedQuery:
    stream = feed.stream(spark).selectExpr("*", "cast(raw AS string) AS text")
    query = (
        mt.windowed(stream, key="key", time="at", max_ahead="1 day")
        .tumbling("10 seconds")
        .early(each=True)
        .agg(n=mt.count(), most=mt.max("x"), texts=mt.collect_list("text"))
        .start(
            checkpoint=f"{folder}/checkpoint",
            results=AllSinks([target.results for target in targets]),
            rejected=AllSinks([target.rejected for target in targets]),
            available_now=True,
        )
    )
    assert query.await_end(timeout=280)
    assert query.progress.adds_up()
    assert query.watcher_failures == 0
    return query


def read_unwritable(spark: SparkSession, folder: Path) -> list[Any]:
    path = folder / "checkpoint" / "unwritable"
    return spark.read.json(str(path)).collect() if path.exists() else []


def check(spark: SparkSession, feed: Feed, folder: Path, targets: list[Target]) -> None:
    """Run a query, repeat its last batch, and check that each row is stored or set aside once."""
    counts = run(spark, feed, folder, targets).progress.counts
    first = sorted(read_unwritable(spark, folder))
    windows, ids = compute_expected(feed)
    assert sum(n for reason, n in counts.items() if reason in REASONS) == len(ids)
    commits = folder / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.glob("[0-9]*"))
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    run(spark, feed, folder, targets)
    assert sorted(read_unwritable(spark, folder)) == first
    for name, target in zip(NAMES, targets, strict=True):
        unwritable = [row for row in first if row.sink.startswith(name)]
        unwritable_rejected = [
            json.loads(row.row) for row in unwritable if row.output == "rejected"
        ]
        stored = [n for n, _ in target.ids()]
        assert Counter([*stored, *(row["id"] for row in unwritable_rejected)]) == Counter(ids), name
        unwritable_keys = {
            json.loads(row.row)["key"] for row in unwritable if row.output == "results"
        }
        stored_keys = [key for key, _ in target.windows()]
        assert set(stored_keys) | unwritable_keys == windows, name
        assert len(set(stored_keys)) == len(stored_keys), name


NAMES = ["DuckDB", "Parquet", "function", "PostgreSQL"]
REASONS = ("late", "future", "null_key", "null_time", "malformed")


def compute_expected(feed: Feed) -> tuple[set[str], list[int]]:
    """Return the keys that have a window, and the numbers of rejected messages."""
    import pyarrow.parquet as pq

    messages_in_files = pq.read_table(feed.folder).select(["id", "key"]).to_pylist()
    at = pq.read_table(feed.folder)["at"].cast(pa.int64()).to_pylist()
    has_window_time = [time is not None and time == NOW for time in at]
    counted = [
        row["key"] is not None and is_counted
        for row, is_counted in zip(messages_in_files, has_window_time, strict=True)
    ]
    keys = {
        row["key"] for row, is_counted in zip(messages_in_files, counted, strict=True) if is_counted
    }
    return keys, [
        row["id"]
        for row, is_counted in zip(messages_in_files, counted, strict=True)
        if not is_counted
    ]


@pytest.mark.slow
def test_no_row_ends_a_query_in_a_sink(
    spark: SparkSession, postgres: Postgres, tmp_path: Path
) -> None:
    feed = Feed(tmp_path / "source", SCHEMA)
    # Ancient messages come last, so no other message is late.
    fill(feed, [("a", NOW, 1.0, b"a", None)], messages())
    targets = [duckdb(tmp_path), parquet(spark, tmp_path), function()]
    targets.append(postgres_in(postgres.database()))
    check(spark, feed, tmp_path, targets)


def test_a_key_that_no_folder_can_be_named_by_is_set_aside(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark writes some characters as three, so 83 of them are as long as 249 others."""
    feed = Feed(tmp_path / "in", SCHEMA)
    keys = [
        "a",
        "k" * 300,
        "k" * 251,
        "k" * 252,
        "%" * 83,
        "%" * 84,
        "ü" * 125,
        "ü" * 126,
        "a\0b",
        "../..",
        "",
        "__HIVE_DEFAULT_PARTITION__",
        None,
    ]
    feed.add(*((key, NOW, 1.0, b"", []) for key in keys))
    query = (
        mt.windowed(feed.stream(spark), key="key", time="at", max_ahead=None, nulls="group")
        .tumbling("10 seconds")
        .early(each=True)
        .agg(n=mt.count())
        .start(
            checkpoint=f"{tmp_path}/checkpoint",
            results=mt.to_parquet(f"{tmp_path}/out", partition_by="key"),
            available_now=True,
        )
    )
    assert query.await_end(timeout=120)
    unwritable = read_unwritable(spark, tmp_path)
    assert sorted(len(json.loads(row.row)["key"]) for row in unwritable) == [
        0,
        3,
        26,
        84,
        126,
        252,
        300,
    ]
    assert "the folder of key has a name of 304 bytes" in {row.why[:41] for row in unwritable}
    # Of NULL and the texts that readers take for it, there is NULL alone.
    stored = spark.read.parquet(f"{tmp_path}/out").select("key", "n").collect()
    assert len(stored) == 6
    assert [row.n for row in stored if row.key is None] == [1]
    assert sorted(path.name for path in (tmp_path / "out").glob("[!.]*")) == ["batch=0"]
