"""Trailing windows emit the same for any division of the input, and agree with DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import duckdb
from hypothesis import given, settings
from tests.property.streams import Range, Twins, twins_in_time
from tests.runners import Batch, EngineRunner
from tests.transcripts.comparison import row_differences

from muntin import count, max, min
from muntin.model.spec import WindowSpec
from muntin.model.trailing import LOOK_BACK, Trailing

TRAILING = Range(("trailing",), keyless=True)
FEWER = settings(max_examples=settings.default.max_examples // 2)
Row = tuple[Any, ...]


@FEWER
@given(twins=twins_in_time(TRAILING))
def test_rows_are_the_same_however_the_input_is_cut(twins: Twins) -> None:
    # The last bit of a variance depends on the order of the values.
    names = (*twins.spec.keys, "window_end", "revision", "emission")
    first, second = (
        sorted(list_rows(twins.spec, steps), key=lambda row: repr([row[name] for name in names]))
        for steps in (twins.first, twins.second)
    )
    assert row_differences("row", first, second) == []


@FEWER
@given(twins=twins_in_time(TRAILING))
def test_the_newest_rows_are_those_of_duckdb(twins: Twins) -> None:
    aggregates = {"n": count(), "least": min("value"), "most": max("value")}
    spec = replace(twins.spec, aggregates=aggregates)
    table: dict[Row, Row] = {}
    for row in list_rows(spec, twins.first):
        identity = tuple(row[name] for name in spec.keys)
        # Rows of one key follow each other in time.
        table.pop(identity, None)
        if row["emission"] != "retract":
            table[identity] = tuple(row[name] for name in aggregates)
    assert table == compute_newest(spec, twins.first)


def list_rows(spec: WindowSpec, steps: Sequence[Batch]) -> list[dict[str, Any]]:
    """Return the rows that the engine emits, in the order of their instants."""
    rows = [row for step in EngineRunner(2).run(spec, steps) for row in step.firings]
    return sorted(rows, key=lambda row: row["window_end"])


def compute_newest(spec: WindowSpec, steps: Sequence[Batch]) -> dict[Row, Row]:
    """Return the values of each key and look-back at the first instant after all messages."""
    windows = spec.windows
    assert isinstance(windows, Trailing)
    messages = [m for step in steps for m in step.messages if isinstance(m["time"], int)]
    if not messages:
        return {}
    latest = sorted(message["time"] for message in messages)[-1]
    now = latest - (latest - windows.origin) % windows.every + windows.every
    keys = "".join(f"{name}, " for name in spec.key_columns)
    conditions = " AND ".join(f"{name} IS NOT NULL" for name in spec.non_null_keys) or "true"
    kind = "VARCHAR" if spec.types["key"] == "string" else "BIGINT"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE messages (key {kind}, time BIGINT, value BIGINT)")
        cells = [[message[name] for name in ("key", "time", "value")] for message in messages]
        connection.executemany("INSERT INTO messages VALUES (?, ?, ?)", cells)
        rows = connection.execute(
            f"SELECT {keys} {LOOK_BACK}, count(*), min(value), max(value) FROM messages, "
            f"(SELECT unnest(?::VARCHAR[]) AS {LOOK_BACK}, unnest(?::BIGINT[]) AS size) "
            f"WHERE time >= ? - size AND time < ? AND {conditions} GROUP BY ALL",
            [list(windows.labels), list(windows.sizes), now, now],
        ).fetchall()
    width = len(spec.keys)
    return {row[:width]: row[width:] for row in rows}
