"""Tests of joins with tables that don't change, in front of windows and behind them."""

from __future__ import annotations

import pytest
from tests.unit.sql.twins import get_refusal, lower_query

from muntin.model.pipeline import (
    SIDE_COLUMNS,
    Column,
    Derived,
    Lookup,
    TableRelation,
    Values,
    WindowLookup,
    WindowRelation,
    find_tables,
)
from muntin.model.rolling import emits_plain_rows
from muntin.sql.api import compile_query

LEFT, RIGHT = SIDE_COLUMNS
COUNT = "SELECT g.kind, count(*) AS n FROM bids b {} GROUP BY g.kind, TUMBLE(b.ts, 1 MINUTE)"
GOODS = "CREATE TABLE goods (item STRING) WITH (connector = 'csv', path = 'g', mode = '{}'); "


def lower_lookup(join: str, text: str = COUNT) -> Lookup:
    source = lower_query(text.format(join)).source
    assert isinstance(source, Lookup)
    return source


@pytest.mark.parametrize(
    ("words", "how"), [("JOIN", "inner"), ("INNER JOIN", "inner"), ("LEFT OUTER JOIN", "left")]
)
def test_a_join_that_nothing_bounds_looks_up(words, how):
    lookup = lower_lookup(f"{words} goods g ON b.item = g.name AND g.price < b.price")
    on = f"({LEFT}.`item` = {RIGHT}.`name`) AND ({RIGHT}.price < {LEFT}.price)"
    equal, rest = (("item", "name"),), f"({RIGHT}.price < {LEFT}.price)"
    assert lookup == Lookup(
        TableRelation("bids"), TableRelation("goods"), "g", how, on, (), equal, rest
    )
    assert find_tables(lookup) == {"bids", "goods"}


def test_the_windows_of_a_function_are_those_of_its_table():
    text = """SELECT g.kind, count(*) AS n
              FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), 1 MINUTE)) b
              JOIN goods g ON b.item = g.name GROUP BY g.kind, window_start, window_end"""
    assert lower_query(text) == lower_query(COUNT.format("JOIN goods g ON b.item = g.name"))


def test_equal_columns_of_one_name_are_shown_once():
    assert lower_lookup("JOIN goods g ON b.item = g.ITEM").shared == ("item",)
    using = lower_lookup("LEFT JOIN goods g USING (item)")
    assert (using.on, using.shared) == (f"({LEFT}.`item` = {RIGHT}.`item`)", ("item",))


def test_rows_of_the_query_itself():
    lookup = lower_lookup("JOIN (VALUES ('pen', 1), ('ink', 1 + 1)) AS g(item, kind) USING (item)")
    assert lookup.table == Values("('pen', 1), ('ink', 1 + 1)", ("item", "kind"))
    assert find_tables(lookup) == {"bids"}
    bare = lower_lookup("JOIN (VALUES ('pen')) g ON b.item = g.col1")
    assert bare.table == Values("('pen')")


def test_one_after_the_other():
    lookup = lower_lookup("JOIN goods g ON b.item = g.name JOIN kinds k ON g.kind = k.id")
    assert lookup.on == f"({LEFT}.`kind` = {RIGHT}.`id`)"
    assert isinstance(lookup.source, Lookup)
    assert lookup.source.on == f"({LEFT}.`item` = {RIGHT}.`name`)"


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
    assert lower_lookup("", text).how == how


def test_a_table_may_be_a_query_or_a_view():
    text = "JOIN (SELECT name, kind FROM goods WHERE price > 1) g ON b.item = g.name"
    assert lower_lookup(text).table == lower_lookup("JOIN v g ON b.item = g.name", (
        f"WITH v AS (SELECT name, kind FROM goods WHERE price > 1) {COUNT}"
    )).table  # fmt: skip


def test_a_table_that_is_declared_as_one_is_looked_up():
    text = COUNT.format("JOIN goods g ON b.item = g.item").replace("g.kind", "g.item")
    source = compile_query(GOODS.format("batch") + text).lowered.query.source
    assert isinstance(source, Lookup)
    assert "no bound in time" in get_refusal(GOODS.format("stream") + text)[0]


@pytest.mark.parametrize(
    ("join", "problem", "at"),
    [
        ("RIGHT JOIN goods g ON b.item = g.name", "that match no message yet", None),
        ("FULL JOIN goods g ON b.item = g.name", "that match no message yet", None),
        ("LEFT JOIN goods g ON b.kind = g.kind", "one of them may be NULL", "g.kind"),
        ("JOIN goods b ON b.item = b.name", "both sides are called b", "goods b"),
        ("JOIN goods WATERMARK ts DELAY OF 1 MINUTE g ON b.item = g.name", "no bound", None),
    ],
)
def test_what_is_refused(join, problem, at):
    message, marked = get_refusal(COUNT.format(join))
    assert problem in message
    assert at in (None, marked)


def test_sessions_are_formed_before():
    text = """SELECT count(*) AS n FROM TABLE(SESSION(TABLE bids, DESCRIPTOR(ts), 1 MINUTE)) b
              JOIN goods g ON b.item = g.name GROUP BY window_start, window_end"""
    assert "these windows are formed before JOIN" in get_refusal(text)[0]


def test_without_windows_each_joined_row_is_emitted():
    text = "SELECT b.item, goods.kind FROM bids b LEFT JOIN goods USING (item) WHERE b.price > 3"
    query = compile_query(text).lowered.query
    assert emits_plain_rows(query.spec)
    rows = query.source
    assert isinstance(rows, Derived)
    assert rows.where == "`price` > 3"
    assert isinstance(rows.source, Lookup)
    assert (rows.source.how, rows.source.shared) == ("left", ("item",))


def test_columns_within_a_subquery_are_those_of_its_table():
    bids = (
        "SELECT item FROM bids b WHERE b.item {} (SELECT name FROM goods WHERE kind = 'ink' AND {})"
    )
    lookup = compile_query(bids.format("IN", "price > 1")).lowered.query.source.source
    assert lookup.rest == f"({RIGHT}.kind = 'ink') AND ({RIGHT}.price > 1)"
    exists = (
        "SELECT item FROM bids b WHERE EXISTS (SELECT 1 FROM goods WHERE name = b.item AND b.n > x)"
    )
    lookup = compile_query(exists).lowered.query.source.source
    assert lookup.equal == (("item", "name"),)
    assert lookup.rest == f"({LEFT}.n > {RIGHT}.x)"


HOURLY = """SELECT item, count(*) AS n, max(price) - min(price) AS width
            FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), 1 HOUR))
            GROUP BY item, window_start, window_end {}"""
TABLE = "__muntin_table0"


def look_up_windows(select: str, join: str, inner: str = "") -> str:
    return f"SELECT {select} FROM ({HOURLY.format(inner)}) w {join}"


def read_columns(text: str) -> dict[str, str]:
    return {column.name: column.text for column in lower_query(text).columns or ()}


@pytest.mark.parametrize(("words", "how"), [("JOIN", "inner"), ("LEFT JOIN", "left")])
def test_windows_are_looked_up_when_they_emit(words, how):
    query = lower_query(look_up_windows("w.*, g.kind", f"{words} goods g ON g.name = w.item"))
    equal = (("`item`", "name"),)
    assert query.lookups == (WindowLookup(TableRelation("goods"), "g", how, equal, (), TABLE),)
    assert query.spec == lower_query(HOURLY.format("")).spec
    assert find_tables(query) == {"bids", "goods"}
    assert read_columns(look_up_windows("w.*, g.kind", f"{words} goods g ON g.name = w.item")) == {
        "item": "`item`",
        "window_start": "`window_start`",
        "window_end": "`window_end`",
        "n": "`n`",
        "width": "`__muntin_a1` - `__muntin_a2`",
        "kind": f"{TABLE}.`kind`",
        "emission": "emission",
        "revision": "revision",
    }


@pytest.mark.parametrize(
    ("select", "text"),
    [
        ("g.n AS x", f"{TABLE}.`n`"),
        ("w.n AS x", "`n`"),
        ("n AS x", "`n`"),
        ("kind AS x", f"{TABLE}.`kind`"),
        ("g.a.b AS x", f"{TABLE}.`a`.`b`"),
        ("width / least AS x", f"(`__muntin_a1` - `__muntin_a2`) / ({TABLE}.`least`)"),
        ("coalesce(g.item, 'none') AS x", f"coalesce(({TABLE}.`item`), 'none')"),
    ],
)
def test_whose_a_column_is(select, text):
    assert (
        read_columns(look_up_windows(select, "LEFT JOIN goods g ON w.item = g.item"))["x"] == text
    )


def test_a_condition_behind_a_lookup_holds_of_firings():
    text = look_up_windows(
        "w.n", "JOIN goods g USING (item) WHERE g.kind = 'a' AND n > 3", "EMIT EARLY EACH"
    )
    query = lower_query(text)
    assert query.having == f"({TABLE}.`kind`) = 'a' AND `n` > 3"
    assert query.lookups[0].shared == ("item",)


def test_all_columns_of_a_table_are_known_when_it_is_read():
    text = look_up_windows("*", "JOIN goods g USING (item)")
    columns = lower_query(text).columns or ()
    assert [column.name for column in columns[-3:]] == ["*", "emission", "revision"]
    assert columns[-3] == Column("*", f"{TABLE}.*")
    assert lower_query(look_up_windows("g.*", "JOIN goods g USING (item)")).columns == (
        *columns[:3], Column("*", f"{TABLE}.*"), *columns[-2:],
    )  # fmt: skip


def test_tables_behind_windows_one_after_the_other():
    text = look_up_windows(
        "g.kind, k.id", "JOIN goods g USING (item) LEFT JOIN kinds k ON g.kind = k.kind"
    )
    first, second = lower_query(text).lookups
    assert (first.row, second.row) == (TABLE, "__muntin_table1")
    assert second.equal == ((f"{TABLE}.`kind`", "kind"),)
    assert second.shared == ("kind",)
    assert "several tables may have this" in get_refusal(text.replace("k.id", "id"))[0]


@pytest.mark.parametrize(
    "text",
    [
        "WITH w AS ({}), named AS (SELECT w.*, kind FROM w JOIN goods g USING (item)) "
        "SELECT item, kind FROM named WHERE n > 3",
        "CREATE VIEW named AS SELECT * FROM ({}) w JOIN goods g USING (item); "
        "SELECT item, kind FROM named WHERE n > 3",
        "SELECT item, kind FROM ({}) w JOIN goods g USING (item) WHERE n > 3",
    ],
)
def test_windows_that_were_looked_up_have_a_query_around_them(text):
    query = lower_query(text.format(HOURLY.format("")))
    assert query.having == "`n` > 3"
    assert [column.name for column in query.columns or ()] == [
        "item", "window_start", "window_end", "kind", "emission", "revision",
    ]  # fmt: skip
    assert (query.columns or ())[3].text == f"{TABLE}.`kind`"


def test_windows_over_windows_that_were_looked_up():
    text = f"""WITH w AS ({HOURLY.format("")}) SELECT kind, sum(n) AS n
               FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(window_time), 1 DAY)) w
               JOIN goods g ON w.item = g.item GROUP BY kind, window_start, window_end"""
    source = lower_query(text).source
    assert isinstance(source, WindowRelation)
    assert source.lookups[0].equal == (("`item`", "item"),)
    assert (source.columns or ())[-1] == source.lookups[0].all


def test_each_row_with_a_time_before_it_is_looked_up():
    over = (
        "SELECT item, price, sum(price) OVER (PARTITION BY item ORDER BY ts RANGE 1 HOUR PRECEDING)"
    )
    text = f"SELECT o.price, g.kind FROM ({over} AS s FROM bids) o JOIN goods g USING (item)"
    query = lower_query(text)
    assert query.each
    assert [column.name for column in query.columns or ()] == [
        "item", "window_start", "window_end", "price", "kind", "emission", "revision", "row_number",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            look_up_windows("n", "JOIN goods g ON w.item = g.name AND w.n > g.least"),
            "by equal columns",
        ),
        (look_up_windows("n", "JOIN goods g ON item = name"), "by equal columns"),
        (look_up_windows("n", "RIGHT JOIN goods g ON w.item = g.name"), "that match no window yet"),
        (
            look_up_windows("n", "LEFT SEMI JOIN goods g ON w.item = g.name"),
            "windows take only JOIN",
        ),
        (look_up_windows("n", "JOIN goods g ON w.n = g.n", "EMIT EARLY EACH"), "n may change"),
        (look_up_windows("n", "JOIN goods g USING (name)"), "the windows have no column name"),
        (look_up_windows("n", "JOIN goods w ON w.item = w.name"), "both sides are called w"),
        (look_up_windows("x.*", "JOIN goods g USING (item)"), "there is no table x here"),
        (
            f"WITH w AS ({HOURLY.format('')}), some AS (SELECT item, n FROM w) "
            "SELECT n FROM some JOIN goods g ON some.item = g.item",
            "these rows can't be joined with a table",
        ),
        (COUNT.format("JOIN goods g ON b.item = g.name").replace("g.kind,", "g.*,", 1), "*"),
        ("SELECT b.* FROM bids b JOIN asks a ON a.id = b.id AND a.ts = b.ts", "aren't separate"),
    ],
)
def test_what_is_refused_behind_windows(text, problem):
    assert problem in get_refusal(text)[0]
