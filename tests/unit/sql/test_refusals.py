"""Tests that a refusal marks its place in the text and names a statement that works."""

from __future__ import annotations

import pytest
from tests.unit.sql.twins import get_refusal

import muntin as mt
from muntin.sql.api import compile_aggregate, compile_pipeline

HOUR = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 HOUR))"
G = "GROUP BY k, window_start, window_end"
OVER = "(PARTITION BY k ROWS 2 PRECEDING)"

CASES = [
    ("SELEC k", "the statements are SELECT", "SELEC"),
    ("SELECT k FROM", "isn't a name of a table", "^"),
    ("SELECT FROM t", "FROM stands in place of a column", "FROM"),
    ("SELECT k, FROM t", "FROM stands in place of a column", "FROM"),
    ("SELECT k FROM t GROUP", "isn't understood here", "GROUP"),
    ("SELECT k, 'open FROM t", "a quote or a comment doesn't end", None),
    ("SELECT k FROM t; SELECT k FROM t", "give one query", "SELECT k"),
    (
        f"WITH w AS (SELECT k FROM {HOUR} {G}), v AS (SELECT k FROM w) SELECT k FROM v",
        "selects from a query over windows",
        "SELECT k",
    ),
    ("SELECT k FROM t OFFSET FOR (p, o)", "not by offset; read the table without", "SELECT k"),
    (f"SELECT k FROM {HOUR} {G} x", "isn't understood here", "x"),
    ("SELECT k FROM range(10)", "isn't a table function", "("),
    (f"SELECT k FROM {HOUR.replace('(ts)', '(PROCTIME())')} {G}", "by processing time", "PROCTIME"),
    ("SELECT k FROM TABLE(SLIDE(TABLE t, DESCRIPTOR(ts), 1 HOUR))", "isn't a window func", "SLIDE"),
    ("SELECT k, count(*) FROM t GROUP BY k", "so this needs windows", "count(*)"),
    (
        "SELECT k, count(*) FROM t WHERE mz_now() <= ts + INTERVAL '1' HOUR GROUP BY k",
        "trailing(",
        "mz_now() <= ts + INTERVAL '1' HOUR",
    ),
    (
        "SELECT k, count(*) FROM t WHERE ts > now() - INTERVAL 1 HOUR GROUP BY k",
        "look-back from",
        "ts > now() - INTERVAL 1 HOUR",
    ),
    (
        "SELECT k, sum(v) FROM t WHERE ts > current_timestamp - INTERVAL 1 DAY GROUP BY k",
        "trailing(",
        "ts > current_timestamp - INTERVAL 1 DAY",
    ),
    (f"SELECT k, mz_now() AS n FROM {HOUR} {G}", "look-back from now", "mz_now()"),
    (f"SELECT STREAM k, v FROM {HOUR} {G}", "isn't one value in a group", "v"),
    (f"SELECT STREAM * FROM {HOUR} {G}", "isn't a column of a group", "*"),
    ("SELECT FLOOR(ts TO DAY), k FROM t GROUP BY FLOOR(ts TO DAY), k", "rounds to hours", "DAY"),
    ("SELECT k FROM t GROUP BY TUMBLE(ts, 1 HOUR, TIME '0-12'), k", "isn't a time of", "'0-12'"),
    (
        "SELECT k FROM t WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k",
        "no column of event times; write WATERMARK",
        "WINDOW TUMBLING (SIZE 1 HOUR)",
    ),
    (
        "SELECT k FROM t WATERMARK ts DELAY OF 1 HOUR WINDOW HOPPING (SIZE 1 HOUR) GROUP BY k",
        "a comma is missing",
        ")",
    ),
    (
        "SELECT k FROM t WATERMARK ts DELAY OF 1 HOUR WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD "
        "1 HOUR) GROUP BY k EMIT CHANGES GRACE 2 HOURS",
        "WINDOW appears twice",
        "GRACE 2 HOURS",
    ),
    (
        "SELECT * FROM a JOIN b WITHIN 1 HOUR ON a.id = b.id "
        "AND a.ts BETWEEN b.ts - INTERVAL 1 HOUR AND b.ts",
        "the join has two bounds",
        "WITHIN 1 HOUR",
    ),
    ("SELECT * FROM a JOIN b WITHIN 3 ROWS ON a.id = b.id", "isn't a duration", "3 ROWS"),
    (f"SELECT k, v * FROM {HOUR} {G}", "something is missing here", None),
    (f"SELECT stream, k FROM {HOUR} {G}", "isn't one value in a group", "stream"),
    (
        "CREATE TABLE t (id INT, PRIMARY KEY (id)) WITH (a = 1)",
        "write PRIMARY KEY (id) NOT ENFORCED",
        "PRIMARY KEY (id)",
    ),
    (
        "CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH (a = 1)",
        "write PRIMARY KEY NOT ENFORCED",
        "PRIMARY KEY",
    ),
    (
        "CREATE TABLE t (id INT, CONSTRAINT c PRIMARY KEY (di) NOT ENFORCED) WITH (a = 1)",
        "di isn't a column of the table",
        "di",
    ),
    (
        "CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, PRIMARY KEY (a) NOT ENFORCED) WITH (a=1)",
        "the table has two primary keys",
        "PRIMARY KEY",
    ),
    ("CREATE TABLE t (a INT, CONSTRAINT c b) WITH (a = 1)", "this isn't a constraint", "b"),
    (
        "CREATE TABLE r (c STRING, k INT, at TIMESTAMP, PRIMARY KEY (c, k) NOT ENFORCED, "
        "WATERMARK FOR at AS at) WITH (connector = 'json', path = 'r'); "
        "SELECT t.c FROM t WATERMARK ts DELAY OF 0 SECONDS "
        "JOIN r FOR SYSTEM_TIME AS OF t.ts ON t.c = r.c",
        "identified by (c, k), the primary key of r, and ON compares (c)",
        "JOIN r FOR SYSTEM_TIME AS OF t.ts ON t.c = r.c",
    ),
    (
        f"SELECT k, count(*) AS n FROM t /*+ OPTIONS('scan.startup.mode'='latest-offset') */ {G}",
        "hints aren't supported",
        "/*+ OPTIONS('scan.startup.mode'='latest-offset') */",
    ),
    (f"SELECT /*+ BROADCAST(t) */ k FROM t {G}", "hints aren't supported", "/*+ BROADCAST(t) */"),
    (f'SELECT "k" FROM {HOUR} GROUP BY "k", window_start, window_end', "write `k`", '"k"'),
    (f"SELECT k, HISTOGRAM(v) AS h FROM {HOUR} {G}", "histogram isn't one here", "v"),
    (
        "SELECT k FROM t GROUP BY k, TUMBLE(ts, 1 HOUR) WITH ROLLUP",
        r"ROLLUP (a, b) or CUBE (a, b)",
        "WITH",
    ),
    ("SELECT * FROM t PARTITION BY k EMIT CHANGES", "keys of GROUP BY", "PARTITION BY"),
    (
        "SELECT k FROM t WATERMARK ts DELAY OF 1 HOUR WHERE v > 0 WINDOW TUMBLING (SIZE 1 HOUR) "
        "GROUP BY k",
        "write it directly behind the table",
        "WINDOW TUMBLING (SIZE 1 HOUR)",
    ),
    ("CREATE TABLE t (id INT NOT NULL UNIQUE) WITH (a = 1)", "isn't enforced", "UNIQUE"),
    (
        "CREATE TABLE t (a INT, FOREIGN KEY (a) REFERENCES b) WITH (a = 1)",
        "isn't enforced",
        "FOREIGN KEY",
    ),
    (
        "CREATE TABLE t (a INT, CONSTRAINT c CHECK (a > 1)) WITH (a = 1)",
        "isn't enforced",
        "CHECK",
    ),
    (
        "SELECT k FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), 1 HOUR)) "
        f"WHERE v > 0 AND k = 'a' {G}",
        "before WHERE, and would change by it; filter before: WITH v AS",
        "v > 0 AND k = 'a'",
    ),
    (
        f"SELECT k FROM TABLE(TUMBLE(TABLE t, 3 ROWS)) WHERE v > 0 {G}",
        "rows are counted in FROM",
        "v > 0",
    ),
    (
        f"SELECT k FROM TABLE(SESSION(TABLE t, DESCRIPTOR(ts), 1 HOUR)) WHERE rand() < 0.5 {G}",
        "sessions are formed in FROM",
        "rand() < 0.5",
    ),
    (
        f"SELECT k FROM {HOUR} WHERE v > 0 AND window_start > '2026-01-01' {G}",
        "put this condition into HAVING",
        "window_start",
    ),
    ("SELECT k FROM t EMIT EARLY EACH", "rows without windows have no tr", "EMIT EARLY EACH"),
    (
        f"SELECT k, max(v) AS m FROM {HOUR} {G} EMIT EARLY WHEN m IS NULL",
        "only takes comparisons",
        "WHEN m IS NULL",
    ),
    (
        f"SELECT k, max(v) AS m FROM {HOUR} {G} EMIT EARLY WHEN window_end > 3",
        "neither an aggregate nor",
        "WHEN window_end > 3",
    ),
    (
        "SELECT * FROM a JOIN b WITHIN 1 HOUR ON a.id = b.id EMIT EARLY WHEN n > 3",
        "no aggregates",
        "WHEN n > 3",
    ),
    ("SELECT DISTINCT k FROM t", "DISTINCT would remember every row", "SELECT DISTINCT k"),
    (f"SELECT k, count(*) FROM {HOUR} GROUP BY k", "add window_start, window_end", "GROUP BY k"),
    (
        f"SELECT k, count(*) FROM {HOUR} GROUP BY k, window_start",
        "add window_end to GROUP BY",
        "GROUP BY k, window_start",
    ),
    (f"SELECT k, v FROM {HOUR} {G}", "add it to GROUP BY, or write an aggregate of it", "v"),
    (f"SELECT * FROM {HOUR} {G}", "* isn't a column of a group", "*"),
    (f"SELECT k, corr(a, b) FROM {HOUR} {G}", "corr isn't computed in windows", "corr(a, b)"),
    (
        f"SELECT k, listagg(a, ',') FROM {HOUR} {G}",
        "array_join(collect_list(x), ', ')",
        "listagg(a, ',')",
    ),
    (
        f"SELECT k, percentile(a, 0.5) FROM {HOUR} {G}",
        "write exact_quantile(x, 0.5)",
        "percentile(a, 0.5)",
    ),
    (f"SELECT k, sum(max(a)) FROM {HOUR} {G}", "an aggregate within an aggregate", "max(a)"),
    (f"SELECT k, avg(DISTINCT a) FROM {HOUR} {G}", "avg takes no DISTINCT", "avg(DISTINCT a)"),
    (f"SELECT k, sum(*) FROM {HOUR} {G}", "takes a column, not *", "sum(*)"),
    (f"SELECT k, sum(a, b) FROM {HOUR} {G}", "takes one argument, not 2", "sum(a, b)"),
    (f"SELECT k, quantile(a, 2) FROM {HOUR} {G}", "q isn't a rank", "quantile(a, 2)"),
    (f"SELECT k, quantile(a, q) FROM {HOUR} {G}", "a plain number", "quantile(a, q)"),
    (
        f"SELECT k, first(a) FILTER (WHERE b) FROM {HOUR} {G}",
        "put the condition into WHERE",
        "first(a) FILTER (WHERE b)",
    ),
    (
        f"SELECT k, last(a) IGNORE NULLS FILTER (WHERE b) FROM {HOUR} {G}",
        "FILTER stands behind IGNORE NULLS or RESPECT NULLS",
        "FILTER",
    ),
    (
        f"SELECT k, sum(a) IGNORE NULLS FROM {HOUR} {G}",
        "sum takes no IGNORE NULLS",
        "sum(a) IGNORE NULLS",
    ),
    (f"SELECT k, count(*) a, sum(x) a FROM {HOUR} {G}", "two columns are called a", "sum(x)"),
    (f"SELECT k, sum(x) AS k FROM {HOUR} {G}", "two columns are called k", "sum(x)"),
    (f"SELECT sum(x) AS k FROM {HOUR} {G}", "k is a column of the output already", "sum(x)"),
    (
        f"SELECT k, sum(x) AS window_end FROM {HOUR} {G}",
        "window_end is a column of the output already",
        "sum(x)",
    ),
    (f"SELECT DISTINCT k, count(*) FROM {HOUR} {G}", "DISTINCT isn't needed", None),
    (
        f"SELECT n FROM (SELECT k, count(*) AS n FROM {HOUR} {G} ORDER BY k) LIMIT 5",
        "aren't supported within a query",
        "ORDER BY k",
    ),
    (f"SELECT k, count(*) FROM {HOUR} {G} LIMIT x", "a number of rows", "x"),
    (f"SELECT k, count(*) FROM {HOUR} {G} ORDER BY 3", "there is no column 3", "3"),
    (f"SELECT k, count(*) FROM {HOUR} {G} ORDER BY count(*)", "no name to order by", "count(*)"),
    (f"SELECT k, count(*) FROM {HOUR} {G} LIMIT 5 OFFSET 2", "OFFSET isn't supported", "OFFSET"),
    (f"SELECT k, count(*) FROM {HOUR} {G} UNION SELECT 1", "remember every row", "UNION"),
    (
        f"SELECT k FROM u UNION ALL SELECT k, count(*) FROM {HOUR} {G}",
        "this query's results can't be united",
        "SELECT k, count(*)",
    ),
    (
        f"SELECT k, sum(n) FROM (SELECT k, ts FROM t UNION ALL SELECT k, count(*) FROM {HOUR} {G})",
        "this query's results can't be united",
        "SELECT k, count(*)",
    ),
    (
        "CREATE TABLE u (k STRING) WITH (connector = postgres, create = 'never'); SELECT k FROM t",
        "the value of connector isn't in quotes; write connector = 'postgres'",
        "postgres",
    ),
    ("SELECT k FROM t LIMIT 2 UNION ALL SELECT k FROM u", "stand in front of UNION ALL", "LIMIT 2"),
    (
        "SELECT k FROM (SELECT k FROM t UNION ALL SELECT k FROM u LIMIT 2)",
        "aren't supported within a query",
        "LIMIT 2",
    ),
    (f"SELECT k, (SELECT 1) FROM {HOUR} {G}", "a query within an expression", "(SELECT 1)"),
    ("SELECT count(*) FROM t GROUP BY 3, TUMBLE(ts, 1 HOUR)", "from 1 to 1", "3"),
    (
        "SELECT TUMBLE_START(ts, 1 HOUR) FROM t GROUP BY TUMBLE(ts, 2 HOURS)",
        "one kind of windows",
        "TUMBLE_START(ts, 1 HOUR)",
    ),
    ("SELECT TUMBLE_START(ts, 1 HOUR), count(*) FROM t", "add TUMBLE(ts, 1 HOUR) to GROUP", None),
    (
        "SELECT count(*) FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), 1 MONTH, 1 YEAR)) " + G,
        "a step can't have months",
        "1 MONTH",
    ),
    (
        f"SELECT count(*) FROM {HOUR.replace('1 HOUR', '10')} {G}",
        "can't take this",
        "10",
    ),
    (
        f"SELECT count(*) FROM {HOUR.replace('1 HOUR', 'size')} {G}",
        "TUMBLE can't take this",
        "size",
    ),
    (
        f"SELECT count(*) FROM {HOUR.replace('1 HOUR', '0 HOURS')} {G}",
        "size is zero",
        "0 HOURS",
    ),
    (
        f"SELECT count(*) FROM {HOUR.replace('1 HOUR', '1 HOUR, SLIDE => 1 MINUTE')} {G}",
        "TUMBLE has no argument SLIDE",
        "SLIDE => 1 MINUTE",
    ),
    (
        f"SELECT count(*) FROM {HOUR.replace('1 HOUR', '1 HOUR, `SLIDE` => 1 MINUTE')} {G}",
        "TUMBLE has no argument SLIDE",
        "`SLIDE` => 1 MINUTE",
    ),
    (
        f"SELECT count(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 'size' => 1 HOUR)) {G}",
        "this isn't the name of an argument",
        "'size'",
    ),
    (
        f"SELECT count(*) FROM {HOUR.replace('TUMBLE', 'HOP')} {G}",
        "HOP has no size",
        "HOP(TABLE t, DESCRIPTOR(ts), 1 HOUR)",
    ),
    (
        "SELECT count(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 10 MINUTES, "
        f"INTERVAL '-4' MONTH)) {G}",
        "month has no fixed length",
        None,
    ),
    ("SELECT k, x FROM t LATERAL VIEW explode(xs) AS x", "LATERAL isn't supported", "LATERAL"),
    ("SELECT k, x FROM t CROSS JOIN UNNEST(xs) AS u(x)", "explode(tags) AS tag", "UNNEST"),
    ("SELECT k, x FROM t, UNNEST(xs) AS u(x)", "UNNEST isn't supported", "UNNEST"),
    ("SELECT k, x FROM t NATURAL JOIN u", "a join needs equal columns", "NATURAL"),
    (
        "SELECT date_trunc('hour', ts) AS h, count(*) FROM t GROUP BY h",
        "group by TUMBLE(ts, INTERVAL '1' HOUR)",
        "date_trunc('hour', ts)",
    ),
    (
        "SELECT time_bucket(INTERVAL '5' MINUTE, ts), count(*) FROM t GROUP BY 1",
        "group by TUMBLE(ts, INTERVAL '5' MINUTE)",
        "time_bucket(INTERVAL '5' MINUTE, ts)",
    ),
    (
        f"SELECT k, array_agg(a ORDER BY x) FROM {HOUR} {G}",
        "takes no ORDER BY",
        "array_agg(a ORDER BY x)",
    ),
    (
        f"SELECT count(*) FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), 2 HOURS, 1 HOUR)) {G}",
        "slide is greater than the size 1 hour",
        "2 HOURS",
    ),
    (
        f"SELECT count(*) FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), 7 MINUTES, 1 HOUR)) {G}",
        "step doesn't divide 1 hour",
        "7 MINUTES",
    ),
    (
        f"SELECT count(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 1 DAY, ZONE => 'Mars')) {G}",
        "zone isn't a known time zone",
        "ZONE => 'Mars'",
    ),
    (
        f"SELECT count(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), 3 ROWS)) {G}",
        "isn't needed by windows measured in rows",
        "DESCRIPTOR(ts)",
    ),
    (f"SELECT count(*) FROM TABLE(TUMBLE(TABLE t, 1 HOUR)) {G}", "has no time column", None),
    (f"SELECT count(*) FROM TABLE(TUMBLE(DESCRIPTOR(ts), 1 HOUR)) {G}", "names no table", None),
    (
        f"SELECT k FROM TABLE(SESSION(TABLE t PARTITION BY u, DESCRIPTOR(ts), 1 HOUR)) {G}",
        "this key of the sessions isn't in GROUP BY; add it to GROUP BY",
        "u",
    ),
    (
        "SELECT k FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), 1 HOUR)) "
        "GROUP BY k, page, window_start, window_end",
        "this key isn't in the PARTITION BY of the sessions; add it there",
        "page",
    ),
    (
        "SELECT k, upper(page) AS p "
        "FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), 1 HOUR)) "
        "GROUP BY k, 2, window_start, window_end",
        "this key isn't in the PARTITION BY of the sessions",
        "2",
    ),
    (
        f"SELECT k FROM TABLE(SESSION(TABLE t, 3 ROWS)) {G}",
        "gap counts messages of other keys too",
        "3 ROWS",
    ),
    (f"SELECT k FROM {HOUR} {G} EMIT", "EMIT has no clause", "^"),
    (f"SELECT k FROM {HOUR} {G} EMIT SOON", "EMIT has no clause", "SOON"),
    (f"SELECT k FROM {HOUR} {G} EMIT EARLY", "write EVERY 5 SECONDS", "^"),
    (f"SELECT k FROM {HOUR} {G} EMIT EARLY EACH THEN", "write EVERY 5 SECONDS", "^"),
    (f"SELECT k FROM {HOUR} {G} EMIT EARLY EACH THEN SOON", "EACH THEN EVERY 1 MINUTE", "SOON"),
    (
        f"SELECT k, max(v) AS m FROM {HOUR} {G} EMIT EARLY EACH THEN WHEN m IS NULL",
        "only takes comparisons",
        "WHEN m IS NULL",
    ),
    (f"SELECT k FROM {HOUR} {G} EMIT EARLY EVERY 5", "a period needs a unit", "5"),
    (f"SELECT k FROM {HOUR} {G} EMIT EARLY EVERY 0 ROWS", "1 or more", "0"),
    (
        f"SELECT k FROM {HOUR} {G} EMIT EARLY EVERY 2 ROWS OR 3 ROWS",
        "two periods of one kind",
        "3 ROWS",
    ),
    (f"SELECT k FROM {HOUR} {G} EMIT EARLY EVERY 2 ROWS OR EACH", "", "EACH"),
    (f"SELECT k FROM {HOUR} {G} EMIT LATE EACH", "add for example GRACE", "LATE EACH"),
    (f"SELECT k FROM {HOUR} {G} EMIT EARLY OVER 0 WINDOWS", "windows that may wait", "0"),
    (f"SELECT k FROM {HOUR} {G} EMIT EARLY OVER 5 ROWS", "where WINDOWS should", "ROWS"),
    (f"SELECT k FROM {HOUR} {G} EMIT FILL UP TO 1 DAY", "FILL has no value", "UP"),
    (f"SELECT k FROM {HOUR} {G} EMIT FILL (m = 0, m = 1) UP TO 1 DAY", "names m twice", "m"),
    (f"SELECT k FROM {HOUR} {G} EMIT FILL (m = x) UP TO 1 DAY", "can't fill a window", "x"),
    (
        f"SELECT k FROM {HOUR} {G} EMIT FILL (m = 0) UP TO 1 DAY",
        "fill names m, which is no aggregate; select an aggregate by itself",
        "FILL (m = 0) UP TO 1 DAY",
    ),
    (f"SELECT k FROM {HOUR} {G} EMIT GRACE 3 ROWS", "isn't measured in time", "3 ROWS"),
    (
        f"SELECT k FROM {HOUR} {G} EMIT GRACE 2 HOURS RETAIN 1 HOUR",
        "keep is below the grace 2 hours",
        "RETAIN 1 HOUR",
    ),
    (
        f"SELECT k FROM {HOUR} {G} EMIT ON CLOSE EARLY EACH",
        "can't be combined",
        "ON CLOSE",
    ),
    (f"SELECT k FROM {HOUR} {G} EMIT CHANGES EARLY EACH", "can't be combined", "EARLY EACH"),
    (f"SELECT k FROM {HOUR} {G} EMIT EARLY EACH EARLY EACH", "EARLY twice", "EARLY EACH"),
    (
        f"SELECT k FROM {HOUR} WATERMARK other DELAY OF 1 HOUR {G}",
        "the watermark follows other, the windows ts",
        None,
    ),
    (f"SELECT k FROM {HOUR} WATERMARK ts {G}", "stands where DELAY OF should", "GROUP BY"),
    ("SELECT k, sum(x) OVER (PARTITION BY k) FROM t", "kept indefinitely", None),
    (
        "SELECT k, sum(x) OVER (PARTITION BY k ROWS UNBOUNDED PRECEDING) FROM t",
        "a frame without a start grows forever",
        None,
    ),
    (
        "SELECT sum(x) OVER (ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM t",
        "ends neither with its row nor just before it",
        None,
    ),
    (
        "SELECT sum(x) OVER (ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING) FROM t",
        "ends neither with its row nor just before it",
        None,
    ),
    (
        "SELECT sum(x) OVER (ORDER BY ts RANGE 1 HOUR PRECEDING EXCLUDE CURRENT ROW) FROM t",
        "write EXCLUDE GROUP, or leave it out",
        None,
    ),
    (
        "SELECT sum(x) OVER (ORDER BY ts ROWS 2 PRECEDING) FROM t",
        "leave out ORDER BY, or use RANGE",
        None,
    ),
    (
        "SELECT x AS row_number, sum(x) OVER (ORDER BY ts RANGE 2 MINUTES PRECEDING) FROM t",
        "is the number of a row with the same key and time",
        "x",
    ),
    (
        "SELECT DISTINCT price, sum(x) OVER (ORDER BY ts RANGE 2 MINUTES PRECEDING) FROM t",
        "may differ in this",
        "price",
    ),
    (
        "SELECT sum(x) OVER (ORDER BY ts DESC RANGE 2 MINUTES PRECEDING) FROM t",
        "isn't ordered by the event time",
        None,
    ),
    (
        "SELECT sum(x) OVER (ORDER BY ts RANGE 2 PRECEDING) FROM t",
        "RANGE isn't measured in this",
        "2",
    ),
    (f"SELECT row_number() OVER {OVER} FROM t", "row_number takes no frame", None),
    (
        "SELECT *, row_number() OVER (PARTITION BY window_start, window_end ORDER BY n) AS r FROM "
        f"(SELECT k, window_start, window_end, count(*) AS n FROM {HOUR} {G} "
        "EMIT FILL LINEAR UP TO 1 DAY)",
        "fill emits windows with one end at different times",
        None,
    ),
    (
        f"SELECT sum(x) OVER {OVER}, max(x) OVER (ROWS 3 PRECEDING) FROM t",
        "one kind of",
        None,
    ),
    (
        "SELECT sum(x) OVER (ORDER BY ts RANGE 1 MINUTE PRECEDING), "
        "max(x) OVER (PARTITION BY k ORDER BY ts RANGE 2 MINUTES PRECEDING) FROM t",
        "let them differ only in their length",
        "max(x) OVER (PARTITION BY k ORDER BY ts RANGE 2 MINUTES PRECEDING)",
    ),
    (
        "SELECT sum(x) OVER (ORDER BY ts RANGE 1 HOUR PRECEDING), "
        "max(x) OVER (ORDER BY ts RANGE 0 SECONDS PRECEDING) FROM t",
        "is zero",
        "0 SECONDS",
    ),
    (
        "SELECT sum(x) OVER (ORDER BY ts RANGE 1 HOUR PRECEDING), "
        "max(x) OVER (ORDER BY ts RANGE UNBOUNDED PRECEDING) FROM t",
        "a frame without a start grows forever",
        None,
    ),
    ("SELECT sum(x) OVER w FROM t", "there is no window w", "sum(x) OVER w"),
    (
        f"SELECT k, sum(x) OVER {OVER} FROM t GROUP BY k",
        "can't be combined",
        None,
    ),
    (f"SELECT k, sum(x) OVER {OVER} FROM {HOUR} {G}", "can't be combined with GROUP BY", None),
    ("SELECT x FROM t GROUP BY TUMBLE(ts, 1 HOUR), ${x}", "stands outside of quotes", None),
    ("SELECT count(*) FROM t WHERE a = '${x}' GROUP BY TUMBLE(ts, 1 HOUR)", "--set x", "${x}"),
]


@pytest.mark.parametrize(("text", "problem", "at"), CASES, ids=[text for text, _, _ in CASES])
def test_refused(text, problem, at):
    message, marked = get_refusal(text)
    assert problem in message
    if at == "^":
        assert marked == ""
    elif at is not None:
        assert marked == at


def test_the_place_is_shown_with_its_line():
    with pytest.raises(mt.SqlError) as caught:
        compile_pipeline("SELECT\n\tk,\n\tcount(*\nFROM t")
    assert str(caught.value).splitlines()[1:] == ["  FROM t", "  ^^^^"]
    assert str(caught.value).startswith("line 4: ")


def test_deep_nesting_is_refused_not_crashed():
    deep = "(" * 400 + "x" + ")" * 400
    problem, _ = get_refusal(f"SELECT {deep} FROM t GROUP BY TUMBLE(ts, 1 HOUR)")
    assert "too deep" in problem
    problem, _ = get_refusal("SELECT " + "NOT " * 3000 + "x FROM t")
    assert "too deep" in problem


@pytest.mark.parametrize("text", ["delay", "avg(DISTINCT x)", "max(x) + 1", "max(x); min(x)", ""])
def test_an_aggregate_alone_is_nothing_else(text):
    with pytest.raises(mt.SqlError):
        compile_aggregate(text)


@pytest.mark.parametrize(
    ("call", "name", "meant"),
    [
        ("TUMBEL(ts, INTERVAL '1' MINUTE)", "TUMBEL", "TUMBLE"),
        ("tumbling(ts, INTERVAL '1' MINUTE)", "TUMBLING", "TUMBLE"),
        ("HOPP(ts, INTERVAL '1' MINUTE, INTERVAL '2' MINUTE)", "HOPP", "HOP"),
        ("sesion(ts, INTERVAL '1' MINUTE)", "SESION", "SESSION"),
        ("windw(ts, '1 minute')", "WINDW", "WINDOW"),
    ],
)
def test_a_misspelt_window_function_is_named(call, name, meant):
    message, marked = get_refusal(f"SELECT page, count(*) AS n FROM clicks GROUP BY page, {call}")
    assert message == f"line 1: {name} isn't a window function; did you mean {meant}?"
    assert marked == call
