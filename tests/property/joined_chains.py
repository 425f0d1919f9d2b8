"""Windows of two streams, joined by key and window, and windows over the pairs, without Spark.

Orders and shipments of some shops are summed up in windows of ten seconds, joined by shop and
window, and summed up again in windows of twenty.
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


def moment(second: float) -> int:
    """Microseconds since the epoch."""
    return round(at(second).timestamp() * SECOND)


def specs() -> tuple[Any, Any, Any]:
    """The windows of a side, the join, and the windows over it."""
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


def dictionaries(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages by the names of their fields."""
    return [{"key": k, "at": moment(s), "value": v} for k, s, v in messages]


def by_oracles(steps: Sequence[Step]) -> Rows:
    """What oracles over oracles emit."""
    inner, joining, outer = specs()
    sides, wall = (Oracle(inner), Oracle(inner)), moment(4000)
    pairs = JoinOracle(joining, {"left": [*ON, "total"], "right": [*ON, "total"]})
    whole, found = Oracle(outer), []
    for step in steps:
        firings = [
            _of_windows(one.step(dictionaries(given), wall).firings)
            for one, given in zip(sides, step, strict=True)
        ]
        made = pairs.step({"left": firings[0], "right": firings[1]}, wall).rows
        found += whole.step(_of_pairs(made), wall).firings
    return shown(found)


def by_operators(steps: Sequence[Step]) -> Rows:
    """What operators emit that are handed what those before them emitted."""
    inner, joining, outer = specs()
    one = {"key": str, "value": int}
    sides = WindowedAggregator(inner, schema=one), WindowedAggregator(inner, schema=one)
    two = {"key": str, "total": int}
    placed = {**two, "window_start": int}
    pairs = JoinWindow(joining, schema={"left": placed, "right": placed})
    whole = WindowedAggregator(outer, schema={**two, "total_right": int})
    found: list[dict[str, Any]] = []
    for step in steps:
        for side, given in zip(sides, step, strict=True):
            if given:
                side.add_messages(dictionaries(given))
        left, right = (_of_windows(_emitted(side)) for side in sides)
        if left or right:
            pairs.add_messages(left=left or None, right=right or None)
        made = _of_pairs(_emitted(pairs))
        if made:
            whole.add_messages(made)
        found += _emitted(whole)
    return shown(found)


def _emitted(operator: Any) -> list[dict[str, Any]]:
    frame = operator.get_result()
    operator.flush()
    return [in_micros(row) for row in frame.to_dicts()]


def in_micros(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its moments in microseconds."""
    return {
        name: (one - DAY) // timedelta(microseconds=1) + moment(0)
        if isinstance(one, datetime)
        else one
        for name, one in row.items()
    }


def _of_windows(firings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Windows as messages of the join."""
    return [{name: row[name] for name in (*ON, "total")} for row in firings]


def _of_pairs(pairs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Pairs as messages of the windows over them."""
    return [{**row, "window_time": row["window_end"] - 1} for row in pairs]


def shown(rows: list[dict[str, Any]]) -> Rows:
    """Windows of shops, with their begin in seconds, without those of what only ends them."""
    begin = moment(0)
    return sorted(
        (
            (r["key"], (r["window_start"] - begin) // SECOND, r["n"], r["orders"], r["shipped"])
            for r in rows
            if r["key"] != "z"
        ),
        key=repr,
    )
