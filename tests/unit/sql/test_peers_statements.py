"""Tests of the statements on windows that the documentation of other engines prints.

Each statement is accepted, some of them with their rows checked, or refused with a reason.
``docs/coming-from.md`` has the number of each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from muntin.model.aggregates import Aggregate
from muntin.model.errors import SqlError
from muntin.model.pipeline import Expression, WindowRelation
from muntin.model.sessions import Sessions
from muntin.sql.api import compile_query
from muntin.standalone import SessionAggregator, WindowedAggregator

DOCS = Path(__file__).parents[3] / "docs" / "coming-from.md"
TABLES = """
    CREATE TABLE bids (item STRING, seller STRING, price DECIMAL(10, 2), ts TIMESTAMP,
        WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE) WITH (connector = 'json', path = 'bids');
    CREATE TABLE asks (item STRING, buyer STRING, wish DECIMAL(10, 2), ts TIMESTAMP,
        WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE) WITH (connector = 'json', path = 'asks');
    CREATE TABLE goods (item STRING, kind STRING)
        WITH (connector = 'json', path = 'goods', mode = 'batch');
"""
BIDS = [
    ("pen", "ann", 4, "08:05"),
    ("ink", "bob", 2, "08:07"),
    ("pen", "ann", 5, "08:09"),
    ("ink", "bob", 3, "08:11"),
    ("pen", "cat", 1, "08:13"),
    ("ink", "dan", 6, "08:17"),
]


@dataclass(frozen=True)
class Printed:
    """A statement of another engine's documentation, and its outcome.

    Attributes:
        text: The statement.
        rows: Rows computed from ``BIDS``: keys, window starts and aggregates; ``None`` where the
            statement is only compiled.
        refused: Text of the refusal, if it is refused.
    """

    text: str
    rows: list[tuple[Any, ...]] | None = None
    refused: str | None = None


def refuse(text: str, refused: str) -> Printed:
    return Printed(text, refused=refused)


def accept(text: str, *rows: tuple[Any, ...]) -> Printed:
    return Printed(text, list(rows) or None)


TUMBLE = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES))"
ASKS = "TABLE(TUMBLE(TABLE asks, DESCRIPTOR(ts), INTERVAL '10' MINUTES))"
HOP = "TABLE(HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '5' MINUTES, INTERVAL '10' MINUTES))"
CUMULATE = (
    "TABLE(CUMULATE(TABLE bids, DESCRIPTOR(ts), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES))"
)
SESSION = "TABLE(SESSION(TABLE bids{by}, DESCRIPTOR(ts), INTERVAL '5' MINUTES))"
BY_NAME = "DATA => TABLE bids{by}, TIMECOL => DESCRIPTOR(ts)"
SHIFTED = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' MINUTES, INTERVAL '1' MINUTES))"
TOTAL = "SELECT window_start, window_end, SUM(price) AS total FROM {}"
BOUNDS = "GROUP BY window_start, window_end"
SAME = "l.window_start = r.window_start AND l.window_end = r.window_end"
NUMBERED = "ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY {}) AS rownum"
ROWS = "ts, price, item, seller, window_start, window_end"
BY_SELLER = [
    (None, 1, "08:00", 11), ("ann", 0, "08:00", 9), ("bob", 0, "08:00", 2),
    (None, 1, "08:10", 10), ("bob", 0, "08:10", 3), ("cat", 0, "08:10", 1), ("dan", 0, "08:10", 6),
]  # fmt: skip
HOUR = "RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW"
IN_L = "SELECT * FROM (SELECT * FROM {}) l WHERE"
OF_R = "FROM (SELECT * FROM {}) r WHERE"

FLINK_FUNCTIONS = [
    accept(f"SELECT * FROM {TUMBLE}"),
    accept(f"SELECT * FROM TABLE(TUMBLE({BY_NAME}, SIZE => INTERVAL '10' MINUTES))".format(by="")),
    accept(f"{TOTAL.format(TUMBLE)} {BOUNDS}", ("08:00", 11), ("08:10", 10)),
    accept(f"SELECT * FROM {HOP}"),
    accept(
        f"SELECT * FROM TABLE(HOP({BY_NAME}, SLIDE => INTERVAL '5' MINUTES, "
        "SIZE => INTERVAL '10' MINUTES))".replace("{by}", "")
    ),
    accept(
        f"{TOTAL.format(HOP)} {BOUNDS}",
        ("08:00", 11), ("08:05", 15), ("08:10", 10), ("08:15", 6),
    ),
    accept(f"SELECT * FROM {CUMULATE}"),
    accept(
        f"SELECT * FROM TABLE(CUMULATE({BY_NAME}, STEP => INTERVAL '2' MINUTES, "
        "SIZE => INTERVAL '10' MINUTES))".replace("{by}", "")
    ),
    accept(
        f"{TOTAL.format(CUMULATE)} {BOUNDS}",
        ("08:00", 4), ("08:00", 6), ("08:00", 11),
        ("08:10", 3), ("08:10", 4), ("08:10", 4), ("08:10", 10), ("08:10", 10),
    ),
    accept(f"SELECT * FROM {SESSION.format(by=' PARTITION BY item')}"),
    accept(
        f"SELECT * FROM TABLE(SESSION({BY_NAME}, GAP => INTERVAL '5' MINUTES))".format(
            by=" PARTITION BY item"
        )
    ),
    accept(
        f"SELECT window_start, window_end, item, SUM(price) AS total "
        f"FROM {SESSION.format(by=' PARTITION BY item')} GROUP BY item, window_start, window_end",
        ("pen", "08:05", 10), ("ink", "08:07", 5), ("ink", "08:17", 6),
    ),
    accept(f"SELECT * FROM {SESSION.format(by='')}"),
    accept(f"{TOTAL.format(SESSION.format(by=''))} {BOUNDS}", ("08:05", 21)),
    accept(f"SELECT * FROM {SHIFTED}"),
    accept(
        f"SELECT * FROM TABLE(TUMBLE({BY_NAME}, SIZE => INTERVAL '10' MINUTES, "
        "OFFSET => INTERVAL '1' MINUTES))".replace("{by}", "")
    ),
    accept(f"{TOTAL.format(SHIFTED)} {BOUNDS}", ("08:01", 11), ("08:11", 10)),
    refuse(
        "SELECT window_start, window_end, SUM(price) AS total FROM CUMULATE(TABLE bids, "
        "DESCRIPTOR(ts), INTERVAL '2' MINUTES, INTERVAL '10' MINUTES, INTERVAL '0' SECOND, true) "
        f"{BOUNDS}",
        "CUMULATE can't take this",
    ),
    refuse(
        f"{TOTAL}{BOUNDS}".format(
            f"CUMULATE({BY_NAME.format(by='')}, STEP => INTERVAL '2' MINUTES, SIZE => INTERVAL "
            "'10' MINUTES, `OFFSET` => INTERVAL '0' SECOND, EMITONLYONUPDATE => true) "
        ),
        "CUMULATE has no argument EMITONLYONUPDATE",
    ),
]  # fmt: skip
FLINK_WINDOWS = [
    accept(
        f"SELECT window_start, window_end, seller, SUM(price) AS total FROM {TUMBLE} "
        f"{BOUNDS}, GROUPING SETS ((seller), ())",
        *BY_SELLER,
    ),
    accept(
        f"SELECT window_start, window_end, seller, SUM(price) AS total FROM {TUMBLE} "
        f"{BOUNDS}, ROLLUP (seller)",
        *BY_SELLER,
    ),
    accept(
        f"SELECT window_start, window_end, item, seller, SUM(price) AS total FROM {TUMBLE} "
        f"{BOUNDS}, CUBE (seller, item)"
    ),
    accept(
        "CREATE VIEW five AS SELECT window_start AS five_start, window_end AS five_end, "
        "window_time AS rowtime, SUM(price) AS part "
        f"FROM {TUMBLE.replace('10', '5')} GROUP BY seller, window_start, window_end, window_time; "
        "SELECT window_start, window_end, SUM(part) AS total "
        f"FROM TABLE(TUMBLE(TABLE five, DESCRIPTOR(rowtime), INTERVAL '10' MINUTES)) {BOUNDS}"
    ),
    # Top-N and deduplication.
    accept(
        f"SELECT * FROM (SELECT *, {NUMBERED.format('price DESC')} FROM (SELECT window_start, "
        f"window_end, seller, SUM(price) AS price, COUNT(*) AS cnt FROM {TUMBLE} {BOUNDS}, seller"
        ")) WHERE rownum <= 3"
    ),
    accept(
        f"SELECT * FROM (SELECT {ROWS}, {NUMBERED.format('price DESC')} FROM {TUMBLE}) "
        "WHERE rownum <= 3"
    ),
    accept(
        f"SELECT * FROM (SELECT {ROWS}, {NUMBERED.format('ts DESC')} FROM {TUMBLE}) "
        "WHERE rownum <= 1"
    ),
    refuse(
        "SELECT item, price, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY ts "
        "ASC) AS row_num FROM bids) WHERE row_num = 1",
        "these rows aren't in windows of time",
    ),
    refuse(
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY item ORDER BY price DESC) AS "
        "row_num FROM bids) WHERE row_num <= 5",
        "these rows aren't in windows of time",
    ),
    refuse(
        "SELECT * FROM DEDUPLICATE_KEEP_FIRST(input => TABLE bids PARTITION BY item)",
        "DEDUPLICATE_KEEP_FIRST isn't a table function",
    ),
    # Group windows.
    accept(
        "SELECT seller, TUMBLE_START(ts, INTERVAL '1' DAY) AS w_start, SUM(price) FROM bids "
        "GROUP BY TUMBLE(ts, INTERVAL '1' DAY), seller",
        ("ann", "00:00", 9), ("bob", "00:00", 5), ("cat", "00:00", 1), ("dan", "00:00", 6),
    ),
    accept(
        "SELECT HOP_ROWTIME(ts, INTERVAL '12' HOUR, INTERVAL '1' DAY) AS rt, SUM(price) FROM bids "
        "GROUP BY HOP(ts, INTERVAL '12' HOUR, INTERVAL '1' DAY)",
        ("12:00", 21), ("00:00", 21),
    ),
    accept(
        "SELECT seller, SESSION_START(ts, INTERVAL '3' MINUTE) AS s, "
        "SESSION_ROWTIME(ts, INTERVAL '3' MINUTE) AS e, SUM(price) FROM bids "
        "GROUP BY SESSION(ts, INTERVAL '3' MINUTE), seller",
        ("ann", "08:05", 4), ("bob", "08:07", 2), ("ann", "08:09", 5), ("bob", "08:11", 3),
        ("cat", "08:13", 1), ("dan", "08:17", 6),
    ),
    refuse("SELECT COUNT(*) FROM bids", "a stream doesn't end, so this needs windows"),
    refuse(
        "SELECT seller, SUM(price) FROM bids GROUP BY GROUPING SETS ((seller), ())",
        "a stream doesn't end, so this needs windows",
    ),
]  # fmt: skip
FLINK_JOINS = [
    *(
        accept(
            "SELECT l.item AS l_item, r.item AS r_item, "
            "COALESCE(l.window_start, r.window_start) AS window_start "
            f"FROM (SELECT * FROM {TUMBLE}) l {how} JOIN (SELECT * FROM {ASKS}) r "
            f"ON l.item = r.item AND {SAME}"
        )
        for how in ("", "LEFT", "RIGHT", "FULL")
    ),
    accept(f"{IN_L.format(TUMBLE)} l.item IN (SELECT item {OF_R.format(ASKS)} {SAME})"),
    accept(
        f"{IN_L.format(TUMBLE)} EXISTS (SELECT * {OF_R.format(ASKS)} l.item = r.item AND {SAME})"
    ),
    refuse(
        f"{IN_L.format(TUMBLE)} l.item NOT IN (SELECT item {OF_R.format(ASKS)} {SAME})",
        "NOT IN is NULL as soon as one value is NULL",
    ),
    accept(
        f"{IN_L.format(TUMBLE)} NOT EXISTS (SELECT * {OF_R.format(ASKS)} l.item = r.item AND "
        f"{SAME})"
    ),
    accept(
        "SELECT * FROM bids b, asks a WHERE b.item = a.item AND b.ts BETWEEN a.ts - "
        "INTERVAL '4' HOUR AND a.ts"
    ),
    refuse("SELECT * FROM bids b INNER JOIN asks a ON b.item = a.item", "the join has no bound"),
    refuse("SELECT * FROM bids b LEFT JOIN asks a ON b.item = a.item", "the join has no bound"),
    refuse("SELECT * FROM bids b RIGHT JOIN asks a ON b.item = a.item", "the join has no bound"),
    refuse(
        "SELECT * FROM bids b FULL OUTER JOIN asks a ON b.item = a.item", "the join has no bound"
    ),
    accept(
        "SELECT b.item, b.price, r.wish FROM bids b LEFT JOIN asks FOR SYSTEM_TIME AS OF b.ts AS r "
        "ON b.item = r.item"
    ),
    refuse(
        "SELECT b.item, g.kind FROM bids AS b JOIN goods FOR SYSTEM_TIME AS OF b.proc_time AS g "
        "ON b.item = g.item",
        "the rows of g aren't versions: they have no event time",
    ),
    refuse(
        "SELECT price, wish FROM bids, LATERAL wishes(proc_time) WHERE item = wanted",
        "LATERAL isn't supported",
    ),
    refuse(
        "SELECT b.item, r.wish FROM bids AS b JOIN LATERAL SNAPSHOT(input => TABLE asks, "
        "on_time => DESCRIPTOR(ts)) AS r ON b.item = r.item",
        "LATERAL isn't supported",
    ),
    refuse(
        "SELECT item, tag FROM bids CROSS JOIN UNNEST(tags) AS t(tag)",
        "UNNEST isn't supported",
    ),
    refuse(
        "SELECT item, res FROM bids LEFT OUTER JOIN LATERAL parts(item) t(res) ON TRUE",
        "LATERAL isn't supported",
    ),
    refuse(
        "SELECT * FROM bids MATCH_RECOGNIZE (PARTITION BY item ORDER BY ts MEASURES a.price AS p "
        "PATTERN (a b) DEFINE a AS a.price > 1) AS m",
        "MATCH_RECOGNIZE isn't supported",
    ),
    # OVER.
    accept(
        "SELECT item, ts, price, SUM(price) OVER (PARTITION BY item ORDER BY ts "
        f"{HOUR}) AS one_hour FROM bids"
    ),
    refuse(
        "SELECT item, ts, price, SUM(price) OVER (PARTITION BY item ORDER BY ts "
        "ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS ten FROM bids",
        "ROWS counts rows in the order of arrival",
    ),
    accept(
        "SELECT item, ts, price, SUM(price) OVER w AS total, AVG(price) OVER w AS mean FROM bids "
        f"WINDOW w AS (PARTITION BY item ORDER BY ts {HOUR})"
    ),
]
HOURLY = "GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), item"
COUNTED = (
    "SELECT STREAM TUMBLE_END(ts, INTERVAL '1' HOUR) AS rowtime, item, COUNT(*) AS c, "
    f"SUM(price) AS su FROM bids {HOURLY}"
)
BOTH = [("ink", "08:00", 3, 11), ("pen", "08:00", 3, 10)]
OFTEN = "WHERE c > 3 OR su > 10"
CALCITE = [
    accept("SELECT STREAM * FROM bids"),
    accept("SELECT * FROM bids"),
    accept("SELECT STREAM * FROM goods"),
    accept("SELECT STREAM * FROM bids WHERE price > 3"),
    accept("SELECT STREAM ts, item, price FROM bids"),
    accept(
        "SELECT STREAM CEIL(ts TO HOUR) AS rowtime, item, COUNT(*) AS c, SUM(price) AS su "
        "FROM bids GROUP BY CEIL(ts TO HOUR), item",
        *BOTH,
    ),
    accept(
        "SELECT STREAM FLOOR(ts TO HOUR) AS rowtime, item, COUNT(*) AS c, SUM(price) AS su "
        "FROM bids GROUP BY FLOOR(ts TO HOUR), item",
        *BOTH,
    ),
    accept(COUNTED, *BOTH),
    accept(
        "SELECT STREAM TUMBLE_END(ts, INTERVAL '30' MINUTE, TIME '0:12') AS rowtime, item, "
        "COUNT(*) AS c FROM bids GROUP BY TUMBLE(ts, INTERVAL '30' MINUTE, TIME '0:12'), item",
        ("ink", "07:42", 2), ("pen", "07:42", 2), ("ink", "08:12", 1), ("pen", "08:12", 1),
    ),
    accept(
        "SELECT STREAM HOP_END(ts, INTERVAL '1' HOUR, INTERVAL '3' HOUR) AS rowtime, "
        "COUNT(*) AS c, SUM(price) AS su FROM bids "
        "GROUP BY HOP(ts, INTERVAL '1' HOUR, INTERVAL '3' HOUR)",
        ("06:00", 6, 21), ("07:00", 6, 21), ("08:00", 6, 21),
    ),
    accept(
        "SELECT STREAM HOP_END(ts, INTERVAL '1:30' HOUR TO MINUTE, INTERVAL '2' HOUR, "
        "TIME '0:12') AS rowtime, COUNT(*) AS c FROM bids "
        "GROUP BY HOP(ts, INTERVAL '1:30' HOUR TO MINUTE, INTERVAL '2' HOUR, TIME '0:12')",
        ("06:12", 4), ("07:42", 6),
    ),
    accept(
        "SELECT STREAM TUMBLE_END(ts, INTERVAL '1' HOUR) AS rowtime, item FROM bids "
        f"{HOURLY} HAVING COUNT(*) > 3 OR SUM(price) > 10"
    ),
    accept(f"SELECT STREAM rowtime, item FROM ({COUNTED}) {OFTEN}"),
    accept(
        f"CREATE VIEW hourly (at, thing, c, su) AS {COUNTED}; "
        f"SELECT STREAM at, thing FROM hourly {OFTEN}"
    ),
    accept(
        f"WITH hourly (at, thing, c, su) AS ({COUNTED}) "
        f"SELECT STREAM at, thing FROM hourly {OFTEN}"
    ),
    accept(
        "SELECT STREAM ts, item, SUM(price) OVER (ORDER BY ts RANGE INTERVAL '1' HOUR PRECEDING) "
        "AS last_hour FROM bids"
    ),
    accept(
        "SELECT STREAM ts, item, AVG(price) OVER product AS m10, AVG(price) OVER week AS m7 "
        "FROM bids WINDOW product AS (PARTITION BY item ORDER BY ts "
        "RANGE INTERVAL '10' MINUTE PRECEDING), week AS (PARTITION BY item ORDER BY ts "
        "RANGE INTERVAL '7' DAY PRECEDING)"
    ),
    refuse(
        "SELECT STREAM ts, item, SUM(price) OVER (PARTITION BY FLOOR(ts TO HOUR)) AS s FROM bids",
        "without a frame every row would be kept",
    ),
    refuse(f"{COUNTED} ORDER BY rowtime", "ORDER BY would never end"),
    refuse("SELECT STREAM * FROM bids ORDER BY ts", "ORDER BY would never end"),
    accept("SELECT STREAM ts, item FROM bids UNION ALL SELECT STREAM ts, item FROM asks"),
    accept("SELECT STREAM o.ts, o.item, p.kind FROM bids AS o JOIN goods AS p ON o.item = p.item"),
    accept(
        "SELECT STREAM o.ts, o.item, s.ts AS shiptime FROM bids AS o JOIN asks AS s "
        "ON o.item = s.item AND s.ts BETWEEN o.ts AND o.ts + INTERVAL '1' HOUR"
    ),
    accept("SELECT STREAM * FROM (VALUES (1, 'a'))"),
]  # fmt: skip
LATE = "RETENTION 7 DAYS, GRACE PERIOD 30 MINUTES"
EACH_ONE = [
    ("ann", "08:05", 1), ("bob", "08:07", 1), ("ann", "08:09", 1), ("bob", "08:11", 1),
    ("cat", "08:13", 1), ("dan", "08:17", 1),
]  # fmt: skip
NEAR = "SELECT b.item, b.price, a.wish FROM bids b {} ON b.item = a.item EMIT CHANGES"
KSQLDB = [
    accept(
        "SELECT item, COUNT(*) AS n FROM bids WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY item "
        "EMIT CHANGES",
        ("ink", "08:00", 3), ("pen", "08:00", 3),
    ),
    accept(
        f"SELECT seller, TOPK(price, 5) FROM bids WINDOW TUMBLING (SIZE 1 HOUR, {LATE}) "
        "GROUP BY seller EMIT CHANGES",
        ("ann", "08:00", [5, 4]), ("bob", "08:00", [3, 2]), ("cat", "08:00", [1]),
        ("dan", "08:00", [6]),
    ),
    accept(
        "SELECT seller, COUNT(*) FROM bids WINDOW HOPPING (SIZE 30 SECONDS, ADVANCE BY 10 SECONDS) "
        "WHERE UCASE(item) = 'PEN' AND LCASE(seller) LIKE '%_6' GROUP BY seller EMIT CHANGES"
    ),
    accept(
        "SELECT seller, COUNT(*) FROM bids WINDOW HOPPING (SIZE 30 SECONDS, ADVANCE BY 10 SECONDS, "
        f"{LATE}) GROUP BY seller EMIT CHANGES"
    ),
    accept(
        "SELECT seller, COUNT(*) FROM bids WINDOW SESSION (60 SECONDS) GROUP BY seller "
        "EMIT CHANGES",
        *EACH_ONE,
    ),
    accept(
        f"SELECT seller, COUNT(*) FROM bids WINDOW SESSION (60 SECONDS, {LATE}) GROUP BY seller "
        "EMIT CHANGES",
        *EACH_ONE,
    ),
    accept(
        "SELECT seller, WINDOWSTART AS wstart, WINDOWEND AS wend, COUNT(*) AS n FROM bids "
        "WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 1 DAY) GROUP BY seller EMIT FINAL",
        ("ann", "08:00", 2), ("bob", "08:00", 2), ("cat", "08:00", 1), ("dan", "08:00", 1),
    ),
    accept(
        "SELECT seller, COUNT(*) AS n FROM bids WINDOW TUMBLING (SIZE 5 MINUTES) WHERE price > 1 "
        "GROUP BY seller HAVING COUNT(*) > 3 EMIT CHANGES"
    ),
    accept(
        "SELECT seller, LATEST_BY_OFFSET(price) AS x FROM bids WINDOW TUMBLING (SIZE 1 HOUR) "
        "GROUP BY seller EMIT CHANGES"
    ),
    accept(
        "SELECT seller, COUNT_DISTINCT(item) AS items FROM bids WINDOW TUMBLING (SIZE 1 HOUR) "
        "GROUP BY seller EMIT CHANGES"
    ),
    refuse(
        "CREATE TABLE totals AS SELECT seller, SUM(price) AS total FROM bids "
        "WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY seller EMIT CHANGES",
        "CREATE TABLE ... AS SELECT isn't supported",
    ),
    accept(NEAR.format("INNER JOIN asks a WITHIN 7 DAYS")),
    accept(NEAR.format("LEFT JOIN asks a WITHIN (1 HOUR, 2 HOURS) GRACE PERIOD 15 MINUTES")),
    accept(NEAR.format("FULL OUTER JOIN asks a WITHIN 1 HOUR GRACE PERIOD 15 MINUTES")),
    refuse(
        f"CREATE STREAM both AS {NEAR.format('INNER JOIN asks a WITHIN 7 DAYS')}",
        "CREATE STREAM isn't supported",
    ),
    accept("SELECT b.item, g.kind FROM bids b LEFT JOIN goods g ON b.item = g.item EMIT CHANGES"),
    refuse(
        "SELECT seller, COUNT(*) FROM bids GROUP BY seller EMIT CHANGES", "so this needs windows"
    ),
]  # fmt: skip
PER_ITEM = "SELECT item, {0}.start, {0}.end, count(*) AS cnt FROM bids GROUP BY item, {1}"
WITHIN = "ON b.item = a.item AND a.ts >= b.ts AND a.ts <= b.ts + interval 1 hour"
SPARK = [
    accept(
        PER_ITEM.format("window", "window(ts, '5 minutes')"),
        ("ink", "08:05", 1), ("pen", "08:05", 2), ("ink", "08:10", 1), ("pen", "08:10", 1),
        ("ink", "08:15", 1),
    ),
    accept(
        PER_ITEM.format("window", "window(ts, '10 minutes', '5 minutes')"),
        ("ink", "08:00", 1), ("pen", "08:00", 2), ("ink", "08:05", 2), ("pen", "08:05", 3),
        ("ink", "08:10", 2), ("pen", "08:10", 1), ("ink", "08:15", 1),
    ),
    accept(
        PER_ITEM.format("window", "window(ts, '1 hour', '1 hour', '15 minutes')"),
        ("ink", "07:15", 2), ("pen", "07:15", 3), ("ink", "08:15", 1),
    ),
    accept(
        PER_ITEM.format("session_window", "session_window(ts, '5 minutes')"),
        ("pen", "08:05", 3), ("ink", "08:07", 2), ("ink", "08:17", 1),
    ),
    accept(
        "SELECT count(*) FROM bids GROUP BY window(ts, '10 minutes'), item",
        ("ink", "08:00", 1), ("pen", "08:00", 2), ("ink", "08:10", 2), ("pen", "08:10", 1),
    ),
    accept(
        "SELECT window.start AS since, window.end AS until, item, cnt "
        "FROM (SELECT item, window, count(*) AS cnt FROM bids "
        "GROUP BY item, window(ts, '5 minutes'))",
        ("ink", "08:05", 1), ("pen", "08:05", 2), ("ink", "08:10", 1), ("pen", "08:10", 1),
        ("ink", "08:15", 1),
    ),
    accept(
        "SELECT window(window, '1 hour') AS w, sum(cnt) FROM (SELECT window, count(*) AS cnt "
        "FROM bids GROUP BY window(ts, '5 minutes')) GROUP BY window(window, '1 hour')"
    ),
    accept(
        "SELECT window(window_time(window), '1 hour') AS w, sum(cnt) FROM (SELECT window, "
        "count(*) AS cnt FROM bids GROUP BY window(ts, '5 minutes')) "
        "GROUP BY window(window_time(window), '1 hour')"
    ),
    accept(
        PER_ITEM.format(
            "session_window",
            "session_window(ts, CASE WHEN item = 'pen' THEN '5 minutes' ELSE '1 minute' END)",
        ),
    ),
    refuse(
        f"{PER_ITEM.format('window', 'window(ts, $)').replace('$', repr('5 minutes'))} "
        "ORDER BY item",
        "ORDER BY would never end",
    ),
    accept(f"SELECT * FROM bids b JOIN asks a {WITHIN}"),
    accept(f"SELECT * FROM bids b LEFT JOIN asks a {WITHIN}"),
    accept(f"SELECT * FROM bids b LEFT SEMI JOIN asks a {WITHIN}"),
    accept("SELECT * FROM bids b JOIN goods g ON b.item = g.item"),
    refuse("SELECT item, count(*) FROM bids GROUP BY item", "so this needs windows"),
    refuse("SELECT DISTINCT item FROM bids", "DISTINCT would remember every row"),
]  # fmt: skip
PEERS = {
    "Flink's window functions": FLINK_FUNCTIONS,
    "Flink's aggregates, first rows and group windows": FLINK_WINDOWS,
    "Flink's joins and `OVER`": FLINK_JOINS,
    "Calcite's streams": CALCITE,
    "ksqlDB's windows and joins": KSQLDB,
    "Spark's windows and joins": SPARK,
}


def list_statements() -> Iterator[Any]:
    for peer, statements in PEERS.items():
        for number, printed in enumerate(statements):
            yield pytest.param(printed, id=f"{peer.split(chr(39))[0]}-{number}")


def compute_rows(windowing: WindowRelation) -> list[tuple[Any, ...]]:
    """Return the rows that an operator emits for the bids: keys, window starts and aggregates."""
    aggregates = {name: _read_plain_column(agg) for name, agg in windowing.spec.aggregates.items()}
    spec = replace(windowing.spec, aggregates=aggregates, max_ahead=None)
    operator_class = SessionAggregator if isinstance(spec.windows, Sessions) else WindowedAggregator
    operator = operator_class(spec)
    messages = [
        {"item": item, "seller": seller, "price": price, "ts": datetime(2026, 1, 1, *at)}
        for item, seller, price, clock in BIDS
        for at in [tuple(map(int, clock.split(":")))]
    ]
    operator.add_messages(messages, final=True)
    full = operator.get_result().filter(pl.col("emission") == "full")
    start = pl.col("window_start").dt.strftime("%H:%M")
    return full.with_columns(start).drop("window_end", "emission", "revision").rows()


def _read_plain_column(aggregate: Aggregate) -> Aggregate:
    column = aggregate.column
    if not isinstance(column, Expression):
        return aggregate
    return replace(aggregate, column=column.text.strip("`"))


@pytest.mark.parametrize("printed", list(list_statements()))
def test_what_becomes_of_a_statement(printed: Printed) -> None:
    if printed.refused is not None:
        with pytest.raises(SqlError, match=re.escape(printed.refused)):
            compile_query(TABLES + printed.text)
        return
    query = compile_query(TABLES + printed.text).lowered.query
    if printed.rows is not None:
        assert isinstance(query, WindowRelation)
        assert compute_rows(query) == printed.rows


def test_the_documentation_counts_them() -> None:
    lines = [
        f"| {peer} | {len(statements)} | {sum(s.refused is None for s in statements)} |"
        for peer, statements in PEERS.items()
    ]
    assert "\n".join(lines) in DOCS.read_text()
