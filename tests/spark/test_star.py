"""Tests that ``SELECT *`` has Flink's columns, in the same order on both hosts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import muntin as mt
from muntin.hosts.local.pipelines import LocalPipelines
from muntin.spark.pipelines import SparkPipelines
from muntin.sql.script import compile_pipeline

pytestmark = pytest.mark.slow

CLICKS = [
    {"page": "home", "n": 1, "ts": "2026-01-01 09:00:10"},
    {"page": "cart", "n": 2, "ts": "2026-01-01 09:00:20"},
    {"page": "home", "n": "no number", "ts": "2026-01-01 09:00:30"},
]
TABLES = """
CREATE TABLE clicks (
    page STRING, twice AS n * 2, n BIGINT, ts TIMESTAMP(3),
    WATERMARK FOR ts AS ts MAX AHEAD ANY, PRIMARY KEY (page) NOT ENFORCED
) WITH ('connector' = 'json', 'path' = '{path}');
CREATE TABLE buys (page STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts MAX AHEAD ANY)
WITH ('connector' = 'json', 'path' = '{path}');
"""
OWN = ["page", "twice", "n", "ts"]
BOUNDS = ["window_start", "window_end", "window_time"]
EMITTED = ["emission", "revision"]
ARGUMENTS = "DESCRIPTOR(ts), INTERVAL '5' MINUTES"
TUMBLE = f"TABLE(TUMBLE(TABLE clicks, {ARGUMENTS}))"
NUMBER = "ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC) AS rn"
NEAR = "c.page = b.page AND b.ts BETWEEN c.ts AND c.ts + INTERVAL '5' SECOND"
STATEMENTS = {
    f"SELECT * FROM {TUMBLE}": [*OWN, *BOUNDS, "row_number", *EMITTED],
    f"SELECT * FROM TABLE(HOP(TABLE clicks, {ARGUMENTS}, INTERVAL '10' MINUTES))": [
        *OWN, *BOUNDS, "row_number", *EMITTED,
    ],
    f"SELECT * FROM TABLE(CUMULATE(TABLE clicks, {ARGUMENTS}, INTERVAL '10' MINUTES))": [
        *OWN, *BOUNDS, "row_number", *EMITTED,
    ],
    f"SELECT * FROM TABLE(SESSION(TABLE clicks PARTITION BY page, {ARGUMENTS}))": [
        *OWN, *BOUNDS, "row_number", *EMITTED,
    ],
    f"SELECT *, n + 1 AS more FROM {TUMBLE}": [*OWN, *BOUNDS, "more", "row_number", *EMITTED],
    f"SELECT * FROM (SELECT *, {NUMBER} FROM {TUMBLE}) WHERE rn <= 2": [
        *OWN, *BOUNDS, "rn", *EMITTED,
    ],
    "WITH v AS (SELECT *, upper(page) AS big FROM clicks WHERE n > 0) "
    f"SELECT * FROM {TUMBLE.replace('clicks', 'v')}": [
        *OWN, "big", *BOUNDS, "row_number", *EMITTED,
    ],
    f"SELECT * FROM clicks c JOIN buys b ON {NEAR}": [*OWN, "page_right", "ts_right", "emission"],
    f"SELECT * FROM clicks c LEFT SEMI JOIN buys b ON {NEAR}": [*OWN, "emission"],
    "SELECT * FROM clicks JOIN buys OVER (ORDER BY ts RANGE INTERVAL '5' SECOND PRECEDING) "
    "USING (page)": [
        *OWN, "ts_right", "emission",
    ],
}  # fmt: skip


def write_clicks(folder: Path) -> str:
    (folder / "in").mkdir()
    (folder / "in" / "clicks.jsonl").write_text("\n".join(map(json.dumps, CLICKS)))
    return str(folder / "in")


@pytest.mark.parametrize("statement", STATEMENTS)
def test_star_is_that_of_flink(spark: SparkSession, tmp_path: Path, statement: str) -> None:
    script = TABLES.format(path=write_clicks(tmp_path)) + statement
    local = mt.sql(script, host="local")
    assert list(local.plan.output_schema) == STATEMENTS[statement]
    assert mt.sql(spark, script).results.columns == STATEMENTS[statement]


def test_star_of_a_frame_has_all_of_its_columns(spark: SparkSession) -> None:
    frame = pl.DataFrame({"page": ["home"], "malformed": ["own"], "ts": ["2026-01-01 09:00:10"]})
    statement = f"SELECT * FROM {TUMBLE}"
    shown = ["page", "malformed", "ts", *BOUNDS, "row_number", *EMITTED]
    local = mt.sql(statement, clicks=frame).results
    assert local.columns == shown
    rows = mt.sql(spark, statement, clicks=spark.createDataFrame(frame.to_arrow())).results
    assert rows.columns == shown
    (row,) = rows.selectExpr("unix_millis(window_time) AS last").collect()
    assert local["window_time"].dt.epoch("ms").to_list() == [row["last"]]


@pytest.mark.parametrize("host", ["local", "spark"])
def test_star_is_inserted_into_the_table_that_flink_has(
    spark: SparkSession, tmp_path: Path, host: str
) -> None:
    path = write_clicks(tmp_path)
    script = f"""
        {TABLES.format(path=path)}
        SET checkpoint = '{tmp_path}/checkpoint';
        SET trigger = 'available now';
        CREATE TABLE wide (
            page STRING, twice BIGINT, n BIGINT, ts TIMESTAMP(3),
            window_start TIMESTAMP(3), window_end TIMESTAMP(3), window_time TIMESTAMP(3)
        ) WITH ('connector' = 'parquet', 'path' = '{tmp_path}/wide');
        INSERT INTO wide SELECT * FROM {TUMBLE} EMIT EARLY EACH;
    """
    pipelines: Any = LocalPipelines() if host == "local" else SparkPipelines(spark)
    (query,) = pipelines.start(compile_pipeline(script), {})
    assert query.await_end(60)
    rows = pl.read_parquet(f"{tmp_path}/wide/**/*.parquet").sort("n")
    good = rows.filter(pl.col("n").is_not_null()).select("page", "twice", "n")
    assert good.rows() == [("home", 2, 1), ("cart", 4, 2)]
