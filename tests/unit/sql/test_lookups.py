"""Joins with tables that don't change, in front of windows and behind them."""

from __future__ import annotations

import pytest
from tests.unit.sql.twins import lowered, refused

from muntin.model.pipeline import (
    SIDE_COLUMNS,
    Column,
    Lookup,
    TableRelation,
    Values,
    WindowLookup,
    WindowRelation,
    find_tables,
)
from muntin.sql.api import compile_query

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
    equal, rest = (("item", "name"),), f"({RIGHT}.price < {LEFT}.price)"
    assert found == Lookup(
        TableRelation("bids"), TableRelation("goods"), "g", how, on, (), equal, rest
    )
    assert find_tables(found) == {"bids", "goods"}


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
    assert find_tables(found) == {"bids"}
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
    source = compile_query(GOODS.format("batch") + text).lowered.query.source
    assert isinstance(source, Lookup)
    assert "no bound in time" in refused(GOODS.format("stream") + text)[0]


@pytest.mark.parametrize(
    ("join", "problem", "place"),
    [
        ("RIGHT JOIN goods g ON b.item = g.name", "that match no message yet", None),
        ("FULL JOIN goods g ON b.item = g.name", "that match no message yet", None),
        ("LEFT JOIN goods g ON b.kind = g.kind", "one of them may be NULL", "g.kind"),
        ("JOIN goods b ON b.item = b.name", "both sides are called b", "goods b"),
        ("JOIN goods WATERMARK ts DELAY OF 1 MINUTE g ON b.item = g.name", "no bound", None),
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
        "the join has no bound" in refused("SELECT b.item FROM bids b JOIN goods USING (item)")[0]
    )


HOURLY = """SELECT item, count(*) AS n, max(price) - min(price) AS width
            FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), 1 HOUR))
            GROUP BY item, window_start, window_end {}"""
TABLE = "__muntin_table0"


def behind(select: str, join: str, inner: str = "") -> str:
    return f"SELECT {select} FROM ({HOURLY.format(inner)}) w {join}"


def shown(text: str) -> dict[str, str]:
    return {column.name: column.text for column in lowered(text).columns or ()}


@pytest.mark.parametrize(("words", "how"), [("JOIN", "inner"), ("LEFT JOIN", "left")])
def test_windows_are_looked_up_when_they_emit(words, how):
    found = lowered(behind("w.*, g.kind", f"{words} goods g ON g.name = w.item"))
    equal = (("`item`", "name"),)
    assert found.lookups == (WindowLookup(TableRelation("goods"), "g", how, equal, (), TABLE),)
    assert found.spec == lowered(HOURLY.format("")).spec
    assert find_tables(found) == {"bids", "goods"}
    assert shown(behind("w.*, g.kind", f"{words} goods g ON g.name = w.item")) == {
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
    assert shown(behind(select, "LEFT JOIN goods g ON w.item = g.item"))["x"] == text


def test_a_condition_behind_a_lookup_holds_of_firings():
    text = behind(
        "w.n", "JOIN goods g USING (item) WHERE g.kind = 'a' AND n > 3", "EMIT EARLY EACH"
    )
    found = lowered(text)
    assert found.having == f"({TABLE}.`kind`) = 'a' AND `n` > 3"
    assert found.lookups[0].shared == ("item",)


def test_all_columns_of_a_table_are_known_when_it_is_read():
    text = behind("*", "JOIN goods g USING (item)")
    columns = lowered(text).columns or ()
    assert [column.name for column in columns[-3:]] == ["*", "emission", "revision"]
    assert columns[-3] == Column("*", f"{TABLE}.*")
    assert lowered(behind("g.*", "JOIN goods g USING (item)")).columns == (
        *columns[:3], Column("*", f"{TABLE}.*"), *columns[-2:],
    )  # fmt: skip


def test_tables_behind_windows_one_after_the_other():
    text = behind("g.kind, k.id", "JOIN goods g USING (item) LEFT JOIN kinds k ON g.kind = k.kind")
    first, second = lowered(text).lookups
    assert (first.row, second.row) == (TABLE, "__muntin_table1")
    assert second.equal == ((f"{TABLE}.`kind`", "kind"),)
    assert second.shared == ("kind",)
    assert "several tables may have this" in refused(text.replace("k.id", "id"))[0]


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
    found = lowered(text.format(HOURLY.format("")))
    assert found.having == "`n` > 3"
    assert [column.name for column in found.columns or ()] == [
        "item", "window_start", "window_end", "kind", "emission", "revision",
    ]  # fmt: skip
    assert (found.columns or ())[3].text == f"{TABLE}.`kind`"


def test_windows_over_windows_that_were_looked_up():
    text = f"""WITH w AS ({HOURLY.format("")}) SELECT kind, sum(n) AS n
               FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(window_time), 1 DAY)) w
               JOIN goods g ON w.item = g.item GROUP BY kind, window_start, window_end"""
    source = lowered(text).source
    assert isinstance(source, WindowRelation)
    assert source.lookups[0].equal == (("`item`", "item"),)
    assert (source.columns or ())[-1] == source.lookups[0].all


def test_each_row_with_a_time_before_it_is_looked_up():
    over = (
        "SELECT item, price, sum(price) OVER (PARTITION BY item ORDER BY ts RANGE 1 HOUR PRECEDING)"
    )
    text = f"SELECT o.price, g.kind FROM ({over} AS s FROM bids) o JOIN goods g USING (item)"
    found = lowered(text)
    assert found.each
    assert [column.name for column in found.columns or ()] == [
        "item", "window_start", "window_end", "price", "kind", "emission", "revision", "row_number",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (behind("n", "JOIN goods g ON w.item = g.name AND w.n > g.least"), "by equal columns"),
        (behind("n", "JOIN goods g ON item = name"), "by equal columns"),
        (behind("n", "RIGHT JOIN goods g ON w.item = g.name"), "that match no window yet"),
        (behind("n", "LEFT SEMI JOIN goods g ON w.item = g.name"), "windows take only JOIN"),
        (behind("n", "JOIN goods g ON w.n = g.n", "EMIT EARLY EACH"), "n may change"),
        (behind("n", "JOIN goods g USING (name)"), "the windows have no column name"),
        (behind("n", "JOIN goods w ON w.item = w.name"), "both sides are called w"),
        (behind("x.*", "JOIN goods g USING (item)"), "there is no table x here"),
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
    assert problem in refused(text)[0]
