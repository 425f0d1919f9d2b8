"""Tests that SQL expressions have the same values on the local host and on Spark."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import muntin as mt
from muntin.hosts.local.expressions import UnportableError, parse_sql_expression
from muntin.hosts.local.sql_functions import FUNCTIONS
from muntin.model.errors import OptionError

pytestmark = pytest.mark.slow

_MOST = 2**63 - 1
_TYPES = (
    "n long, i int, x double, f float, s string, b boolean, d decimal(10, 2), t timestamp, "
    "w timestamp_ntz, day date, p struct<a: long, q: struct<Name: string>>"
)
_SCHEMA = {
    "n": pl.Int64(), "i": pl.Int32(), "x": pl.Float64(), "f": pl.Float32(), "s": pl.String(),
    "b": pl.Boolean(), "d": pl.Decimal(10, 2), "t": pl.Datetime("us", "UTC"),
    "w": pl.Datetime("us"), "day": pl.Date(),
    "p": pl.Struct({"a": pl.Int64(), "q": pl.Struct({"Name": pl.String()})}),
}  # fmt: skip


def _row(n: Any, i: Any, x: Any, s: Any, b: Any, d: Any, t: Any) -> tuple[Any, ...]:
    """Return a row, whose other values are computed from these."""
    moment = None if t is None else datetime.fromisoformat(f"{t}+00:00")
    nested = None if n is None else {"a": n, "q": {"Name": s}}
    day = None if t is None else date.fromisoformat(t[:10])
    local = None if t is None else datetime.fromisoformat(t)
    return n, i, x, x, s, b, None if d is None else Decimal(d), moment, local, day, nested


_ROWS = [
    _row(1, 1, 1.5, "ab", True, "1.00", "2026-01-01T00:00:00"),
    _row(-2, -7, math.nan, "AB ", False, "-0.01", "1969-12-31T23:59:59.999999"),
    _row(0, 0, -0.0, " b%", None, "0.00", "2026-03-29T01:30:00.000001"),
    _row(None, None, None, None, True, None, None),
    _row(3, 2**31 - 1, math.inf, "", False, "99999999.99", "9999-12-31T00:00:00"),
    _row(2, -(2**31), 0.0, "a_b", None, "2.50", "0001-01-02T00:00:00"),
    _row(_MOST, 5, -math.inf, "ß İ ΑΣ ŉ ﬁ", True, "1.50", "2026-10-25T00:30:00"),
    _row(-_MOST - 1, -5, 5e-324, "\t\u00a0a\n", False, "-99999999.99", "1970-01-01T00:00:00"),
    _row(2**53 + 1, 7, 2.0**53, "😀e\u0301b", True, "0.10", "1900-01-01T00:00:00"),
    _row(-1, 12, 0.1, "\ud7ff\ue000'", False, "12.34", "2026-01-01T00:00:00.123456"),
]  # fmt: skip
TEXTS = [
    "n > 1", "N <= 2 AND n <> 0", "n = 1 OR b", "NOT b", "NOT (n > 0 AND b)", "b OR n IS NULL",
    "n IS NOT NULL AND s IS NULL", "n IN (1, 2)", "n NOT IN (1, 2)", "n IN (1, NULL)",
    "n NOT IN (1, NULL)", "n BETWEEN 0 AND 2", "n NOT BETWEEN 0 AND 2", "n = i", "n <=> i",
    "n IS DISTINCT FROM i", "n IS NOT DISTINCT FROM NULL", "b IS TRUE", "b IS NOT FALSE",
    "n > 1.5", "i < 0.5", "n = 9007199254740993", "n = x", "n > x", "i >= x", "x > 1", "x = 0",
    "x <> 0", "x >= 1.5 OR x < -1", "x = x", "x > 1e300", "f > 1.5", "f = x", "f = 0.1", "x = 0.1",
    "x <=> NULL", "s = 'ab'", "s < 'b'", "s >= '\ue000'", "s LIKE 'a%'", "s LIKE '%b_'",
    "s NOT LIKE '%b%'", "s LIKE '_e_b'", "s LIKE '%'", "s IN ('ab', '')", "s = \"ab\"",
    "s LIKE '%''%'", "'it''s'", "b = true", "b <> FALSE", "d > 1", "d = 1.5", "d <= 0.005",
    "d = d", "d < n", "n % 3", "i % 5", "n % -7", "(n % 1000) * 2 + 1", "(n % 1000) + 1 > 2",
    "(n % 100) * (i % 100) - 1", "- (n % 9)", "-1.5 < x", "x * 2 + n", "x - 0.1", "x / 3", "n / 2",
    "i / 1000", "x / 0.1", "f * f", "abs(n % 9)", "abs(x) > 1", "abs(i % 9)", "coalesce(n, 7)",
    "coalesce(i, n)", "coalesce(n, x)", "coalesce(s, 'none')", "coalesce(NULL, b)", "nvl(n, 0)",
    "ifnull(s, 'x')", "nullif(s, 'ab')", "nullif(n, 1)", "if(n > 0, 'more', s)", "lower(s)",
    "upper(s)", "ltrim(s)", "rtrim(s)", "trim(s)", "length(s)", "substring(s, 2)",
    "substring(s, 1, 2)", "substring(s, 3, 0)", "concat(s, '-', s)", "s || '!'",
    "concat(s, NULL)", "startswith(s, 'a')", "endswith(s, 'b')", "startswith(s, '')",
    "CASE WHEN n > 1 THEN 'many' WHEN n = 1 THEN 'one' ELSE s END", "CASE WHEN b THEN n END",
    "CASE WHEN n < 100 AND n > -100 THEN n * n END", "CASE i WHEN 1 THEN 2 WHEN 5 THEN n END",
    "CASE WHEN b THEN i ELSE x END", "n < 100 AND n > 0 AND n + 1 > 2", "`n` >= 1 AND TRUE",
    "p.a > 0", "p.q.name", "P.Q.Name = 'ab'", "CAST(i AS BIGINT)", "CAST(n AS STRING)",
    "CAST(i AS DOUBLE)", "CAST(n AS DOUBLE)", "CAST(s AS STRING)", "CAST(NULL AS INT)",
    "CAST(w AS STRING)", "CAST(CASE WHEN x > -9 AND x < 9 THEN x END AS BIGINT)",
    "t = t", "t >= TIMESTAMP '2026-01-01T00:00:00Z'", "t < TIMESTAMP '1970-01-01 02:00:00+02:00'",
    "w < w", "day > DATE '2026-01-01'", "day IN (DATE '1970-01-01')", "timestamp_millis(i)",
    "timestamp_millis(n % 1000000000000)", "timestamp_seconds(i)", "timestamp_seconds(-1)",
    "timestamp_micros(n % 1000000007)", "unix_millis(t)", "unix_seconds(t)", "unix_micros(t)",
    "nullif(i, 5) IS NULL", "5L + n % 3", "(i % 3) * 3000000000", "coalesce(b, n > 0)",
    "named_struct('a', n, 'b', s || '!')", "t + INTERVAL '30' MINUTE",
    "t - t", "t - timestamp_millis(i)", "w - w", "t > '2026-01-01'", "t <= '2026-01-01 10:00'",
    "t > '1970-01-01T02:00:00.5+02:00'", "w >= '2026-01-01 09:00:00'", "day IN ('1970-01-01')",
    "t BETWEEN '1960-01-01' AND TIMESTAMP '2026-01-01 00:00:00'", "'2026-01-01' < day",
    "t - INTERVAL '0.000001' SECOND", "w - INTERVAL 2 HOURS", "w + INTERVAL '-1.5' SECONDS = w",
    "year(t)", "quarter(day)", "month(w)", "weekofyear(day)", "day(t)", "dayofmonth(w)",
    "dayofyear(t)", "dayofweek(t)", "weekday(day)", "hour(t)", "minute(w)", "second(t)",
    "EXTRACT(HOUR FROM w)", "extract(dow FROM t)", "EXTRACT(WEEK FROM day) = 1",
    "try_to_timestamp(s)", "to_timestamp('2026-01-01 09:00:00.5')",
    "date_format(t, 'yyyy-MM-dd HH:mm:ss.SSSSSS')", "date_format(w, 'E d MMM y, h:mm a')",
    "date_format(day, 'yy/M/d D Q')", "split(s, 'b')", "split(s, ' ')", "unix_timestamp(t)",
    "to_timestamp(substring(CAST(w AS STRING), 1, 16), 'yyyy-MM-dd HH:mm')",
    *(f"round(x, {number})" for number in (1, 2, 5, 15)), "round(x)", "round(n)", "round(i, 2)",
    "floor(CASE WHEN isnan(x) OR abs(x) < 9 THEN x END)",
    "ceil(CASE WHEN x > -9 AND x < 9 THEN x END)", "ceiling(n)",
    "floor(i)", "mod(n, 7)", "mod(i, -3)", "pmod(n, 7)",
    "pmod(i, 5)", "sqrt(x)", "sqrt(i)", "greatest(n, i)", "least(i, n, 5)", "greatest(x, 0.5D)",
    "least(x, f)", "greatest(s, 'b')", "least(t, timestamp_seconds(0))", "greatest(day, NULL)",
    "coalesce(x, 0.0)", "greatest(x, 2.5)", "CASE WHEN b THEN f ELSE 1.5 END", "n::string",
    "i::bigint + 1", "b::int::double",
    "position('b' IN s)", "position('a' IN lower(s)) > 0",
    "least(x, NULL, 2.5D) > 0", "isnan(x)", "isnull(s)", "isnotnull(n)", "nvl2(s, n, i)",
    "nvl2(b, 'yes', s)", "char_length(s)", "concat_ws('-', s, 'x', s)", "concat_ws('', s, NULL)",
    "contains(s, 'b')", "contains(s, '')", "contains(s, s)", "instr(s, 'b')", "locate('b', s)",
    "position('B', s)", "instr(s, '😀e')", "lcase(s)", "ucase(s)", "left(s, 2)", "left(s, 0)",
    "right(s, 2)", "right(s, 0)", "lpad(s, 4, '*')", "lpad(s, 1)", "rpad(s, 5)", "rpad(s, 3, '😀')",
    "lpad(s, 0, 'x')", "replace(s, 'b')", "replace(s, 'b', '$1.')", "replace(s, '', 'x')",
    "substr(s, 2, 1)", "split_part(s, 'b', 1)", "split_part(s, 'b', 2)", "split_part(s, ' ', -1)",
    "split_part(s, 'b', -3)", "split_part(s, 'no', 1)",
    *(f"date_trunc('{unit}', t)" for unit in
      ("microsecond", "MILLISECOND", "second", "minute", "HOUR", "day", "week", "month", "quarter",
       "year")),
    "to_date(t)", "to_date(w)", "date(day)", "date(t) = day", "last_day(day)", "last_day(t)",
    "datediff(t, day)", "datediff(DATE '2026-03-01', w)", "date_sub(day, 1)",
    "date_add(DATE '2026-02-28', 1)", "date_part('HOUR', t)", "date_part('doy', day)",
    "from_unixtime(n % 100000000000)", "from_unixtime(i, 'yyyy-MM')", "CAST(b AS INT)",
    "TRY_CAST(s AS INT)", "TRY_CAST(s AS DOUBLE)", "try_cast(n AS STRING)",
    "CAST(CASE WHEN n = 1 THEN '+12' WHEN n = 0 THEN ' -7\t' END AS BIGINT)",
    "CAST(CASE WHEN n = 1 THEN '1.25' WHEN n = 0 THEN ' -.5e3 ' WHEN n = 2 THEN '7.' END "
    "AS DOUBLE)",
    *(f"TRY_CAST('{text}' AS {kind})" for kind in ("INT", "BIGINT", "DOUBLE") for text in
      ("12", "+3", "-0", "1.5", "", "+", "1e3", "9999999999", "1_0", "0x1", "99999999999999999999",
       "٣", "1 2", "--1", "1e400", ".", "e5")),
    "to_timestamp(CASE WHEN n > 0 THEN '2026-03-29T01:30:00+02:00' ELSE '2026-03-29' END)",
]  # fmt: skip
# Parts that are refused, each by its name.
REFUSED = {
    "round(d)": "round()", "round(x, -1)": "round() to", "round(f)": "round()", "md5(s)": "md5()",
    "round(x, i)": "round() to", "greatest(b, b)": "greatest() of", "floor(d)": "floor()",
    "sqrt(d)": "sqrt() of decimal", "pmod(n, -2)": "pmod() by", "instr(s, '')": "instr() of",
    "lpad(s, 3, 'ab')": "lpad() with", "replace(s, s)": "replace() with",
    "left(s, n)": "left() with",
    "split_part(s, 'b', 0)": "split_part() without", "isnan(n)": "isnan() of integer",
    "date_trunc('era', t)": "date_trunc() by", "date_trunc('day', w)": "date_trunc() by",
    "date_add(day, n)": "date_add() of", "from_unixtime(x)": "from_unixtime() of float",
    "to_date(s)": "to_date() of a text (here to_date() of to_timestamp(x)",
    "TRY_CAST(x AS INT)": "TRY_CAST(float AS INT)",
    "CAST(s AS DATE)": "CAST(string AS DATE)",
    "cuont(*)": "cuont() (did you mean count()?)", "lenght(s)": "lenght() (did you mean length()?)",
    "power(x, 2)": "power(), which", "t - w": "- of timestamp and timestamp_ntz",
    "n::map": "CAST(integer AS MAP)", "coalesce(x, d)": "coalesce of",
    "n / i": "/ by what may be 0", "s > 1": "> of",
    "s RLIKE 'a'": "'RLIKE'",
    "s LIKE s": "LIKE with a pattern", "s = 'a\\n'": "a backslash", "n + 1.5": "+ of",
    "f + i": "single precision", "d * 2": "* of",
    "CAST(n AS INT)": "CAST(integer AS INT)", "date_format(t, 'G')": "'G' of a time pattern",
    "t > w": "> of", "EXTRACT(SECOND FROM t)": "EXTRACT(SECOND)",
    "CAST(t AS STRING)": "CAST(timestamp AS STRING)",
    "t > s": "> of timestamp and string (here to_timestamp(x) and a literal",
    "t > '2026-W01'": "the text '2026-W01' beside timestamp",
    "day > '2026-01-01 10:00'": "the text '2026-01-01 10:00' beside date",
    "n; DROP": "';'",
    "t > TIMESTAMP 'soon'": "TIMESTAMP 'soon'", "t + INTERVAL 1 DAY": "INTERVAL",
    "n * n * n": "a product of so many", "substring(s, n)": "substring() with", "(n > 1": "no )",
    "CASE WHEN b THEN s ELSE n END": "CASE of", "NOT n": "NOT of integer", "n +": "no end",
}  # fmt: skip


def _plain(value: Any) -> Any:
    """Convert a value of either side to a form that can be compared."""
    if isinstance(value, Row):
        return value.asDict()
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, float) and value == 0:
        return 0.0
    return value


def _compute_on_spark(frame: DataFrame, text: str) -> list[Any]:
    """Return Spark's values; times as microseconds, independent of Python's zone."""
    kind = frame.selectExpr(f"{text} AS c").schema["c"].dataType.simpleString()
    expression = {"timestamp": f"unix_micros({text})"}.get(kind, text)
    rows: list[Row] = frame.selectExpr(f"{expression} AS c").collect()
    return [_plain(row["c"]) for row in rows]


def _compute_locally(frame: pl.DataFrame, text: str) -> list[Any]:
    series = frame.select(parse_sql_expression(frame.schema, "where", text)).to_series()
    if isinstance(series.dtype, pl.Datetime) and series.dtype.time_zone:
        series = series.to_physical()
    # A text without columns has one value.
    values = series.to_list() * (len(frame) if len(series) == 1 else 1)
    return [*map(_plain, values)]


def test_sql_text_means_the_same(spark: SparkSession) -> None:
    frame = pl.DataFrame(_ROWS, schema=_SCHEMA, orient="row")
    on_spark = spark.createDataFrame(frame.to_arrow(), _TYPES).coalesce(1).cache()
    different = {}
    for text in TEXTS:
        expected = _compute_on_spark(on_spark, text)
        try:
            local_values = _compute_locally(frame, text)
        except (OptionError, pl.exceptions.PolarsError) as error:
            local_values = [str(error)] * len(expected)
        if local_values != expected:
            different[text] = [*zip(local_values, expected, strict=True)]
    assert different == {}


@pytest.mark.parametrize("text", REFUSED)
def test_what_differs_is_refused_by_name(text: str) -> None:
    with pytest.raises(UnportableError, match=re.escape(REFUSED[text])):
        parse_sql_expression(pl.Schema(_SCHEMA), "where", text)


# A list comes from an aggregate, so that a statement below tries array_join.
@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - {"array_join"}))
def test_each_function_is_tried(name: str) -> None:
    assert any(f"{name}(" in text for text in TEXTS)


def test_a_result_that_leaves_its_type_is_an_error() -> None:
    frame = pl.DataFrame({"n": [_MOST]})
    assert frame.filter(parse_sql_expression(frame.schema, "where", "n + 1 > 5")).height == 1
    with pytest.raises(pl.exceptions.InvalidOperationError):
        frame.select(parse_sql_expression(frame.schema, "agg", "n + 1"))


def test_a_moment_out_of_range_is_null() -> None:
    frame = pl.DataFrame({"n": [_MOST, 1000]})
    moments = frame.select(parse_sql_expression(frame.schema, "agg", "timestamp_millis(n)"))
    assert moments.to_series().to_list() == [None, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)]


CLICKS = [
    ("home", "ann", 3, "2026-01-01T09:00:10"),
    ("home", "bob", 5, "2026-01-01T09:07:00"),
    ("cart", "ann", 1, "2026-01-01T09:08:30"),
    ("cart", None, None, "2026-01-01T09:12:00"),
    (None, "ann", 2, "2026-01-01T09:31:00"),
    ("home", "cid", 8, "2026-01-01T09:59:59"),
]
STATEMENTS = [
    """SELECT page, array_join(collect_list(user), ', ') AS users FROM clicks
       GROUP BY page, TUMBLE(ts, INTERVAL 5 MINUTES)""",
    """SELECT page, count(*) AS n, sum(v) AS v FROM clicks
       GROUP BY page, HOP(ts, INTERVAL 5 MINUTES, INTERVAL 10 MINUTES)""",
    """SELECT upper(page) AS shown, window_end, max(v * 2) AS most, avg(v) / 2 AS half
       FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '10' MINUTE))
       WHERE user <> 'bob' GROUP BY upper(page), window_start, window_end
       HAVING count(*) > 0 AND max(v) IS NOT NULL""",
    """SELECT user, count(*) AS n FROM clicks GROUP BY user, SESSION(ts, INTERVAL 10 MINUTES)""",
    """SELECT user, sum(v) FILTER (WHERE page = 'home') AS v, min_by(page, v) AS first
       FROM clicks GROUP BY user, CUMULATE(ts, INTERVAL 20 MINUTES, INTERVAL 1 HOUR)""",
    """WITH bright AS (SELECT *, v + 1 AS w, lower(user) AS who FROM clicks WHERE v > 1)
       SELECT who, sum(w) AS w FROM bright GROUP BY who, TUMBLE(ts, INTERVAL 1 HOUR)""",
    """WITH small AS (SELECT page, window_end, count(*) AS n FROM clicks
         GROUP BY page, TUMBLE(ts, INTERVAL 10 MINUTES))
       SELECT page, sum(n) AS n, count(*) AS windows FROM small
       GROUP BY page, TUMBLE(window_end, INTERVAL 1 HOUR)""",
    """SELECT page, user, count(*) AS n FROM clicks
       GROUP BY TUMBLE(ts, INTERVAL 1 HOUR), GROUPING SETS ((page, user), (page), ())""",
    """SELECT a.page, a.v AS one, b.v + a.v AS both FROM clicks a JOIN clicks b
       ON a.user = b.user AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 30 MINUTES WHERE a.v < 5""",
    """SELECT a.page, b.page AS other, b.v FROM clicks a LEFT JOIN clicks b USING (user)
       AND b.ts BETWEEN a.ts - INTERVAL 5 MINUTES AND a.ts""".replace(
        " USING (user)\n       AND", " ON a.user = b.user AND"
    ),
]


def _sort(rows: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows), key=repr)


@pytest.mark.parametrize("statement", STATEMENTS, ids=range(len(STATEMENTS)))
def test_statements_give_the_same_rows_on_both_hosts(spark: SparkSession, statement: str) -> None:
    kinds = {"page": pl.String(), "user": pl.String(), "v": pl.Int64(), "ts": pl.String()}
    rows = pl.DataFrame(CLICKS, schema=kinds, orient="row")
    clicks = rows.with_columns(pl.col("ts").str.to_datetime(time_unit="us"))
    on_spark = spark.createDataFrame(clicks.to_arrow())
    local_results = mt.sql(statement, clicks=clicks).results
    spark_results = mt.sql(spark, statement, clicks=on_spark).results
    assert local_results.columns == spark_results.columns
    assert _sort(local_results.rows()) == _sort(spark_results.collect())


def test_a_declared_table_takes_references(
    spark: SparkSession, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.json").write_text('{"k": "a", "at": "2026-01-01T00:00:00Z"}\n')
    monkeypatch.setenv("MUNTIN_IN", str(tmp_path))
    statement = (
        "CREATE TABLE c (k STRING, at TIMESTAMP) WITH (connector = 'json', mode = 'batch', "
        "path = '${env:MUNTIN_IN}'); "
        "SELECT k, count(*) AS n FROM c GROUP BY k, TUMBLE(at, INTERVAL 1 MINUTE)"
    )
    assert [row.n for row in mt.sql(spark, statement).results.collect()] == [1]
    assert mt.sql(statement).results["n"].to_list() == [1]
