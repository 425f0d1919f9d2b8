"""Tests of every aggregate over every type in every kind of window: the oracle's value or an error.

The tests of Spark's values are in ``tests/spark``.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from tests.transcripts.comparison import row_differences
from tests.typed import (
    AGGREGATES,
    GROWS,
    TYPES,
    Typed,
    fit_mean,
    list_unsupported_aggregates,
    messages,
)

from muntin.model.aggregates.entry import ENTRIES
from muntin.model.axis import rows
from muntin.model.cumulating import cumulating
from muntin.model.errors import OptionError
from muntin.model.kinds import Kind
from muntin.model.sessions import make_sessions
from muntin.model.sliding import sliding
from muntin.model.spec import WindowSpec
from muntin.model.windows import hopping, tumbling
from muntin.standalone import SessionAggregator, WindowedAggregator
from muntin.testing.oracle import Oracle

KINDS: dict[str, Kind] = {
    "tumbling": tumbling("20 us"),
    "hopping": hopping("40 us", "10 us"),
    "session": make_sessions("10 us"),
    "cumulating": cumulating("40 us", "10 us"),
    "sliding": sliding("15 us"),
    "rows": tumbling(rows(3)),
    "sliding rows": sliding(rows(3)),
}
FEW = ("hopping", "session")
# The rest of them takes long; a type tries one of the few at least.
CASES = [
    pytest.param(
        typed, kind, id=f"{typed.name}-{kind}", marks=[] if kind == FEW[i % 2] else pytest.mark.slow
    )
    for i, typed in enumerate(TYPES)
    for kind in KINDS
]


def test_every_aggregate_is_tried() -> None:
    assert {agg.kind for agg in AGGREGATES.values()} == set(ENTRIES)


def make_spec(typed: Typed, kind: str) -> WindowSpec:
    accepted = {
        n: agg for n, agg in AGGREGATES.items() if n not in list_unsupported_aggregates(typed)
    }
    time = None if KINDS[kind].axis == "rows" else "t"
    return WindowSpec(("k",), time, KINDS[kind], accepted, lateness=0 if time is None else 100)


def make_operator(typed: Typed, spec: WindowSpec) -> WindowedAggregator | SessionAggregator:
    aggregator_class = SessionAggregator if "session" in str(spec.windows) else WindowedAggregator
    types = {"k": pl.String(), "v": typed.polars, "w": pl.Int64()}
    return aggregator_class(spec, schema=types if spec.time is None else {**types, "t": pl.Int64()})


def compute_expected(
    typed: Typed, spec: WindowSpec, input_messages: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the oracle's rows, with null for decimals that have too many digits for their type."""
    rows = Oracle(spec).step(input_messages, 0, final=True).firings
    if isinstance(typed.polars, pl.Decimal):
        precision = typed.polars.precision
        for name, more in GROWS.items():
            for row in rows:
                if row[name] is not None and _count_digits(row[name]) > min(38, precision + more):
                    row[name] = None
        for row in rows:
            if row["mean"] is not None:
                row["mean"] = fit_mean(row["mean"], typed.polars)
    return rows


def _count_digits(value: Decimal) -> int:
    return len(value.as_tuple().digits)


def sort_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["window_start"], row["k"], row["window_end"]))


@pytest.mark.parametrize(("typed", "kind"), CASES)
def test_values_equal_the_oracles(typed: Typed, kind: str) -> None:
    spec = make_spec(typed, kind)
    input_messages = messages(typed, lambda at: at)
    expected = sort_rows(compute_expected(typed, spec, input_messages))
    frame_operator, message_operator = make_operator(typed, spec), make_operator(typed, spec)
    frame_operator.add_messages(input_messages[::2] if spec.time else input_messages)
    frame_operator.add_messages(input_messages[1::2] if spec.time else [], final=True)
    assert row_differences("row", sort_rows(frame_operator.get_result().to_dicts()), expected) == []
    for message in input_messages:
        fields = {n: v for n, v in message.items() if n not in ("k", "t")}
        time = {"time": message["t"]} if spec.time else {}
        message_operator.add_message(key=message["k"], value=fields, **time)
    message_operator.add_messages([], final=True)
    assert (
        row_differences("row", sort_rows(message_operator.get_result().to_dicts()), expected) == []
    )
    reasons = set(frame_operator.rejected["reason"]) | set(message_operator.rejected["reason"])
    assert reasons <= {"overflow"}


@pytest.mark.parametrize("typed", TYPES, ids=lambda typed: typed.name)
def test_refusals(typed: Typed) -> None:
    for name in sorted(list_unsupported_aggregates(typed)):
        spec = WindowSpec(("k",), "t", KINDS["tumbling"], {"x": AGGREGATES[name]})
        with pytest.raises(OptionError, match=r"^agg='.*' reads a column of type "):
            make_operator(typed, spec)
