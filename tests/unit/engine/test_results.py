from __future__ import annotations

from typing import Any

import polars as pl
from tests.unit.engine.queries import combiner, messages

from muntin.engine import columns
from muntin.engine.results import build_results, reject_overflows
from muntin.engine.windows.combine import Combiner
from muntin.engine.windows.overlap import compose
from muntin.model import aggregates
from muntin.model.windows import Windows


def compose_windows(query: Combiner, *rows: tuple[Any, ...]) -> pl.DataFrame:
    """Return all windows of the rows, each with a full emission."""
    composed = compose(query.lift(messages(rows)), -1000, 1000, query)
    return composed.with_columns(
        pl.lit("full").alias(columns.EMISSION), pl.lit(0).alias(columns.REVISION)
    )


def test_values_have_the_users_names_and_windows_their_times() -> None:
    # windows of 10 every 4 from 3: a message at 4 is in [-5, 5), [-1, 9) and [3, 13)
    query = combiner(Windows(10, 4, 3), {"total": aggregates.sum("value")})
    results = build_results(compose_windows(query, ("a", 4, 7)), query)
    assert results.columns == [
        "key",
        "window_start",
        "window_end",
        "total",
        "emission",
        "revision",
    ]
    assert results.rows() == [
        ("a", -5, 5, 7, "full", 0),
        ("a", -1, 9, 7, "full", 0),
        ("a", 3, 13, 7, "full", 0),
    ]


def test_rows_are_in_order_of_start_then_keys() -> None:
    schema = {"key": pl.Int64()}
    query = combiner(schema=schema, keys=("key", "flag"))
    rows = [(10, 1, 1, None, True), (-9, 1, 1, None, True), (10, 1, 1, None, False)]
    frame = messages([*rows, (3, -1, 1, None, True)], schema)
    composed = compose(query.lift(frame), -9, 9, query).with_columns(
        pl.lit("full").alias(columns.EMISSION), pl.lit(0).alias(columns.REVISION)
    )
    results = build_results(composed, query).select("window_start", "key", "flag").rows()
    assert results == [(-10, 3, True), (0, -9, True), (0, 10, False), (0, 10, True)]


def test_an_empty_result_has_the_same_columns_and_types() -> None:
    query = combiner(Windows(10, 5))
    filled, empty = (
        build_results(compose_windows(query, ("a", 1, 1)), query),
        build_results(compose_windows(query), query),
    )
    assert empty.is_empty()
    assert empty.schema == filled.schema


def test_every_column_that_overflows_makes_one_row_a_window() -> None:
    aggs = {"one": aggregates.sum("value"), "two": aggregates.sum("value")}
    query = combiner(Windows(10, 5), aggs)
    greatest = 2**63 - 1
    frame = compose_windows(query, ("a", 6, greatest), ("a", 7, 1), ("b", 6, greatest))
    rejected = reject_overflows(frame, query).sort(columns.TIME)
    assert rejected.select("key", columns.TIME, columns.REASON).rows() == [
        ("a", 0, "overflow"),
        ("a", 5, "overflow"),
    ]
    assert rejected.columns == query.nothing_rejected.columns
    values = build_results(frame, query)
    assert values.filter(key="a")["one"].to_list() == [None, None]
    assert values.filter(key="b")["two"].to_list() == [greatest, greatest]


def test_floats_and_counts_do_not_overflow() -> None:
    query = combiner(aggs={"x": aggregates.sum("amount"), "n": aggregates.count()})
    frame = compose_windows(query, ("a", 1, 0, 1e308), ("a", 2, 0, 1e308))
    assert reject_overflows(frame, query).is_empty()
    assert build_results(frame, query)["x"].to_list() == [float("inf")]
