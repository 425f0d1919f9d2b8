from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.transcripts.comparison import row_differences, same_row
from tests.unit.engine.queries import SCHEMA, combiner, messages

from muntin.engine import columns
from muntin.engine.windows.combine import Combiner
from muntin.engine.windows.operator import make_combiner, open_shard
from muntin.engine.windows.overlap import compose, copy_to_windows
from muntin.model import aggregates
from muntin.model.cumulating import Cumulating
from muntin.model.kinds import Paned
from muntin.model.sliding import Sliding
from muntin.model.windows import Windows
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache
from muntin.testing.oracle import Oracle

ALL = {
    "n": aggregates.count(),
    "values": aggregates.count("value"),
    "flags": aggregates.count_if("flag"),
    "sum": aggregates.sum("value"),
    "amount": aggregates.sum("amount"),
    "least": aggregates.min("value"),
    "most": aggregates.max("amount"),
    "mean": aggregates.mean("amount"),
    "stddev": aggregates.stddev("value"),
    "first": aggregates.first("value"),
    "last": aggregates.last("amount"),
    "low": aggregates.arg_min("key", "amount"),
    "high": aggregates.arg_max("amount", "value"),
    "all": aggregates.bool_and("flag"),
    "some": aggregates.bool_or("flag"),
    "distinct": aggregates.approx_distinct("value"),
    "median": aggregates.quantile("amount", 0.5),
    "own": aggregates.aggregate(
        "value",
        initializer=lambda: 0,
        aggregator=lambda state, value: state + value * value,
        merger=lambda one, other: one + other,
        state_type="long",
    ),
}
SHAPES = [
    Windows(10, 10),
    Windows(10, 5),
    Windows(10, 1),
    Windows(10, 4, 3),
    Windows(10, 7),
    Windows(10, 9, -2),
    Windows(100, 3),
    Cumulating(12, 4),
    Cumulating(30, 1, 7),
    Cumulating(6, 3, 2),
    Cumulating(5, 5),
    Cumulating(200, 10),
]


def random_messages(seed: int, spread: int, count: int = 60) -> pl.DataFrame:
    random = np.random.default_rng(seed)

    def maybe_null(value: Any) -> Any:
        return None if random.random() < 0.2 else value

    return messages(
        (
            str(random.choice(["a", "b", "c"])),
            int(random.integers(-spread, spread)),
            maybe_null(int(random.integers(-9, 9))),
            maybe_null(float(random.integers(-40, 40)) / 4),
            maybe_null(bool(random.integers(0, 2))),
        )
        for _ in range(count)
    )


def compose_values(
    query: Combiner, frame: pl.DataFrame, low: int, high: int
) -> list[dict[str, Any]]:
    windows = compose(query.lift(frame), low, high, query).sort(columns.WINDOW, *query.keys)
    pairs = zip(query.algebras, query.spec.aggregates, strict=True)
    values = [algebra.lower(windows).alias(name) for algebra, name in pairs]
    return windows.select(columns.WINDOW, "k0", *values).to_dicts()


def compose_each_window(
    query: Combiner, frame: pl.DataFrame, low: int, high: int
) -> list[dict[str, Any]]:
    """Compose each window by itself, from copies of its messages where no other window is."""
    windows, size = query.paned_windows, query.paned_windows.size
    tumbling_query = combiner(Windows(size, size), query.spec.aggregates)
    time, copies = pl.col(columns.TIME), [frame.clear()]
    for window in range(low, high + 1):
        start, end = windows.start(window), windows.end(window)
        inside = frame.filter(time.is_between(start, end, closed="left"))
        copies.append(inside.with_columns(time - start + window * size))
    return compose_values(tumbling_query, pl.concat(copies), low, high)


def assert_same(rows: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert [(r["window"], r["k0"]) for r in rows] == [(r["window"], r["k0"]) for r in expected]
    differing = [
        (row, expected_row)
        for row, expected_row in zip(rows, expected, strict=True)
        if not same_row(row, expected_row)
    ]
    assert differing == []


@pytest.mark.parametrize("windows", SHAPES, ids=str)
@pytest.mark.parametrize("spread", [8, 60, 600])
def test_every_aggregate_over_every_window(windows: Paned, spread: int) -> None:
    query, frame = combiner(windows, ALL), random_messages(spread, spread)
    low, high = windows.last_ended(-spread), windows.last_window(windows.pane_of(spread))
    assert_same(
        compose_values(query, frame, low, high), compose_each_window(query, frame, low, high)
    )


@pytest.mark.parametrize("windows", SHAPES, ids=str)
@pytest.mark.parametrize(("low", "high"), [(0, 0), (-1, 1), (-2, 1), (-1, 4), (5, 40), (3, 2)])
def test_bounds_are_both_included_and_nothing_else_is(windows: Paned, low: int, high: int) -> None:
    query, frame = combiner(windows), random_messages(1, 50)
    assert_same(
        compose_values(query, frame, low, high), compose_each_window(query, frame, low, high)
    )


def test_sums_of_hopping_windows() -> None:
    # time      0    5    10   15   20
    # a         1    2         4
    # window 0  [---------)             1 + 2
    # window 1       [---------)        2
    # window 2            [---------)   4
    # window -1 ----)                   1
    query = combiner(Windows(10, 5))
    frame = messages([("a", 0, 1), ("a", 5, 2), ("a", 15, 4)])
    sums = {row["window"]: row["sum"] for row in compose_values(query, frame, -9, 9)}
    assert sums == {-1: 1, 0: 3, 1: 2, 2: 4, 3: 4}


def test_sums_of_cumulating_windows() -> None:
    # time      0    4    8    12   16
    # a         1    2         4
    # windows   [----)                  0: 1
    #           [---------)             1: 1 + 2
    #           [--------------)        2: 1 + 2
    #                          [----)   3: 4, a new block, which ends with 5
    query = combiner(Cumulating(12, 4))
    frame = messages([("a", 0, 1), ("a", 5, 2), ("a", 13, 4), ("b", 11, 8)])
    sums = {(row["k0"], row["window"]): row["sum"] for row in compose_values(query, frame, -9, 9)}
    of_a = {("a", window): total for window, total in enumerate([1, 3, 3, 4, 4, 4])}
    assert sums == of_a | {("b", 2): 8}


def test_a_window_between_two_messages_is_not_emitted() -> None:
    query = combiner(Windows(10, 5))
    frame = messages([("a", 0, 1), ("a", 1000, 2)])
    assert [row["window"] for row in compose_values(query, frame, -5, 300)] == [-1, 0, 199, 200]


def test_a_window_of_nulls_alone_is_emitted_with_nulls() -> None:
    query = combiner(Windows(10, 2), {"n": aggregates.count(), **ALL})
    row = compose_values(query, messages([("a", 0)]), -5, 5)[0]
    counts = ("window", "k0", "n", "values", "flags", "distinct")
    assert {row[name] for name in row if name not in counts} == {None}
    assert [row[name] for name in counts] == [-4, "a", 1, 0, 0, 0]


@pytest.mark.parametrize("windows", [Windows(10, 10), Windows(10, 5), Windows(10, 4)], ids=str)
def test_no_cells_make_no_windows(windows: Windows) -> None:
    query = combiner(windows, ALL)
    no_windows = compose(query.no_cells, -100, 100, query)
    assert len(no_windows) == 0
    assert set(no_windows.columns) >= {columns.WINDOW, "k0", columns.MESSAGES}


def test_sums_of_nulls_and_numbers_slide_apart() -> None:
    # time    0    2    4
    # a      null  3   null     a sum over nulls alone is null, not 0
    query = combiner(Windows(4, 2))
    frame = messages([("a", 0, None), ("a", 2, 3), ("a", 6, None)])
    sums = {row["window"]: row["sum"] for row in compose_values(query, frame, -5, 9)}
    assert sums == {-1: None, 0: 3, 1: 3, 2: None, 3: None}


def test_nan_is_the_greatest_while_it_is_in_the_window() -> None:
    query = combiner(Windows(4, 2), {"x": aggregates.max("amount"), "y": aggregates.min("amount")})
    frame = messages([("a", 0, 0, 1.0), ("a", 2, 0, math.nan), ("a", 6, 0, 2.0)])
    rows = {row["window"]: (row["x"], row["y"]) for row in compose_values(query, frame, -5, 9)}
    assert rows[-1] == (1.0, 1.0)
    assert math.isnan(rows[0][0])
    assert rows[0][1] == 1.0
    assert rows[3] == (2.0, 2.0)


@pytest.mark.parametrize("key_type", [pl.Int8, pl.UInt32, pl.Date, pl.Boolean, pl.Decimal(9, 2)])
def test_keys_of_every_type_slide(key_type: Any) -> None:
    values = pl.Series([0, 1, 0, 1]).cast(key_type if key_type != pl.Boolean else pl.Boolean)
    query = combiner(Windows(10, 2), schema={"key": key_type})
    frame = messages([(None, time, 1) for time in (0, 0, 6, 20)]).with_columns(values.alias("key"))
    cells = query.lift(frame.select(SCHEMA.names()))
    emitted = compose(cells, -9, 20, query)
    assert emitted["k0"].dtype == key_type
    assert emitted[columns.MESSAGES].sum() == 4 * 5
    assert emitted.select(columns.WINDOW, "k0").is_unique().all()


def test_cells_are_copied_to_the_windows_that_hold_them() -> None:
    query = combiner(Windows(10, 5))
    cells = query.lift(messages([("a", 7, 1)]))
    for low, high, expected in [(None, None, [0, 1]), (1, None, [1]), (None, 0, [0]), (2, 9, [])]:
        copies = copy_to_windows(cells, low, high, query.paned_windows)
        assert copies[columns.WINDOW].to_list() == expected


@pytest.mark.parametrize("windows", [Windows(40, 10), Sliding(15)], ids=str)
def test_infinities_have_a_mean_at_any_position(windows: Any) -> None:
    rows = [("a", 3, None, 1.0), ("a", 12, None, math.inf), ("a", 15, None, 2.0)]
    spec = replace(combiner(Windows(5, 5)).spec, windows=windows)
    aggs = {"mean": aggregates.mean("amount"), "variance": aggregates.variance("amount")}
    spec = replace(spec, aggregates=aggs)
    names = ("key", "time", "value", "amount")
    input_messages = [dict(zip(names, row, strict=True)) for row in rows]
    expected = Oracle(spec).step(input_messages, 0, final=True).firings
    query = make_combiner(spec, SCHEMA)
    emitted = open_shard(query, MemoryBlobs(), FrameCache()).step(
        [query.combine(messages(rows), None)], 0, final=True
    )
    results = emitted.results.to_dicts()
    assert row_differences("row", results, expected) == []
    assert math.inf in [row["mean"] for row in results]
