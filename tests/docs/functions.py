"""Writes the page that lists the clauses and functions of SQL, by host."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from muntin.hosts.local.sql_functions import FUNCTIONS
from muntin.hosts.local.sql_text_functions import TEXT_FUNCTIONS
from muntin.hosts.local.sql_time_functions import TIME_FUNCTIONS
from muntin.model.aggregates.entry import ENTRIES
from muntin.sql.foreign_functions import REPLACEMENTS

PAGE = Path(__file__).parents[2] / "docs" / "sql-functions.md"


class Clause(NamedTuple):
    """A clause with a statement that has it, and whether this process runs it."""

    name: str
    sample: str
    local: bool = True
    note: str = ""


_TVF = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"
_BY = "GROUP BY k, TUMBLE(ts, INTERVAL '1' MINUTE)"
_N = "SELECT k, count(*) AS n"
_WINDOWS = f"({_N}, window_start, window_end FROM {_TVF} GROUP BY k, window_start, window_end) w"
_OVER = "OVER (PARTITION BY window_start, window_end ORDER BY v)"

CLAUSES = [
    Clause("`TUMBLE`, `HOP`, `CUMULATE`, `SESSION` in `FROM TABLE(…)`",
           f"{_N} FROM {_TVF} GROUP BY k, window_start, window_end"),
    Clause("`TUMBLE`, `HOP`, `CUMULATE`, `SESSION` in `GROUP BY`",
           f"{_N} FROM t GROUP BY k, SESSION(ts, INTERVAL '1' MINUTE)"),
    Clause("Spark's `window(…)`, `session_window(…)`",
           f"{_N} FROM t GROUP BY k, window(ts, '1 minute')"),
    Clause("Calcite's `FLOOR(ts TO HOUR)`, `CEIL`", f"{_N} FROM t GROUP BY k, FLOOR(ts TO HOUR)"),
    Clause("ksqlDB's `WINDOW TUMBLING (SIZE …)`, `WINDOWSTART`, `WINDOWEND`",
           "SELECT k, WINDOWSTART, count(*) AS n FROM t WATERMARK ts DELAY OF 0 SECONDS "
           "WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY k",
           note="`WINDOWEND` of a session is its last message, as in ksqlDB; `window_end` is a gap "
           "later."),
    Clause("`EMIT EARLY …`, `EMIT LATE … GRACE …`, `EMIT CHANGES`, `EMIT FINAL`",
           f"{_N} FROM t {_BY} EMIT EARLY EACH"),
    Clause("`WHERE`, `HAVING`", f"{_N} FROM t WHERE v > 1 {_BY} HAVING count(*) > 0"),
    Clause("`FILTER (WHERE …)`", f"SELECT k, sum(v) FILTER (WHERE v > 1) AS s FROM t {_BY}"),
    Clause("`GROUPING SETS`, `ROLLUP`, `CUBE`",
           f"{_N} FROM t GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), ROLLUP (k)"),
    Clause("`GROUP BY window_start, window_end` of windows",
           f"SELECT max(n) AS n FROM {_WINDOWS} GROUP BY window_start, window_end"),
    Clause("`ROW_NUMBER`, `RANK`, `DENSE_RANK` in windows, `QUALIFY`",
           f"SELECT k, v, RANK() {_OVER} AS r FROM {_TVF} QUALIFY r <= 3",
           note="With a limit. All columns order equal rows."),
    Clause("`SELECT *` of a window function", f"SELECT * FROM {_TVF}"),
    Clause("aggregates `OVER (… RANGE … PRECEDING)`, `OVER (… ROWS … PRECEDING)`",
           "SELECT k, v, sum(v) OVER (PARTITION BY k ORDER BY ts RANGE INTERVAL '1' MINUTE "
           "PRECEDING) AS s FROM t"),
    Clause("`JOIN` of streams with a bound in time",
           "SELECT a.k, b.v FROM t a JOIN t b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + "
           "INTERVAL '1' MINUTE"),
    Clause("`WITH`, `CREATE VIEW`, queries over queries",
           f"WITH w AS (SELECT *, v + 1 AS u FROM t) SELECT k, sum(u) AS u FROM w {_BY}"),
    Clause("`UNION ALL` of messages",
           f"{_N} FROM (SELECT k, ts FROM t UNION ALL SELECT k, ts FROM t) {_BY}"),
    Clause("`VALUES`, and `JOIN` of messages with a table that doesn't change",
           "SELECT name, count(*) AS n FROM t JOIN (VALUES ('a', 'A')) AS s(id, name) "
           "ON t.k = s.id GROUP BY name, TUMBLE(ts, INTERVAL '1' MINUTE)",
           note="In this process with at least one equality, and a frame as the table."),
    Clause("`IN (SELECT …)`, `EXISTS` over such a table",
           f"{_N} FROM t WHERE k IN (SELECT id FROM (VALUES 'a') AS s(id)) {_BY}"),
    Clause("`NOT IN (SELECT …)` over such a table",
           f"{_N} FROM t WHERE k NOT IN (SELECT id FROM (VALUES 'a') AS s(id)) {_BY}", False),
    Clause("`JOIN` of windows with a table that doesn't change",
           f"SELECT w.k, name FROM {_WINDOWS} JOIN (VALUES ('a', 'A')) AS s(id, name) "
           "ON w.k = s.id", False),
    Clause("`ORDER BY`, `LIMIT` of finite inputs", f"{_N} FROM t {_BY} ORDER BY n DESC LIMIT 3"),
]  # fmt: skip

# Functions whose name is the same in another engine, and whose meaning isn't.
DIFFERENT = [
    ("`AVG` of integers", "an integer in Flink", "a `double`; write `CAST(avg(x) AS BIGINT)`"),
    ("`REGEXP_EXTRACT` without a match", "NULL in Flink",
     "an empty text; `… IS NOT NULL` is refused"),
    ("`window_time`, `TUMBLE_ROWTIME`", "a millisecond before the end in Flink",
     "the same; a microsecond before it for Spark's `window_time(window)`"),
    ("`LAST_VALUE`, `FIRST_VALUE`", "by arrival in Flink", "`last(x)`, `first(x)` by event time"),
    ("`x / y` of integers", "an integer in Flink and ksqlDB", "a `double`"),
    ("`TO_TIMESTAMP_LTZ(x)`", "milliseconds in Flink", "refused: write `TO_TIMESTAMP_LTZ(x, 3)`"),
    ("`DATE_FORMAT` in `GROUP BY`", "a group that never ends in Flink",
     "refused: group by a window, and show `date_format(window_start, …)`"),
]  # fmt: skip


def render_page() -> str:
    """Return the text of the page."""
    parts = [
        "# Clauses and functions of SQL\n\n"
        "The clauses and functions of `mt.sql`, pipelines and the shell, and the hosts that run "
        "them. Anything else is an error that shows its line.\n\n"
        "## Clauses\n\n| clause | on Spark | in this process | |\n| --- | --- | --- | --- |\n"
    ]
    for clause in CLAUSES:
        here = "yes" if clause.local else "no"
        parts.append(f"| {clause.name} | yes | {here} | {clause.note} |\n")
    parts.append(
        "\n## Aggregates\n\nBoth hosts compute the same aggregates. Each has its [types of values "
        "and results](aggregates.md#which-aggregate-takes-which-types).\n\n"
        "| in SQL | in Python |\n| --- | --- |\n"
    )
    for name, entry in sorted(ENTRIES.items()):
        sql = entry.sql
        calls = [f"`{call.lower()}(…)`" for call in sql.names]
        calls += [f"`{call.lower()}(DISTINCT …)`" for call in sql.distinct]
        calls += [f"`{call.lower()}(…) WITHIN GROUP (ORDER BY …)`" for call in sql.within]
        if calls:
            parts.append(f"| {', '.join(calls)} | `{name}` |\n")
    others = FUNCTIONS.keys() - TIME_FUNCTIONS.keys() - TEXT_FUNCTIONS.keys()
    times, texts, rest = (
        ", ".join(f"`{name}`" for name in sorted(names))
        for names in (TIME_FUNCTIONS, TEXT_FUNCTIONS, others)
    )
    parts.append(
        "\n## Functions of a row\n\nSpark takes every function of Spark SQL. This process takes "
        "the functions that mean the same in Polars and Spark:\n\n"
        f"| of | functions |\n| --- | --- |\n| times | {times} |\n| texts | {texts} |\n"
        f"| numbers, conditions and structs | {rest} |\n\n"
        "It also takes comparisons, arithmetic, `AND`, `OR`, `NOT`, `IN`, `BETWEEN`, `LIKE`, `IS`, "
        "`CASE`, casts without loss, and times `+ INTERVAL` of less than a day.\n\n"
        "## The same name with another meaning\n\n"
        "| function | elsewhere | here |\n| --- | --- | --- |\n"
    )
    parts += [f"| {name} | {elsewhere} | {here} |\n" for name, elsewhere, here in DIFFERENT]
    parts.append(
        "\n## Another name\n\nThese functions of Flink and ksqlDB are refused. The error names the "
        "replacement.\n\n| function | replacement |\n| --- | --- |\n"
    )
    parts += [f"| `{name}` | `{sql}` |\n" for name, sql in sorted(REPLACEMENTS.items())]
    parts.append("| `PROCTIME` | `current_timestamp()` in a view, the time of the batch |\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(render_page())
