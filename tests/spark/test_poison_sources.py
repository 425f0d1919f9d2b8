"""Every source and messages that are hostile: each is counted, or rejected with a reason."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.feed import STAMP, rows

import muntin as mt

NOW = 1_767_225_600_000_000
AT = "2026-01-01T00:00:00Z"
TIMES = [
    *(-219_966_000_000_000_000, 1_767_225_600_000_000_000, 2**63 - 1, -(2**63), 2**62, -1),
    *(-62_135_596_800_000_001, 253_402_300_800_000_000),
]
NUMBERS = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, None]
TEXTS = [b"\xff", b"\xc3", b"\xed\xa0\x80", b"a\xfe", b"a", b"a\0", b"", None, b"k" * 6000]
GARBLED = TEXTS[:4]
FILE = pa.schema([("key", pa.string()), ("at", STAMP), ("x", pa.float64()), ("note", pa.string())])
COLUMNS = "key string, at timestamp, x double, note string"
SLOW = [pytest.mark.slow, pytest.mark.timeout(600)]


def as_text(values: list[bytes | None]) -> pa.Array:
    """Text of whatever bytes, as other writers leave it in files."""
    held = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(held), held.buffers())


def messages() -> list[tuple[bytes | None, int | None, float | None, bytes | None]]:
    """Key, time, number and note. What is ancient comes last: nothing is late before."""
    made: list[Any] = [(b"a", NOW, 1.0, b"a")]
    made += [(text, NOW, 0.0, b"a") for text in TEXTS]
    made += [(b"a", NOW, 0.0, text) for text in TEXTS]
    made += [(b"a", NOW, number, b"b") for number in NUMBERS]
    return [*made, *((b"b", time, 0.5, b"b") for time in TIMES), (b"b", None, 0.5, b"b")]


def parquet(path: Path) -> int:
    keys, times, numbers, notes = map(list, zip(*messages(), strict=True))
    columns = [as_text(keys), pa.array(times, pa.int64()).cast(STAMP), numbers, as_text(notes)]
    pq.write_table(pa.table(columns, schema=FILE), path)
    return len(keys)


def started(frame: DataFrame, folder: Path, **options: Any) -> mt.WindowedQuery:
    """A query over all there is, on the folder's checkpoint."""
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
    """Whether each message is in a window or among the rejected; how many for which reason."""
    counts, out = query.figures.counts, folder / "out.duckdb"
    assert query.figures.adds_up()
    assert counts["seen"] == seen
    ((counted,),) = rows(out, "SELECT coalesce(sum(n), 0) FROM windows")
    assert counted == counts["counted"] > 0
    reasons = Counter(dict(rows(out, "SELECT reason, count(*) FROM rejected GROUP BY ALL")))
    assert counted + reasons.total() == seen
    return reasons


def keys(folder: Path) -> set[str]:
    return {key for (key,) in rows(folder / "out.duckdb", "SELECT DISTINCT key FROM windows")}


def test_text_that_isnt_utf8_in_files_read_in_columns(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    frame = spark.readStream.schema(COLUMNS).parquet(str(source))
    seen = 0
    for number in range(2):
        seen += parquet(source / f"{number}.parquet")
        reasons = check(started(frame, tmp_path), tmp_path, seen)
    # A note that nothing is computed with is no reason.
    assert reasons["malformed"] >= 2 * len(GARBLED)
    assert {"a", "a\0", "", "k" * 6000} <= keys(tmp_path)
    found = rows(tmp_path / "out.duckdb", "SELECT key FROM rejected WHERE reason = 'malformed'")
    assert {"\\xff", "\\xc3", "\\xed\\xa0\\x80", "a\\xfe"} <= {key for (key,) in found}
