"""The oracle's last revisions are what DuckDB computes from all of the messages at once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from tests.doors import Batch, OracleDoor
from tests.property.streams import Twins, twins_in_time

from muntin.model import aggregates
from muntin.model.spec import WindowSpec

duckdb = pytest.importorskip("duckdb")

AGGREGATES = {
    "n": aggregates.count(),
    "amount": aggregates.sum("amount"),
    "most": aggregates.max("value"),
}
QUERY = """
    WITH starts AS (SELECT unnest(range($first, $last, $slide)) AS start)
    SELECT key, start, count(*), sum(amount), max(value)
    FROM messages JOIN starts ON time >= start AND time < start + $size
    GROUP BY key, start
"""
Table = dict[tuple[Any, int], tuple[Any, ...]]


@given(twins=twins_in_time())
def test_last_revisions_are_those_of_duckdb(twins: Twins) -> None:
    spec = WindowSpec(**(vars(twins.spec) | {"aggregates": AGGREGATES}))
    assert last_revisions(spec, twins.one) == computed_at_once(spec, twins.other)


def last_revisions(spec: WindowSpec, steps: list[Batch]) -> Table:
    rows = [row for step in OracleDoor().run(spec, steps) for row in step.firings]
    return {
        (row["key"], row["window_start"]): tuple(row[name] for name in AGGREGATES) for row in rows
    }


def computed_at_once(spec: WindowSpec, steps: list[Batch]) -> Table:
    messages = [message for step in steps for message in step.messages]
    valid = [m for m in messages if isinstance(m["time"], int) and m["key"] is not None]
    if not valid:
        return {}
    windows = spec.windows
    times = [message["time"] for message in valid]
    before = (min(times) - windows.origin) // windows.slide - windows.size // windows.slide - 1
    bounds = {
        "first": windows.origin + before * windows.slide,
        "last": max(times) + 1,
        "slide": windows.slide,
        "size": windows.size,
    }
    key = {"long": "BIGINT", "string": "VARCHAR"}[spec.types["key"]]
    with duckdb.connect() as connection:
        columns = f"key {key}, time BIGINT, value BIGINT, amount DOUBLE"
        connection.execute(f"CREATE TABLE messages ({columns})")
        connection.executemany(
            "INSERT INTO messages VALUES (?, ?, ?, ?)",
            [(m["key"], m["time"], m["value"], m["amount"]) for m in valid],
        )
        rows = connection.execute(QUERY, bounds).fetchall()
    return {row[:2]: row[2:] for row in rows}
