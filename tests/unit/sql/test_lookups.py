"""Joins with tables that don't change, in front of windows."""

from __future__ import annotations

import pytest
from tests.unit.sql.twins import lowered, refused

from muntin.model.pipeline import SIDE_COLUMNS, Lookup, Reading, Values, tables_of
from muntin.sql.door import question

LEFT, RIGHT = SIDE_COLUMNS
COUNT = "SELECT g.kind, count(*) AS n FROM bids b {} GROUP BY g.kind, TUMBLE(b.ts, 1 MINUTE)"
GOODS = "CREATE TABLE goods (item STRING) WITH (connector = 'csv', path = 'g', mode = '{}'); "


def looked_up(join: str, text: str = COUNT) -> Lookup:
    source = lowered(text.format(join)).source
    assert isinstance(source, Lookup)
    return source


@pytest.mark.parametrize(
    ("words", "how"), [("JOIN", "inner"), ("INNER JOIN", "inner"), ("LEFT OUTER JOIN", "left")]
)
def test_a_join_that_nothing_bounds_looks_up(words, how):
    found = looked_up(f"{words} goods g ON b.item = g.name AND g.price < b.price")
    on = f"({LEFT}.`item` = {RIGHT}.`name`) AND ({RIGHT}.price < {LEFT}.price)"
    assert found == Lookup(Reading("bids"), Reading("goods"), "g", how, on)
    assert tables_of(found) == {"bids", "goods"}


def test_the_windows_of_a_function_are_those_of_its_table():
    text = """SELECT g.kind, count(*) AS n
              FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), 1 MINUTE)) b
              JOIN goods g ON b.item = g.name GROUP BY g.kind, window_start, window_end"""
    assert lowered(text) == lowered(COUNT.format("JOIN goods g ON b.item = g.name"))


def test_equal_columns_of_one_name_are_shown_once():
    assert looked_up("JOIN goods g ON b.item = g.ITEM").shared == ("item",)
    using = looked_up("LEFT JOIN goods g USING (item)")
    assert (using.on, using.shared) == (f"({LEFT}.`item` = {RIGHT}.`item`)", ("item",))


def test_rows_of_the_query_itself():
    found = looked_up("JOIN (VALUES ('pen', 1), ('ink', 1 + 1)) AS g(item, kind) USING (item)")
    assert found.table == Values("('pen', 1), ('ink', 1 + 1)", ("item", "kind"))
    assert tables_of(found) == {"bids"}
    bare = looked_up("JOIN (VALUES ('pen')) g ON b.item = g.col1")
    assert bare.table == Values("('pen')")


def test_one_after_the_other():
    found = looked_up("JOIN goods g ON b.item = g.name JOIN kinds k ON g.kind = k.id")
    assert found.on == f"({LEFT}.`kind` = {RIGHT}.`id`)"
    assert isinstance(found.source, Lookup)
    assert found.source.on == f"({LEFT}.`item` = {RIGHT}.`name`)"


@pytest.mark.parametrize(
    ("condition", "how"),
    [
        ("EXISTS (SELECT 1 FROM goods g WHERE g.name = b.item)", "semi"),
        ("NOT EXISTS (SELECT 1 FROM goods g WHERE g.name = b.item)", "anti"),
        ("item IN (SELECT name FROM goods g)", "semi"),
        ("item NOT IN (SELECT name FROM goods g)", "anti"),
    ],
)
def test_membership(condition, how):
    text = f"SELECT count(*) AS n FROM bids b WHERE {condition} GROUP BY TUMBLE(b.ts, 1 MINUTE)"
    assert looked_up("", text).how == how


def test_a_table_may_be_a_query_or_a_view():
    text = "JOIN (SELECT name, kind FROM goods WHERE price > 1) g ON b.item = g.name"
    assert looked_up(text).table == looked_up("JOIN v g ON b.item = g.name", (
        f"WITH v AS (SELECT name, kind FROM goods WHERE price > 1) {COUNT}"
    )).table  # fmt: skip


def test_a_table_that_is_declared_as_one_is_looked_up():
    text = COUNT.format("JOIN goods g ON b.item = g.item").replace("g.kind", "g.item")
    source = question(GOODS.format("batch") + text).lowered.query.source
    assert isinstance(source, Lookup)
    assert "GROUP BY can't stand beside JOIN" in refused(GOODS.format("stream") + text)[0]


@pytest.mark.parametrize(
    ("join", "problem", "place"),
    [
        ("RIGHT JOIN goods g ON b.item = g.name", "no message has met yet", None),
        ("FULL JOIN goods g ON b.item = g.name", "no message has met yet", None),
        ("LEFT JOIN goods g ON b.kind = g.kind", "one of them may be NULL", "g.kind"),
        ("JOIN goods b ON b.item = b.name", "both sides are called b", "goods b"),
        ("JOIN goods WATERMARK ts DELAY OF 1 MINUTE g ON b.item = g.name", "beside JOIN", None),
    ],
)
def test_what_is_refused(join, problem, place):
    found, at = refused(COUNT.format(join))
    assert problem in found
    assert place in (None, at)


def test_sessions_are_formed_before():
    text = """SELECT count(*) AS n FROM TABLE(SESSION(TABLE bids, DESCRIPTOR(ts), 1 MINUTE)) b
              JOIN goods g ON b.item = g.name GROUP BY window_start, window_end"""
    assert "these windows are formed before JOIN" in refused(text)[0]


def test_without_windows_two_streams_are_meant():
    assert (
        "nothing bounds a pair" in refused("SELECT b.item FROM bids b JOIN goods USING (item)")[0]
    )
