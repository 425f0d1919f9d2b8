"""Tests that a key is in one partition, and that readers from outside find it there."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from unittest import mock

import pytest
from tests.unit.tables.test_opened import open_table

import muntin as mt
from muntin.stores import Image, memory
from muntin.tables import App
from muntin.tables.copartition import assign_partitions

PARTITIONS = 4
ROWS = [
    {"user": f"u{n % 8}", "page": f"p{n % 3}", "at": float(n)}
    for n in range(48)
]  # fmt: skip


def make_tables(app: App) -> tuple[Any, ...]:
    """Make tables of every kind, whose keys begin with the key of the stream."""
    tables = (
        app.Table("plain", default=int),
        app.Table("tumbling", default=int).tumbling(10),
        app.Table("hopping", default=int).hopping(10, 5),
        app.Table("session", default=int).session(10),
        app.SetTable("sets"),
        app.SetTable("windowed").tumbling(10),
    )

    @app.agent(app.topic("views"))
    def view(event: Any) -> None:
        key = event["user"], event["page"]
        for table in tables[:4]:
            table[key] += 1
        for table in tables[4:]:
            table[key].add(int(event["at"]))

    return tables


def read_key(table: Any, key: Any) -> Any:
    """Return all that can be read of a key."""
    if table.spec.windows is not None:
        return table[key].windows(), table[key].current(7.0)
    return set(table[key]) if table.spec.sets else table[key], key in table, table.get(key) == 0


@pytest.mark.parametrize("by", ["user", "page", None])
def test_it_is_found_wherever_its_stream_put_it(by: str | None) -> None:
    def read_all(partitions: int, image: Image) -> list[Any]:
        app = App("app", max_ahead=None)
        if by == "page":
            tables = (app.Table("plain", default=int), app.Table("tumbling", default=int))
            tables = (tables[0], tables[1].tumbling(10))

            @app.agent(app.topic("views"))
            def view(event: Any) -> None:
                for table in tables:
                    table[event["page"]] += 1
                    table[event["page"], event["user"]] += 1
        else:
            tables = make_tables(app)
        keys: list[Any] = [(row["user"], row["page"]) for row in ROWS]
        if by == "page":
            keys = [*(key[::-1] for key in keys), *(row["page"] for row in ROWS)]
        source = mt.source(ROWS, key=by, time="at")
        with app.run({"views": source}, store=memory(image), partitions=partitions, batch=10):
            values = [read_key(table, key) for table in tables for key in [*keys, ("u0", "nobody")]]
        if partitions == PARTITIONS:
            handles = [open_table(image, table.name).handle for table in tables]
            assert values == [
                read_key(t, key) for t in handles for key in [*keys, ("u0", "nobody")]
            ]
        return values

    assert read_all(PARTITIONS, Image()) == read_all(1, Image())


def test_a_key_is_looked_up_in_its_own_partition_alone() -> None:
    image, app = Image(), App("app", max_ahead=None)
    make_tables(app)
    source = mt.source(ROWS, key="user", time="at")
    app.run({"views": source}, store=memory(image), partitions=PARTITIONS).close()
    partitions: list[int] = []
    table = open_table(image, "plain", partitions)
    assert table.handle["u1", "p1"] == 2
    assert partitions == assign_partitions(["u1"], PARTITIONS)


def test_the_partition_of_a_key_does_not_depend_on_those_beside_it() -> None:
    for others in ([], [2**70], ["a"], [None], [0.5]):
        keys = [*range(20), *others]
        assert assign_partitions(keys, 64) == [assign_partitions([key], 64)[0] for key in keys]


def make_table_of_two_agents(app: App) -> Any:
    """Make a table written by two agents whose streams are partitioned differently."""
    table = app.Table("t", default=int)
    topic = app.topic("views")

    @app.agent(topic)
    def by_user(event: Any) -> None:
        table[event["user"], event["page"]] += 1

    @app.agent(topic, group_by=lambda event: (event["user"], event["page"]))
    def by_both(event: Any) -> None:
        table[event["user"], event["page"]] += 1

    return table


def test_a_key_must_not_lie_in_two_partitions() -> None:
    image = Image()
    app = App("app", max_ahead=None)
    table = make_table_of_two_agents(app)
    source = mt.source(ROWS, key="user", time="at")
    with app.run({"views": source}, partitions=1):
        assert table["u0", "p0"] == 4
    message = (
        r"table 't' has \('u\d', 'p\d'\) in the partitions \d, \d: it is written by streams that "
        r"are partitioned by .*the whole key.*; partition them in one way"
    )
    with pytest.raises(mt.PartitionError, match=message):
        app.run({"views": source}, store=memory(image), partitions=PARTITIONS)
    with app.open(store=memory(image), partitions=PARTITIONS):
        assert len(table) == 0


def test_whoever_reads_such_a_key_is_told() -> None:
    image, app = Image(), App("app", max_ahead=None)
    make_table_of_two_agents(app)
    source = mt.source(ROWS, key="user", time="at")
    # On Spark, partitions can't ask each other.
    with mock.patch("muntin.tables.batch.share_partitionings"):
        app.run({"views": source}, store=memory(image), partitions=PARTITIONS).close()
    table = open_table(image, "t").handle
    scattered_keys = [
        key
        for key in {(row["user"], row["page"]) for row in ROWS}
        if assign_partitions([key], PARTITIONS) != assign_partitions([key[0]], PARTITIONS)
    ]
    assert len(scattered_keys) > 4
    for key in scattered_keys:
        with pytest.raises(mt.PartitionError, match=r"by its first part and by the whole key"):
            table[key]


@pytest.mark.parametrize("unkeyed_first", [False, True])
def test_a_stream_without_keys_beside_one_with_keys(unkeyed_first: bool) -> None:
    app = App("app", max_ahead=None)
    table = app.Table("t", default=int)

    @app.agent(app.topic("views"))
    def view(event: Any) -> None:
        table[event] += 1

    key = next(key for key in "abcdef" if assign_partitions([key], PARTITIONS) != [0])
    with app.open(partitions=PARTITIONS) as running:
        keys = [None, key] if unkeyed_first else [key, None]
        running.send("views", key, key=keys[0])
        assert (table[key], key in table) == (1, True)
        with pytest.raises(mt.PartitionError, match="by nothing"):
            running.send("views", key, key=keys[1])


@pytest.mark.parametrize("by", ["user", None])
def test_what_closing_writes_lies_where_the_closed_key_lay(by: str | None) -> None:
    def read_all(partitions: int) -> list[Any]:
        app = App("app", max_ahead=None)
        best, users = app.Table("best", default=int), app.Table("users", default=int)

        def close(key: Any, value: Any) -> None:
            best[key[0]] = max(best[key[0]], value)
            best[*key[0], "more"] += 1
            users[key[0][0]] += value

        views = app.Table("views", default=int, on_window_close=close).tumbling(5, expires=1)

        @app.agent(app.topic("views"))
        def view(event: Any) -> None:
            views[event["user"], event["page"]] += 1

        source = mt.source(ROWS, key=by, time="at")
        with app.run({"views": source}, partitions=partitions, batch=7):
            keys = [(row["user"], row["page"]) for row in ROWS]
            return [(best[key], best[*key, "more"], users[key[0]]) for key in keys]

    assert read_all(PARTITIONS) == read_all(1)
    assert (1, 1, 5) in read_all(1)


def test_keys_that_are_equal_have_one_owner() -> None:
    equal: list[Any] = [1, 1.0, True, Decimal(1)]
    assert len(set(assign_partitions(equal, 64))) == 1
    assert len({assign_partitions([(key, "a")], 64)[0] for key in equal}) == 1
    assert assign_partitions([0.5, Decimal("0.5")], 64) == assign_partitions([0.5], 64) * 2
    assert len(set(assign_partitions([0.0, -0.0, False], 64))) == 1
    assert len(assign_partitions([float("nan"), float("inf"), Decimal("NaN"), 1e300, 2.5], 64)) == 5
    app = App("app", max_ahead=None)
    table = app.Table("t", default=int)

    @app.agent(app.topic("views"))
    def view(event: Any) -> None:
        table[event] += 1

    with app.open(partitions=8) as running:
        for key in equal:
            running.send("views", key, key=key)
        assert [table[key] for key in equal] == [4] * 4
