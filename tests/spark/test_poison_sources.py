"""Tests of every source with hostile messages: each is counted, or rejected with a reason."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.services.kafka import Kafka
from tests.spark.feed import STAMP, rows

import muntin as mt
from muntin.sources.kafka import Reader
from muntin.spark.pipelines import SparkPipelines
from muntin.spark.sources.decimals import LONG_TEXTS
from muntin.sql.api import compile_pipeline
from muntin.tables import App

NOW = 1_767_225_600_000_000
AT = "2026-01-01T00:00:00Z"
TIMES = [
    *(-219_966_000_000_000_000, 1_767_225_600_000_000_000, 2**63 - 1, -(2**63), 2**62, -1),
    *(-62_135_596_800_000_001, 253_402_300_800_000_000),
]
# No window can contain these; times that far ahead are rejected as future.
BEYOND = [time for time in TIMES if time < -(2**61)]
NUMBERS = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, None]
TEXTS = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"a\xfe", b"a", b"a\0", b"", None, b"k" * 6000]
GARBLED = TEXTS[:4]
FILE = pa.schema([("key", pa.string()), ("at", STAMP), ("x", pa.float64()), ("note", pa.string())])
COLUMNS = "key string, at timestamp, x double, note string"


def make_text(values: list[bytes | None]) -> pa.Array:
    """Return text of any bytes, as other writers may store it."""
    raw = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())


def messages() -> list[tuple[bytes | None, int | None, float | None, bytes | None]]:
    """Return (key, time, number, note). Ancient messages come last, so no other is late."""
    rows: list[Any] = [(b"a", NOW, 1.0, b"a")]
    rows += [(text, NOW, 0.0, b"a") for text in TEXTS]
    rows += [(b"a", NOW, 0.0, text) for text in TEXTS]
    rows += [(b"a", NOW, number, b"b") for number in NUMBERS]
    return [*rows, *((b"b", time, 0.5, b"b") for time in TIMES), (b"b", None, 0.5, b"b")]


def parquet(path: Path) -> int:
    keys, times, numbers, notes = map(list, zip(*messages(), strict=True))
    columns = [make_text(keys), pa.array(times, pa.int64()).cast(STAMP), numbers, make_text(notes)]
    pq.write_table(pa.table(columns, schema=FILE), path)
    return len(keys)


def run(frame: DataFrame, folder: Path, **options: Any) -> mt.WindowedQuery:
    """Run a query over all input, on the folder's checkpoint."""
    query = (
        mt.windowed(frame, key="key", time="at", max_ahead="1 day", **options)
        .tumbling("10 seconds")
        .early(each=True)
        .agg(n=mt.count(), most=mt.max("x"), last=mt.last("x"))
        .start(
            checkpoint=f"{folder}/checkpoint",
            results=mt.to_duckdb(f"{folder}/out.duckdb", "windows"),
            rejected=mt.to_duckdb(f"{folder}/out.duckdb", "rejected"),
            available_now=True,
        )
    )
    assert query.await_end(timeout=240)
    return query


def check(query: mt.WindowedQuery, folder: Path, seen: int) -> Counter[str]:
    """Check that each message is counted or rejected, and return the numbers by reason."""
    counts, out = query.progress.counts, folder / "out.duckdb"
    assert query.progress.adds_up()
    assert counts["seen"] == seen
    ((counted,),) = rows(out, "SELECT coalesce(sum(n), 0) FROM windows")
    assert counted == counts["counted"] > 0
    reasons = Counter(dict(rows(out, "SELECT reason, count(*) FROM rejected GROUP BY ALL")))
    assert counted + reasons.total() == seen
    return reasons


def keys(folder: Path) -> set[str]:
    return {key for (key,) in rows(folder / "out.duckdb", "SELECT DISTINCT key FROM windows")}


@pytest.mark.slow
def test_text_that_isnt_utf8_in_files_read_in_columns(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    frame = spark.readStream.schema(COLUMNS).parquet(str(source))
    seen = 0
    for number in range(2):
        seen += parquet(source / f"{number}.parquet")
        reasons = check(run(frame, tmp_path), tmp_path, seen)
    # A note that no aggregate uses is no reason.
    assert reasons["malformed"] >= 2 * len(GARBLED)
    assert {"a", "a\0", "", "k" * 6000} <= keys(tmp_path)
    malformed_keys = rows(
        tmp_path / "out.duckdb", "SELECT key FROM rejected WHERE reason = 'malformed'"
    )
    assert {"\\xff", "\\xc3", "\\xed\\xa0\\x80", "a\\xfe"} <= {key for (key,) in malformed_keys}


LONG = "k" * 10_000_000
LONG_KEYS = [LONG, LONG, LONG + "x", LONG[:-1] + "y", "a"]
NOTES = ["n" * 50_000_000, None, "b", "b", "b"]


def check_long(folder: Path, times: int) -> None:
    """Check that keys of ten million characters that differ in the last have different windows."""
    query = "SELECT length(key), right(key, 1), n FROM windows ORDER BY ALL"
    ends = [(1, "a", 1), (10_000_000, "k", 2), (10_000_000, "y", 1), (10_000_001, "x", 1)]
    wanted = [(length, end, n * times) for length, end, n in ends]
    assert rows(folder / "out.duckdb", query) == wanted


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("form", "starts"), [("parquet", 2), ("json", 1)])
def test_long_keys_and_longer_texts(
    spark: SparkSession, tmp_path: Path, form: str, starts: int
) -> None:
    """For one format also after a restart; the state is the same for all sources."""
    source = tmp_path / "source"
    source.mkdir()
    reader = spark.readStream.schema(COLUMNS).format(form).options(**LONG_TEXTS)
    frame = reader.load(str(source))
    for number in range(starts):
        times = pa.array([NOW] * 5, pa.int64()).cast(STAMP)
        table = pa.table([LONG_KEYS, times, [0.5] * 5, NOTES], schema=FILE)
        if form == "parquet":
            pq.write_table(table, source / f"{number}.parquet")
        else:
            write_lines(source, number, [json.dumps(row).encode() for row in make_long_rows()])
        reasons = check(run(frame, tmp_path), tmp_path, 5 * (number + 1))
        assert not reasons
    check_long(tmp_path, starts)


def make_long_rows() -> list[dict[str, Any]]:
    """Return messages with long keys and long texts."""
    pairs = zip(LONG_KEYS, NOTES, strict=True)
    return [{"key": key, "at": AT, "x": 0.5, "note": note} for key, note in pairs]


def lines() -> list[bytes]:
    """Return JSON of all kinds; the first is valid, and ancient times come last."""
    valid = {"key": "a", "at": AT, "x": 1.5, "note": "n"}
    json_lines = [json.dumps(valid).encode()]
    for field in valid:
        values = ["NaN", "Infinity", "-Infinity", "1e10000000", "-1e-10000000", "9" * 5000, "null"]
        values += ['"\\ud800"', '"\\u0000"', '""', '"' + "k" * 6000 + '"', "[]", "{}", "true"]
        values += ["[" * 10_000 + "]" * 10_000, '{"a":' * 10_000 + "1" + "}" * 10_000]
        values += ['"57971-01-01T00:00:00Z"', '"+57971-01-01T00:00:00Z"', '"1e10000000"']
        for text in values:
            rest = {name: value for name, value in valid.items() if name != field}
            json_lines.append(json.dumps(rest).encode()[:-1] + f', "{field}": {text}}}'.encode())
    start = json.dumps({**valid, "note": ""}).encode()[:-2]
    json_lines += [start + raw.replace(b"\0", b"") + b'"}' for raw in GARBLED]
    json_lines += [
        b'{"key": "' + raw + json.dumps({**valid, "key": ""}).encode()[9:] for raw in GARBLED
    ]
    json_lines += [
        b"{",
        b"[1]",
        b"[" * 10_000,
        b'"',
        b"\xff\xfe",
        b"nul",
        b'{"": 1}',
        b"{}",
        b"1e10000000",
    ]
    json_lines += [b'{"key": "a", "key": "b", "at": "' + AT.encode() + b'"}']
    many = {f"c{number}": number for number in range(10_000)}
    json_lines.append(json.dumps({**valid, **many}).encode())
    ancient = ["-5000-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z"]
    return [*json_lines, *(json.dumps({**valid, "at": at}).encode() for at in ancient)]


def csv_lines() -> list[bytes]:
    """Return lines of a CSV file."""
    at = AT.encode()
    records = [b"a,%b,1.5,n" % at, b"", b",,,", b",", b'"', b'"a\nb', b"\xff\xfe,,,", b"," * 20_000]
    for raw in [*GARBLED, b"a\0", b"k" * 6000, b'""', b"\\", b"'", b"\x7f"]:
        records += [b"%b,%b,1,n" % (raw, at), b"a,%b,1,%b" % (at, raw), b"a,%b,%b,n" % (at, raw)]
        records.append(b"a,%b,1,n" % raw)
    for number in (b"NaN", b"Inf", b"-Inf", b"1e10000000", b"9" * 5000, b"1e-10000000"):
        records += [b"a,%b,%b,n" % (at, number), b"a,%b,1,n" % number]
    times = (b"57971-01-01T00:00:00Z", b"-5000-01-01T00:00:00Z", b"0001-01-01T00:00:00Z")
    return [*records, *(b"a,%b,1,n" % time for time in times)]


def write_lines(folder: Path, number: int, file_lines: list[bytes]) -> None:
    """Write a file of lines, which a running stream sees as a whole."""
    folder.mkdir(exist_ok=True)
    (folder / f"_{number}").write_bytes(b"\n".join(file_lines) + b"\n")
    (folder / f"_{number}").rename(folder / f"{number}.txt")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("form", ["json", "csv"])
def test_files_of_text(spark: SparkSession, tmp_path: Path, form: str) -> None:
    source, seen = tmp_path / "source", 0
    file_lines = lines() if form == "json" else csv_lines()
    for number in range(2):
        write_lines(source, number, file_lines)
        file = spark.read.schema(COLUMNS).format(form).load(f"{source}/{number}.txt")
        seen += file.selectExpr("struct(*)").count()
        frame = spark.readStream.schema(COLUMNS).format(form).load(str(source))
        reasons = check(run(frame, tmp_path), tmp_path, seen)
    assert reasons["null_key"] > 0
    assert "k" * 6000 in keys(tmp_path)


@pytest.mark.parametrize("names", [["a", "a"], [""], ["a`b"], ["A", "a"]])
def test_names_that_cant_be_columns_are_refused_before_anything_runs(
    spark: SparkSession, names: list[str]
) -> None:
    stamped = spark.range(1).selectExpr("id AS k", "timestamp_seconds(id) AS at")
    frame = stamped.select("*", *(stamped["k"].alias(name) for name in names))
    with pytest.raises(mt.OptionError, match="rename"):
        mt.windowed(frame, key="k", time="at").tumbling("10 seconds").agg(n=mt.count())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_batch_frame(spark: SparkSession, tmp_path: Path) -> None:
    """Windows reject the same messages in a batch, and texts that aren't UTF-8."""
    source = tmp_path / "source"
    source.mkdir()
    seen = parquet(source / "0.parquet")
    wide = [f"{number} AS c{number}" for number in range(200)]
    frame = spark.read.schema(COLUMNS).parquet(str(source)).selectExpr("*", *wide)
    windows = mt.windowed(frame, key="key", time="at", max_ahead="1 day").tumbling("10 seconds")
    counted = windows.agg(n=mt.count(), notes=mt.collect_list("x"))
    total = counted.results.groupBy().sum("n").collect()[0][0]
    reasons = Counter(row.reason for row in counted.rejected.select("reason").collect())
    assert total + reasons.total() == seen
    assert reasons["malformed"] == len(GARBLED) + len(BEYOND)
    texts = windows.agg(notes=mt.collect_list("note"))
    assert texts.rejected.where("reason = 'malformed'").count() == 2 * len(GARBLED) + len(BEYOND)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_tables_of_sql(spark: SparkSession, tmp_path: Path) -> None:
    source, out, seen = tmp_path / "source", tmp_path / "out.duckdb", 0
    script = f"""
        CREATE TABLE messages (key STRING, at TIMESTAMP, x DOUBLE, note STRING)
        WITH (connector = 'json', path = '{source}');
        CREATE TABLE windows WITH (connector = 'duckdb', path = '{out}');
        CREATE TABLE rejected WITH (connector = 'duckdb', path = '{out}');
        SET checkpoint = '{tmp_path}/checkpoint';
        SET trigger = 'available now';
        INSERT INTO windows REJECTED INTO rejected
        SELECT key, count(*) AS n FROM messages GROUP BY key, TUMBLE(at, INTERVAL '10' SECOND);
    """
    for number in range(2):
        write_lines(source, number, lines())
        seen += len(lines())
        (query,) = SparkPipelines(spark).start(compile_pipeline(script), {})
        assert query.await_end(timeout=240)
        assert query.progress.adds_up()
        assert query.progress.counts["seen"] == seen
        emitted = rows(out, "SELECT count(*) FROM rejected")
        assert query.progress.counts["counted"] + emitted[0][0] == seen


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_agents(spark: SparkSession, tmp_path: Path) -> None:
    app = App("poison", max_ahead=None)
    totals = app.Table("totals", default=int)

    @app.agent(app.topic("events"))
    async def count(events: Any) -> None:
        async for key, _ in events.items():  # noqa: PERF102  (a stream, not a dictionary)
            totals[key] += 1

    source, out, seen = tmp_path / "source", tmp_path / "out.duckdb", 0
    source.mkdir()
    for number in range(2):
        seen += parquet(source / f"{number}.parquet")
        frame = spark.readStream.schema(COLUMNS).parquet(str(source))
        query = mt.on_spark(app, {"events": mt.source(frame, key="key", time="at")}).start(
            checkpoint=f"{tmp_path}/checkpoint",
            tables={"totals": mt.to_duckdb(str(out), "totals")},
            rejected=mt.to_duckdb(str(out), "rejected"),
            available_now=True,
        )
        assert query.await_end(timeout=240)
        assert query.progress.adds_up()
        ((counted,),) = rows(out, "SELECT sum(value) FROM totals")
        ((rejected,),) = rows(out, "SELECT count(*) FROM rejected")
        assert counted + rejected == query.progress.counts["seen"] == seen
    assert ("k" * 6000,) in rows(out, "SELECT key FROM totals")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("reader", ["spark", "columns"])
def test_topics(spark: SparkSession, kafka: Kafka, tmp_path: Path, reader: Reader) -> None:
    topic = kafka.topic(1)
    source = mt.kafka(
        kafka.servers, topic, columns="at timestamp, x double, note string", reader=reader
    )
    topic_messages: list[Any] = [(0, key, lines()[0]) for key in TEXTS]
    topic_messages += [(0, "a", line) for line in lines()]
    topic_messages += [(0, "a", None), (0, None, None)]
    seen = 0
    for _ in range(2):
        kafka.send(topic, topic_messages)
        seen += len(topic_messages)
        reasons = check(run(source.stream(spark), tmp_path), tmp_path, seen)
    assert reasons["malformed"] >= 2 * len(GARBLED)
    assert {"a", "a\0", "k" * 6000} <= keys(tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("reader", [pytest.param("spark", marks=pytest.mark.long), "columns"])
def test_long_keys_and_longer_texts_of_topics(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, reader: Reader
) -> None:
    """Spark's connector parses them as it parses JSON files."""
    topic = kafka.topic(1, largest=64_000_000)
    columns = "at timestamp, x double, note string"
    source = mt.kafka(kafka.servers, topic, columns=columns, reader=reader)
    topic_messages = [(0, row.pop("key"), json.dumps(row).encode()) for row in make_long_rows()]
    kafka.send(topic, topic_messages, largest=64_000_000)
    assert not check(run(source.stream(spark), tmp_path), tmp_path, 5)
    check_long(tmp_path, 1)
