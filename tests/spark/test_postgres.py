"""Tests of PostgreSQL as a sink: server crashes, users' own tables, refusals and secrets."""

from __future__ import annotations

import sys
import threading
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType
from tests.contract.sinks import PostgresTarget
from tests.services.postgres import PASSWORD, Postgres, rows
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.model.pipeline import DeclaredTable
from muntin.sinks.declared import Surroundings, make_sink
from muntin.testing import SinkBatch as Written

NEWEST = "SELECT key, n, revision FROM windows ORDER BY 1, 2"
EMITTED = """SELECT key, (extract(epoch FROM window_start) * 1000000)::bigint, n, total::bigint,
                 most
          FROM windows ORDER BY 1, 2"""


class Table:
    """A batch of one Arrow table."""

    def __init__(self, table: pa.Table, keys: tuple[str, ...] | None = None) -> None:
        self.number, self.keys, self.identity, self.empty = 0, keys, keys, False
        self._table = table

    def table(self) -> pa.Table:
        return self._table

    def write_natively(self, sink: object) -> bool:
        return False


@pytest.fixture
def dsn(postgres: Postgres) -> str:
    return postgres.database()


def test_a_crash_of_the_server_loses_and_doubles_nothing(postgres: Postgres, dsn: str) -> None:
    """The server is killed while a batch waits for a lock, in the middle of its statements."""
    sink = mt.to_postgres(dsn, "windows", history="history")
    sink.write(Written(0, [("a", 0, 1, 0)]))
    blocker = psycopg.connect(dsn)
    blocker.execute("LOCK TABLE history IN ACCESS EXCLUSIVE MODE")
    writing = threading.Thread(target=sink.write, args=(Written(1, [("a", 0, 2, 1)]),))
    writing.start()
    waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid <> %s"
    with psycopg.connect(dsn, autocommit=True) as watching:
        while not watching.execute(waits, (blocker.info.backend_pid,)).fetchall():
            assert writing.is_alive()
    postgres.kill()
    blocker.close()
    postgres.start()
    writing.join(timeout=60)
    assert not writing.is_alive()
    assert rows(dsn, NEWEST) == [("a", 2, 1)]
    history = rows(dsn, "SELECT n, revision, batch FROM history ORDER BY 1")
    assert history == [(1, 0, 0), (2, 1, 1)]


def test_a_server_that_stays_away_is_named(postgres: Postgres, dsn: str) -> None:
    sink = mt.to_postgres(dsn, "windows", patience="300 milliseconds")
    sink.write(Written(0, [("a", 0, 1, 0)]))
    postgres.kill()
    try:
        with pytest.raises(mt.SinkError, match=r"127.0.0.1:.* for 0.3 seconds") as failure:
            sink.write(Written(1, [("a", 0, 2, 1)]))
    finally:
        postgres.start()
    assert PASSWORD not in str(failure.value)
    sink.write(Written(1, [("a", 0, 2, 1)]))
    assert rows(dsn, NEWEST) == [("a", 2, 1)]


def test_a_query_feeds_it(spark: SparkSession, dsn: str, tmp_path: Any) -> None:
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1), ("b", at(2), 2), ("nul\0", at(3), 3))
    feed.add(("a", at(12), 4), ("a", at(4), 5), (None, at(13), 6))
    query = (
        mt.windowed(feed.stream(spark), key="key", time="at")
        .tumbling("10 seconds")
        .early(each=True)
        .late(grace="1 minute", each=True)
        .agg(n=mt.count(), total=mt.sum("value"), most=mt.max("value"))
        .start(
            checkpoint=f"{tmp_path}/checkpoint",
            results=mt.to_postgres(dsn, "windows", history="history"),
            rejected=mt.to_postgres(dsn, "rejected"),
            available_now=True,
        )
    )
    assert query.await_end(timeout=240)
    expected = [(key.replace("\0", "␀"), *rest) for key, *rest in feed.windows(10, 10, but=[5])]
    assert rows(dsn, EMITTED) == expected
    assert rows(dsn, "SELECT id, reason, batch FROM rejected") == [(5, "null_key", 1)]
    kinds = "SELECT emission, count(*) FROM history GROUP BY 1 ORDER BY 1"
    assert rows(dsn, kinds) == [("early", 4), ("full", 3)]


def test_every_type_arrives(dsn: str) -> None:
    instant = datetime(2026, 1, 1, 12, 0, 0, 123456, UTC)
    table = pa.table(
        {
            "whole": pa.array([1, None], pa.int32()),
            "flag": pa.array([True, None]),
            "real": pa.array([float("nan"), float("-inf")]),
            "text": pa.array(["tab\t\"quote\" \\N \\. ☃\n", "nul\0"]),
            "bytes": pa.array([b"\x00\xff\\", b""]),
            "moment": pa.array([instant, None], pa.timestamp("us", tz="UTC")),
            "local": pa.array([instant.replace(tzinfo=None), None], pa.timestamp("us")),
            "day": pa.array([date(2026, 1, 1), None]),
            "exact": pa.array([Decimal("12.50"), None], pa.decimal128(10, 2)),
            "many": pa.array([[1, None], []], pa.list_(pa.int64())),
            "words": pa.array([['{"a,b"}', "nul\0", None], None], pa.list_(pa.string())),
            "deep": pa.array([[{"k": "x\0", "v": 1}], None],
                             pa.list_(pa.struct({"k": pa.string(), "v": pa.int64()}))),
            "wild": pa.array([{"x": float("nan"), "s": "\\u0000"}, {"x": 1.5, "s": "\0"}],
                             pa.struct({"x": pa.float64(), "s": pa.string()})),
        }
    )  # fmt: skip
    mt.to_postgres(dsn, "rejected").write(Table(table))
    with psycopg.connect(dsn) as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        first, second = connection.execute('SELECT * FROM "rejected"').fetchall()
    assert first[:2] == (1, True)
    assert str(first[2]) == "nan"
    assert first[3:10] == (
        "tab\t\"quote\" \\N \\. ☃\n", b"\x00\xff\\", instant, instant.replace(tzinfo=None),
        date(2026, 1, 1), Decimal("12.50"), [1, None],
    )  # fmt: skip
    assert first[10] == ['{"a,b"}', "nul␀", None]
    assert first[11] == [{"k": "x␀", "v": 1}]
    assert first[12] == {"x": "nan", "s": "\\u0000"}
    assert second[:12] == (None, None, float("-inf"), "nul␀", b"", *[None] * 4, [], None, None)
    assert second[12:] == ({"x": 1.5, "s": "␀"}, 0)


def test_a_table_of_ones_own_is_filled(dsn: str) -> None:
    statements = """CREATE SCHEMA reports; CREATE TABLE reports.windows (
        id bigserial, n numeric, key varchar(10), window_start timestamptz, window_end timestamptz,
        emission text, revision bigint, PRIMARY KEY (key, window_start, window_end))"""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statements)
    sink = mt.to_postgres(dsn, "windows", schema="reports", create="never")
    sink.write(Written(0, [("a", 0, 1, 0), ("a", 0, 2, 1)]))
    sink.write(Written(1, [("a", 0, 3, 2), ("b", 0, 1, 0)]))
    stored = rows(dsn, "SELECT key, n::int, revision FROM reports.windows ORDER BY 1")
    assert stored == [("a", 3, 2), ("b", 1, 0)]


def test_the_declared_primary_key_of_ones_own_table_finds_older_rows(dsn: str) -> None:
    statement = """CREATE TABLE windows (n bigint, key text, window_start timestamptz,
        window_end timestamptz, emission text, revision int, PRIMARY KEY (key, window_start))"""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement)
    options, key = {"dsn": "${env:DSN}", "create": "never"}, ("KEY", "window_start")
    table = DeclaredTable("windows", "postgres", options=options, primary_key=key)
    sink = make_sink(table, Surroundings(environment={"DSN": dsn}))
    sink.write(Written(0, [("a", 0, 1, 0)]))
    sink.write(Written(1, [("a", 0, 3, 2), ("b", 0, 1, 0)]))
    stored = rows(dsn, "SELECT key, n, revision FROM windows ORDER BY 1")
    assert stored == [("a", 3, 2), ("b", 1, 0)]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("SELECT 1", "windows isn't there; create it, or leave create='never' away"),
        ("CREATE TABLE windows (key text)", "window_start.*it needs key, window_start"),
        (
            "CREATE TABLE windows (key text, window_start timestamptz, window_end timestamptz, "
            "n bigint, emission text, revision int)",
            r"no primary key or unique index over \(key, window_start, window_end\)",
        ),
    ],
)
def test_a_table_that_doesnt_fit_is_named(dsn: str, statement: str, error: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement.encode())
    with pytest.raises(mt.SinkError, match=error):
        mt.to_postgres(dsn, "windows", create="never").write(Written(0, [("a", 0, 1, 0)]))


def test_a_wrong_password_is_told_without_it(postgres: Postgres) -> None:
    sink = mt.to_postgres(postgres.dsn(), "windows", password="wrong horse", patience="1 hour")
    with pytest.raises(mt.SinkError, match=r"refuses us: .*password authentication") as failure:
        sink.write(Written(0, []))
    assert "wrong horse" not in f"{failure.value} {failure.value.__cause__} {sink!r} {sink.link!r}"


def test_what_cant_be_an_address_or_a_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(mt.OptionError, match="isn't an address") as failure:
        mt.to_postgres("postgresql://me:open sesame@host/db", "windows")
    assert "sesame" not in str(failure.value)
    for name in ("", "n" * 64, "ü" * 32, "a\0b"):
        with pytest.raises(mt.OptionError, match="can't be a name"):
            mt.to_postgres("host=there", name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(mt.MissingExtraError, match=r"pip install 'muntin\[postgres\]'"):
        mt.to_postgres("host=there", "windows")


def columns(*names: str) -> StructType:
    return StructType([StructField(name, LongType()) for name in names])


def test_columns_that_cant_be_written_are_refused_before() -> None:
    sink, logged = (mt.to_postgres("host=there", "t", history=h) for h in (None, "log"))
    for name in ("n" * 64, "ü" * 32, ""):
        with pytest.raises(mt.OptionError, match=r"column=.* can't be a name; give one of 1 to 63"):
            sink.check(columns("key", name), ("key",))
    rows, error = (
        columns("key", "batch"),
        "column='batch' is the column in which {} keeps the batch",
    )
    with pytest.raises(mt.OptionError, match=error.format("t") + ".*give the column another name$"):
        sink.check(rows, None)
    with pytest.raises(mt.OptionError, match=error.format("log") + ".*or keep no history$"):
        logged.check(rows, ("key",))
    # A table of the newest state has no batch numbers; and names differ by capitals.
    sink.check(rows, ("key",))
    sink.check(columns("key", "Batch", "n" * 63), None)


def test_a_column_like_the_batchs_in_capitals_is_another(dsn: str) -> None:
    table = pa.table({"Batch": pa.array([7], pa.int64())})
    for _ in range(2):
        mt.to_postgres(dsn, "rejected").write(Table(table))
    assert rows(dsn, 'SELECT "Batch", batch FROM rejected') == [(7, 0)]


def test_two_writers_of_a_table_take_turns(dsn: str) -> None:
    """Each writer has its own keys; any of them may create the table."""
    sinks = [mt.to_postgres(dsn, "windows") for _ in range(4)]
    failures: list[BaseException] = []

    def write(worker: int) -> None:
        try:
            for number in range(5):
                windows = [(f"{worker}-{key}", 0, number, number) for key in range(20)]
                sinks[worker].write(Written(number, windows))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == []
    stored = PostgresTarget(dsn).read("windows", "key", "n")
    assert stored == sorted((f"{worker}-{key}", 4) for worker in range(4) for key in range(20))
