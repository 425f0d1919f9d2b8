"""Tests of ORDER BY and LIMIT on a batch."""

from __future__ import annotations

import pytest

from muntin.model.errors import SqlError
from muntin.model.pipeline import Order, SortOrder
from muntin.sql.api import compile_pipeline, compile_query

TABLES = """
    CREATE TABLE t (k STRING, v INT, ts TIMESTAMP, WATERMARK FOR ts AS ts)
    WITH (connector = 'json', path = 't', mode = '{mode}');
    CREATE TABLE out WITH (connector = 'parquet', path = 'out');
"""
QUERY = """SELECT o.k AS "key", count(*) AS n, sum(v) AS total
           FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) AS o
           GROUP BY k, window_start, window_end """.replace('"', "`")


@pytest.mark.parametrize(
    ("clause", "order"),
    [
        ("ORDER BY n", Order((SortOrder("`n`"),))),
        ("ORDER BY 3 DESC, k", Order((SortOrder("`total`", True), SortOrder("`key`")))),
        ("ORDER BY count(*) DESC LIMIT 3", Order((SortOrder("`n`", True),), 3)),
        ("ORDER BY o.k ASC NULLS LAST", Order((SortOrder("`key`", False, "last"),))),
        ("ORDER BY total % 2 DESC NULLS FIRST", Order((SortOrder("total % 2", True, "first"),))),
        ("LIMIT 0", Order((), 0)),
        ("LIMIT 7 EMIT ON CLOSE", Order((), 7)),
    ],
)
def test_what_is_shown_in_which_order(clause: str, order: Order) -> None:
    assert compile_query(TABLES.format(mode="batch") + QUERY + clause).lowered.order == order


def test_a_stream_has_no_last_row() -> None:
    for clause in ("ORDER BY n", "LIMIT 3"):
        with pytest.raises(SqlError, match="on a stream"):
            compile_query(TABLES.format(mode="stream") + QUERY + clause)


def test_a_table_that_is_written_to_has_no_order() -> None:
    text = TABLES.format(mode="batch") + "INSERT INTO out " + QUERY + "ORDER BY n"
    with pytest.raises(SqlError, match="ORDER BY would never end on a stream"):
        compile_pipeline(text)
