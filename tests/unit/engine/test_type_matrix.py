"""Every aggregate over every type: the oracle's value through every kind of window, or a refusal.

What isn't refused is compared with the oracle; what Spark gives is in ``tests/spark``.
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


def spec_of(typed: Typed, kind: str) -> WindowSpec:
    accepted = {
        n: agg for n, agg in AGGREGATES.items() if n not in list_unsupported_aggregates(typed)
    }
    time = None if KINDS[kind].axis == "rows" else "t"
    return WindowSpec(("k",), time, KINDS[kind], accepted, lateness=0 if time is None else 100)


def operator(typed: Typed, spec: WindowSpec) -> WindowedAggregator | SessionAggregator:
    made = SessionAggregator if "session" in str(spec.windows) else WindowedAggregator
    types = {"k": pl.String(), "v": typed.polars, "w": pl.Int64()}
    return made(spec, schema=types if spec.time is None else {**types, "t": pl.Int64()})


def expected(typed: Typed, spec: WindowSpec, given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The oracle's rows; it doesn't know how many digits a decimal has."""
    rows = Oracle(spec).step(given, 0, final=True).firings
    if isinstance(typed.polars, pl.Decimal):
        precision = typed.polars.precision
        for name, more in GROWS.items():
            for row in rows:
                if row[name] is not None and _digits(row[name]) > min(38, precision + more):
                    row[name] = None
        for row in rows:
            if row["mean"] is not None:
                row["mean"] = fit_mean(row["mean"], typed.polars)
    return rows


def _digits(value: Decimal) -> int:
    return len(value.as_tuple().digits)


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["window_start"], row["k"], row["window_end"]))


@pytest.mark.parametrize(("typed", "kind"), CASES)
def test_values_however_messages_are_read(typed: Typed, kind: str) -> None:
    spec = spec_of(typed, kind)
    given = messages(typed, lambda at: at)
    wanted = in_order(expected(typed, spec, given))
    whole, single = operator(typed, spec), operator(typed, spec)
    whole.add_messages(given[::2] if spec.time else given)
    whole.add_messages(given[1::2] if spec.time else [], final=True)
    assert row_differences("row", in_order(whole.get_result().to_dicts()), wanted) == []
    for message in given:
        fields = {n: v for n, v in message.items() if n not in ("k", "t")}
        time = {"time": message["t"]} if spec.time else {}
        single.add_message(key=message["k"], value=fields, **time)
    single.add_messages([], final=True)
    assert row_differences("row", in_order(single.get_result().to_dicts()), wanted) == []
    reasons = set(whole.rejected["reason"]) | set(single.rejected["reason"])
    assert reasons <= {"overflow"}


@pytest.mark.parametrize("typed", TYPES, ids=lambda typed: typed.name)
def test_refusals(typed: Typed) -> None:
    for name in sorted(list_unsupported_aggregates(typed)):
        spec = WindowSpec(("k",), "t", KINDS["tumbling"], {"x": AGGREGATES[name]})
        with pytest.raises(OptionError, match=r"^agg='.*' reads a column of type "):
            operator(typed, spec)
