"""Tests that numbers which take Spark's parser minutes never reach it, and others are the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from muntin.model.pipeline import DeclaredTable
from muntin.sources.source import MALFORMED_COLUMN, MALFORMED_DETAIL_COLUMN
from muntin.spark.sources.kafka import parse_rows
from muntin.spark.sources.tables import Surroundings, read_table

pytestmark = pytest.mark.slow

COLUMNS = (
    "id string, amount decimal(20,4), nested struct<price: decimal(10,2), note: string>, "
    "many array<decimal(10,2)>, named map<string, decimal(10,2)>"
)
FLAT = "id string, amount decimal(20,4)"
# Each takes Spark's parser from half a minute to hours.
ENDLESS = [
    '{"amount": 1e10000000}',
    '{"amount": 1e-1000000000}',
    '{"amount": 0.1E+100000000}',
    '{"amount": "1e10000000"}',
    '{"amount": "1e10,000,000"}',
    '{"amount": "\\u0031\\u00651000000000"}',
    '{"\\u0061mount": "1e1000000000"}',
    '{"amount": "١e١٠٠٠٠٠٠٠"}',
    '{"amount": "' + "9" * 2_000_000 + '"}',
    '{"amount": 1e10000000, "amount": 1}',
    '{"amount": "1e10000000", "amount": 1}',
    "{'amount': '1e10000000'}",
    '{"nested": {"price": 1e10000000}}',
    '{"nested": {"price": "1e-1000000000"}}',
    '{"many": [1, 2, 1e10000000]}',
    '{"many": ["1e10000000"]}',
    '{"named": {"a": 1e10000000}}',
]
SOUND = [
    '{"amount": 12345678901234.5678}',
    '{"amount": 1.23456, "id": "1234e5678"}',
    '{"amount": 1e3, "id": "x 1e50000"}',
    '{"amount": -2.5e-3, "id": "\\u0031\\u0032"}',
    '{"amount": "1,234.5"}',
    '{"amount": 0, "id": "1e12345"}',
    '{"amount": null, "id": "a: 1e50000, b"}',
    '{"nested": {"price": 1.005, "note": "1e99999"}}',
    '{"nested": null}',
    '{"many": [1.5, null, "2.5"], "named": {"a": 3, "b": null}}',
    '{"many": null, "named": {}}',
]


def parse_payloads(
    spark: SparkSession, payloads: list[str], columns: str, format: str = "json"
) -> list[Any]:
    frame = spark.createDataFrame([(text.encode(),) for text in payloads], "value binary")
    frame = frame.selectExpr("*", "timestamp_seconds(0) AS timestamp", "'k' AS key")
    schema = spark.createDataFrame([], columns).schema
    rows = parse_rows(frame, format, schema, None, several=False)
    return rows.drop("key", "timestamp").collect()


@pytest.mark.timeout(120)
def test_endless_numbers_in_payloads_are_malformed(spark: SparkSession) -> None:
    rows = parse_payloads(spark, [*ENDLESS, *SOUND], COLUMNS)
    bad = [bytes(row[MALFORMED_COLUMN]) for row in rows if row[MALFORMED_COLUMN] is not None]
    assert bad == [text.encode() for text in ENDLESS]


def test_sound_payloads_are_read_as_spark_reads_them(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    frame = spark.createDataFrame([(text,) for text in SOUND], "value string")
    wanted = frame.select(F.from_json("value", COLUMNS).alias("v")).select("v.*").collect()
    rows = [row.asDict() for row in parse_payloads(spark, SOUND, COLUMNS)]
    for name in (MALFORMED_COLUMN, MALFORMED_DETAIL_COLUMN):
        assert all(row.pop(name) is None for row in rows)
    assert rows == [row.asDict() for row in wanted]


@pytest.mark.timeout(120)
def test_endless_numbers_in_lines_of_csv_are_malformed(spark: SparkSession) -> None:
    endless = ["a,1e10000000", 'b,"1e-1000000000"', "c," + "9" * 2_000_000, "d,١e١٠٠٠٠٠٠٠"]
    sound = ["1234e5678,1.5", "x,1e3", "1e99999,", 'y,"1,234.5"']
    rows = parse_payloads(spark, [*endless, *sound], FLAT, format="csv")
    bad = [bytes(row[MALFORMED_COLUMN]) for row in rows if row[MALFORMED_COLUMN] is not None]
    assert bad == [text.encode() for text in endless]
    amounts = [row.amount for row in rows if row[MALFORMED_COLUMN] is None]
    assert amounts == [Decimal("1.5"), Decimal(1000), None, Decimal("1234.5")]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("form", ["json", "csv"])
def test_endless_numbers_in_files_are_malformed(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    from pyspark.sql import functions as F

    columns = COLUMNS if form == "json" else FLAT
    if form == "json":
        endless, sound = ENDLESS, SOUND
        assert all(json.loads(text) for text in sound)
    else:
        endless, sound = ["a,1e10000000", 'b,"1e-1000000000"'], ["1234e5678,1.23456", "e,2e3"]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "part").write_text("\n".join([*endless, *sound]))
    table = DeclaredTable("t", form, columns, options={"path": f"{tmp_path}/in"}, stream=False)
    frame = read_table(spark, table, Surroundings())
    rows = [row.asDict(recursive=True) for row in frame.collect()]
    marks = [(row.pop(MALFORMED_COLUMN), row.pop(MALFORMED_DETAIL_COLUMN)) for row in rows]
    assert marks[len(endless) :] == [(None, None)] * len(sound)
    # Of a name that comes twice, Spark's reader has the last.
    is_twice = [row["amount"] == Decimal(1) for row in rows[: len(endless)]]
    assert is_twice == ['"amount": 1}' in text for text in endless]
    assert [mark is not None for mark, _ in marks[: len(endless)]] == [not two for two in is_twice]
    assert len(rows) == len(endless) + len(sound)
    frame = spark.createDataFrame([(text,) for text in sound], "value string")
    parse: Any = F.from_json if form == "json" else F.from_csv
    wanted = frame.select(parse("value", columns).alias("v")).select("v.*").collect()
    assert rows[len(endless) :] == [row.asDict(recursive=True) for row in wanted]


@pytest.mark.parametrize("own_column", [None, "Unread", "_corrupt_record"])
@pytest.mark.parametrize(
    ("form", "columns", "lines", "good"),
    [
        (
            "json",
            f"{COLUMNS}, at timestamp",
            {
                '{"id":"a","amount":"1.2.3"}': "amount is not a decimal(20, 4)",
                '{"id":"b","amount":12345678901234567.5}': "amount is not a decimal(20, 4)",
                '{"nested":{"price":"soon"},"at":"2026"}': "nested is not a struct of its fields",
                '{"many":["1",null,"x"]}': "many is not an array of its items",
                '{"named":{"a":"?"}}': "named is not a map of its values",
            },
            '{"id":"c","amount":1,"nested":{"note":"x"},"many":[],"named":{"k":"1,5"}}',
        ),
        (
            "csv",
            "id string, amount decimal(20,4), at timestamp",
            {"a;1.2.3;": "amount is not a decimal(20, 4)"},
            "c;2;2026",
        ),
    ],
)
def test_texts_of_files_that_arent_decimals_are_malformed(
    spark: SparkSession,
    tmp_path: Path,
    form: str,
    columns: str,
    lines: dict[str, str],
    good: str,
    own_column: str | None,
) -> None:
    (tmp_path / "part").write_text("\n".join([*lines, good]))
    options = {"path": str(tmp_path), "timestampFormat": "yyyy"}
    options |= {"sep": ";"} if form == "csv" else {}
    columns += f", {own_column} string" if own_column else ""
    options |= {"columnNameOfCorruptRecord": own_column} if own_column == "Unread" else {}
    table = DeclaredTable("t", form, columns, options=options, stream=False)
    rows = [row.asDict() for row in read_table(spark, table, Surroundings()).collect()]
    if own_column:
        assert [row[own_column] for row in rows] == [*_spell(form, lines), None]
        return
    assert [row[MALFORMED_DETAIL_COLUMN] for row in rows] == [*lines.values(), None]
    texts = [text.encode() for text in _spell(form, lines)]
    assert [row[MALFORMED_COLUMN] for row in rows] == [*texts, None]


def _spell(form: str, lines: Iterable[str]) -> list[str]:
    """Return lines as Spark writes them, with decimals as texts."""
    return [re.sub(r"(?<=:)([0-9.]+)", r'"\1"', line) if form == "json" else line for line in lines]


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_text_of_any_length_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's parser accepts at most 20 million characters by default."""
    text = "n" * 20_000_001
    payloads = [f'{{"id": "{text}", "amount": {number}}}' for number in ("1.5", "1e10000000")]
    sound, endless = parse_payloads(spark, payloads, FLAT)
    assert (len(sound.id), sound.amount, sound[MALFORMED_COLUMN]) == (
        len(text),
        Decimal("1.5"),
        None,
    )
    assert bytes(endless[MALFORMED_COLUMN]) == payloads[1].encode()
    (tmp_path / "part").write_text("\n".join(payloads))
    table = DeclaredTable("t", "json", FLAT, options={"path": str(tmp_path)}, stream=False)
    sizes = read_table(spark, table, Surroundings()).selectExpr("length(id)", "amount").collect()
    assert sizes == [(len(text), Decimal("1.5")), (len(text), None)]
