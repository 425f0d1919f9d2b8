"""Messages that couldn't be decoded are rejected, also behind views that don't select them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.services.kafka import Kafka

import muntin as mt
from muntin.model.pipeline import Lookup, LookupHow, TableRelation
from muntin.sources.source import MALFORMED_COLUMN
from muntin.spark.lookups import join_table
from muntin.spark.sources.malformed import MARKS_MALFORMED

GOOD = [b'{"page": "home", "ms": 1}', b'{"page": "cart", "ms": 2}']
BAD = b'{"page": "home", "ms": "soon"}'
_SHOWN = ("page", "p", "part", "ms", "n", "name")


@pytest.fixture(scope="module")
def topic(broker: Kafka) -> str:
    name = broker.topic(1)
    broker.send(name, [(0, None, value) for value in (GOOD[0], BAD, GOOD[1])])
    return name


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("host", ["local", "spark"])
@pytest.mark.parametrize(
    ("statement", "rows", "bad"),
    [
        (
            "WITH v AS (SELECT page, timestamp_millis(ms) AS at FROM clicks WHERE ms < 9) "
            "SELECT page, count(*) AS n FROM v WATERMARK at DELAY OF 0 SECONDS "
            "GROUP BY page, TUMBLE(at, INTERVAL '1' MINUTE) EMIT EARLY EACH",
            [("cart", 1), ("home", 1)],
            1,
        ),
        (
            "WITH v AS (SELECT page, ms FROM clicks), w AS (SELECT upper(page) AS p, ms FROM v) "
            "SELECT p, ms FROM w WHERE ms + 1 < 9",
            [("CART", 2), ("HOME", 1)],
            1,
        ),
        (
            "WITH v AS (SELECT page, ms FROM clicks) SELECT page, ms FROM v UNION ALL "
            "SELECT upper(page), ms FROM v WHERE ms > 1",
            [("CART", 2), ("cart", 2), ("home", 1)],
            2,
        ),
        (
            "WITH v AS (SELECT page, ms FROM clicks), w AS (SELECT v.page, name FROM v "
            "JOIN (VALUES ('cart', 'Cart')) AS t(page, name) ON v.page = t.page) "
            "SELECT page, name FROM w",
            [("cart", "Cart")],
            1,
        ),
        (
            "WITH v AS (SELECT page, ms FROM clicks), w AS (SELECT page, ms FROM v WHERE EXISTS "
            "(SELECT 1 FROM (VALUES ('cart', 1), ('home', 7)) AS t(page, least) "
            "WHERE v.page = t.page AND v.ms > t.least)) SELECT page, ms FROM w",
            [("cart", 2)],
            1,
        ),
        (
            "WITH v AS (SELECT explode(split(page, 'a')) AS part, ms FROM clicks) "
            "SELECT part, ms FROM v",
            [("c", 2), ("home", 1), ("rt", 2)],
            1,
        ),
    ],
    ids=["windows", "views of views", "union", "lookup", "EXISTS", "explode"],
)
def test_a_message_that_a_view_cant_show_is_rejected_as_malformed(
    spark: SparkSession,
    kafka: Kafka,
    topic: str,
    tmp_path: Path,
    host: str,
    statement: str,
    rows: list[tuple[Any, ...]],
    bad: int,
) -> None:
    source = mt.kafka(kafka.servers, topic, columns="page string, ms long")
    clicks = source if host == "local" else source.stream(spark)
    rejected = mt.to_memory()
    query = mt.sql(statement, clicks=clicks).start(
        checkpoint=tmp_path, results=mt.to_memory(), rejected=rejected, available_now=True
    )
    assert query.await_end(120)
    assert query.progress.counts["malformed"] == bad
    assert query.progress.adds_up()
    results = query.frame()
    shown = [name for name in results.columns if name in _SHOWN]
    assert sorted(results.select(shown).rows()) == rows
    assert rejected.frame().select("reason", "malformed").rows() == [("malformed", BAD)] * bad


_EQUAL, _LATER = "__muntin_left.k = __muntin_right.k", "__muntin_left.ms > __muntin_right.least"
_ANY_NULL = "__muntin_left.k IS NULL OR __muntin_right.k IS NULL"


@pytest.mark.parametrize(
    ("how", "equal", "rest", "matching"),
    [
        ("semi", True, None, ["a", "b"]),
        ("semi", True, _LATER, ["a"]),
        ("semi", False, _LATER, ["a", "c"]),
        ("inner", True, _LATER, ["a", "a"]),
        ("inner", False, f"{_EQUAL} OR {_ANY_NULL}", ["a", "a", "b", "n", "n", "n"]),
        ("left", False, f"{_EQUAL} OR {_ANY_NULL}", ["a", "a", "b", "c", "n", "n", "n"]),
        ("anti", True, _LATER, ["b", "c", "n"]),
        ("anti", False, f"{_EQUAL} OR {_ANY_NULL}", ["c"]),
    ],
)
def test_a_lookup_keeps_a_malformed_message_once(
    spark: SparkSession, how: LookupHow, equal: bool, rest: str | None, matching: list[str]
) -> None:
    rows = [(name[0], None if name == "n" else name, ms, None) for name, ms in
            [("a", 5), ("b", 0), ("c", 9), ("n", 1)]]  # fmt: skip
    left = spark.createDataFrame(
        [*rows, ("bad", None, None, b"?")], "name string, k string, ms int, malformed binary"
    ).withColumn(MALFORMED_COLUMN, F.col("malformed").alias("m", metadata={MARKS_MALFORMED: True}))
    right = spark.createDataFrame([("a", 3), ("a", 4), ("b", 7)], "k string, least int")
    on = " AND ".join(f"({one})" for one in ([_EQUAL] if equal else []) + ([rest] if rest else []))
    lookup = Lookup(
        TableRelation("t"), TableRelation("u"), "u", how, on, ("k",),
        (("k", "k"),) if equal else (), rest,
    )  # fmt: skip
    joined = join_table(lookup, left, right)
    assert sorted(row["name"] for row in joined.collect()) == sorted([*matching, "bad"])


@pytest.mark.parametrize(
    ("host", "kind"), [("local", "BIGINT"), ("spark", "BIGINT"), ("spark", "DECIMAL(9, 2)")]
)
@pytest.mark.parametrize(
    ("form", "records"),
    [
        ("json", [b'{"page":"home","ms":1,"at":"%b"}', b'{"page":"a","ms":"x","at":"%b"}']),
        ("csv", [b"home,1,%b", b"a,x,%b"]),
    ],
)
def test_a_record_of_a_file_is_rejected_whatever_columns_a_query_needs(
    spark: SparkSession, tmp_path: Path, host: str, kind: str, form: str, records: list[bytes]
) -> None:
    good, bad = (record % b"2026-01-01T00:00:01.000Z" for record in records)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.txt").write_bytes(b"\n".join([bad, good, b""]))
    os.utime(tmp_path / "in" / "1.txt", (1e9, 1e9))
    statement = f"""
        CREATE TABLE clicks (page STRING, ms {kind}, at TIMESTAMP, WATERMARK FOR at AS at)
        WITH (connector = '{form}', path = '{tmp_path}/in/*.txt');
        CREATE VIEW v AS SELECT page, at FROM clicks;
        SELECT page, count(*) AS n FROM v GROUP BY page, TUMBLE(at, INTERVAL '1' MINUTE)
        EMIT EARLY EACH
    """
    rejected = mt.to_memory()
    query = mt.sql(spark if host == "spark" else None, statement).start(
        checkpoint=tmp_path / "c", results=mt.to_memory(), rejected=rejected, available_now=True
    )
    assert query.await_end(120)
    assert query.progress.counts == {"seen": 2, "counted": 1, "malformed": 1}
    assert query.frame().select("page", "n").rows() == [("home", 1)]
    assert rejected.frame().select("reason", "malformed").rows() == [("malformed", bad)]
