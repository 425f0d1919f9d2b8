"""Windows of two streams, joined by key and window, and windows over the pairs, without Spark.

The values of orders and shipments are summed by shop in windows of ten seconds, joined by shop and
window, and summed again in windows of twenty.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from tests.join_oracle import JoinOracle
from tests.spark.feed import DAY, at

from muntin.model import aggregates
from muntin.model.axis import SECOND
from muntin.standalone import JoinWindow, WindowedAggregator, join, windowed
from muntin.testing.oracle import Oracle

# A shop, a second of the day, and a value; of each step those of orders and of shipments.
Message = tuple[str | None, float, int]
Step = tuple[Sequence[Message], Sequence[Message]]
Rows = list[tuple[Any, ...]]

LATENESS = "5 seconds"
ON = ["key", "window_start", "window_end"]
# What ends all windows, of the chain too.
CLOSING: list[Step] = [([("z", end, 0)], [("z", end, 0)]) for end in (1000, 2000, 3000)]


def to_micros(second: float) -> int:
    """Return a second of the day in microseconds since the epoch."""
    return round(at(second).timestamp() * SECOND)


def make_specs() -> tuple[Any, Any, Any]:
    """Return the specs of the windows of a side, the join, and the windows over it."""
    inner = windowed(key="key", time="at", lateness=LATENESS).tumbling("10 seconds")
    side = windowed(time="window_end", max_ahead=None)
    outer = windowed(key="key", time="window_time", max_ahead=None).tumbling("20 seconds")
    return (
        inner.agg(total=aggregates.sum("value")),
        join(side, side, on=ON, how="full"),
        outer.agg(
            n=aggregates.count(),
            orders=aggregates.sum("total"),
            shipped=aggregates.sum("total_right"),
        ),
    )


def make_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages as dictionaries."""
    return [{"key": k, "at": to_micros(s), "value": v} for k, s, v in messages]


def run_oracles(steps: Sequence[Step]) -> Rows:
    """Run the chain on oracles, each over the output of the one before."""
    inner, joining, outer = make_specs()
    sides, wall = (Oracle(inner), Oracle(inner)), to_micros(4000)
    pairs = JoinOracle(joining, {"left": [*ON, "total"], "right": [*ON, "total"]})
    outer_oracle, firings = Oracle(outer), []
    for step in steps:
        side_firings = [
            _select_join_columns(oracle.step(make_messages(messages), wall).firings)
            for oracle, messages in zip(sides, step, strict=True)
        ]
        pair_rows = pairs.step({"left": side_firings[0], "right": side_firings[1]}, wall).rows
        firings += outer_oracle.step(_add_window_time(pair_rows), wall).firings
    return format_windows(firings)


def run_operators(steps: Sequence[Step]) -> Rows:
    """Run the chain on operators, each over the output of the one before."""
    inner, joining, outer = make_specs()
    input_schema = {"key": str, "value": int}
    sides = (
        WindowedAggregator(inner, schema=input_schema),
        WindowedAggregator(inner, schema=input_schema),
    )
    sum_schema = {"key": str, "total": int}
    pair_schema = {**sum_schema, "window_start": int}
    pairs = JoinWindow(joining, schema={"left": pair_schema, "right": pair_schema})
    outer_operator = WindowedAggregator(outer, schema={**sum_schema, "total_right": int})
    firings: list[dict[str, Any]] = []
    for step in steps:
        for side, messages in zip(sides, step, strict=True):
            if messages:
                side.add_messages(make_messages(messages))
        left, right = (_select_join_columns(_take_output(side)) for side in sides)
        if left or right:
            pairs.add_messages(left=left or None, right=right or None)
        pair_rows = _add_window_time(_take_output(pairs))
        if pair_rows:
            outer_operator.add_messages(pair_rows)
        firings += _take_output(outer_operator)
    return format_windows(firings)


def _take_output(operator: Any) -> list[dict[str, Any]]:
    frame = operator.get_result()
    operator.flush()
    return [convert_times(row) for row in frame.to_dicts()]


def convert_times(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its times in microseconds."""
    return {
        name: (value - DAY) // timedelta(microseconds=1) + to_micros(0)
        if isinstance(value, datetime)
        else value
        for name, value in row.items()
    }


def _select_join_columns(firings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return windows as messages of the join."""
    return [{name: row[name] for name in (*ON, "total")} for row in firings]


def _add_window_time(pairs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return pairs as messages of the windows over them."""
    return [{**row, "window_time": row["window_end"] - 1} for row in pairs]


def format_windows(rows: list[dict[str, Any]]) -> Rows:
    """Return the windows of shops, with their start in seconds, without those of ``CLOSING``."""
    day_start = to_micros(0)
    return sorted(
        (
            (r["key"], (r["window_start"] - day_start) // SECOND, r["n"], r["orders"], r["shipped"])
            for r in rows
            if r["key"] != "z"
        ),
        key=repr,
    )
