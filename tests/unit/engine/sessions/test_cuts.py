from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest

from muntin.engine import columns
from muntin.engine.sessions.combine import SessionCombiner
from muntin.engine.sessions.cuts import find_cuts
from muntin.model import aggregates
from muntin.model.errors import OptionError
from muntin.model.sessions import Sessions
from muntin.model.spec import WindowSpec

SCHEMA = pl.Schema(
    {
        "key": pl.Int64(),
        "opens": pl.Boolean(),
        "leaves": pl.Boolean(),
        "state": pl.String(),
        "share": pl.Float64(),
        columns.TIME: pl.Int64(),
    }
)


def build_combiner(windows: Sessions) -> SessionCombiner:
    spec = WindowSpec(("key",), "time", windows, {"n": aggregates.count()})
    return SessionCombiner(spec, SCHEMA)


def lift_cells(messages: pl.DataFrame, combiner: SessionCombiner) -> pl.DataFrame:
    input_frame = pl.DataFrame(schema=SCHEMA).select(pl.exclude(messages.columns))
    input_frame = pl.concat([messages, input_frame], how="diagonal").cast(dict(SCHEMA))
    combined = combiner.combine(input_frame, None)
    cells = combined.cells if combined.raw is None else combiner.lift(combined.raw)
    return cells.sort(*combiner.keys, columns.PANE)


def random_messages(count: int) -> pl.DataFrame:
    """Return messages of three keys, several of which share a time."""
    random = np.random.default_rng(7)
    states = random.choice(["on", "off", "none"], count)
    return pl.DataFrame(
        {
            "key": random.integers(0, 3, count),
            columns.TIME: random.integers(0, 2 * count, count),
            "leaves": random.random(count) < 0.1,
            "state": pl.Series(states).replace("none", None),
        }
    )


# Cells, and the number of the session of each: a new one begins after a gap, an end or a change.
QUERY = """
WITH cells AS (
    SELECT key, time, bool_or(leaves) AS leaves, count(*) AS n, min(state) AS low,
        max(state) AS high, count(DISTINCT coalesce(state, '')) > 1 AS mixed
    FROM messages GROUP BY key, time
), steps AS (
    SELECT *, coalesce(
        time - lag(time) OVER k > 10 OR lag(leaves) OVER k OR mixed OR lag(mixed) OVER k
        OR high IS DISTINCT FROM lag(high) OVER k, true
    ) AS begins
    FROM cells WINDOW k AS (PARTITION BY key ORDER BY time)
), numbered AS (
    SELECT *, sum(begins::INT) OVER (ORDER BY key, time) - 1 AS number,
        lead(time) OVER (PARTITION BY key ORDER BY time) AS next
    FROM steps
)
SELECT number, CASE
    WHEN arg_max(leaves, time) THEN max(time)
    ELSE least(max(time) + 10, coalesce(last(next ORDER BY time), 1000000)) END AS closes,
    sum(n) AS n
FROM numbered GROUP BY number ORDER BY number
"""


def test_sessions_are_those_of_window_functions() -> None:
    rows = random_messages(4000)
    combiner = build_combiner(Sessions(10, end="leaves", same="state"))
    cells = lift_cells(rows, combiner)
    cuts = find_cuts(cells, combiner)
    assert cuts.is_inside.all()
    counts = np.bincount(cuts.number, cells[columns.MESSAGES].to_numpy())
    # DuckDB finds the frame by the name of this variable.
    messages_table = rows.rename({columns.TIME: "time"})
    connection = duckdb.connect()
    connection.register("messages", messages_table.to_arrow())
    expected = connection.execute(QUERY).fetchall()
    assert len(expected) > 500
    assert list(zip(cuts.end.tolist(), counts.astype(int).tolist(), strict=True)) == [
        (end, n) for _, end, n in expected
    ]


def test_rows_of_one_cell_have_one_session() -> None:
    combiner = build_combiner(Sessions(10, start="opens", end="leaves", same="state"))
    rows = random_messages(600).with_columns(opens=pl.col("leaves").shift(3))
    cells = lift_cells(rows, combiner)
    halves = pl.concat([lift_cells(rows[:300], combiner), lift_cells(rows[300:], combiner)])
    halves = halves.sort(*combiner.keys, columns.PANE, maintain_order=True)
    assert len(halves) > len(cells)
    cell = pl.col(*combiner.keys, columns.PANE)
    whole_sessions, half_sessions = (
        frame.select(cell).with_columns(pl.Series("number", find_cuts(frame, combiner).number))
        for frame in (cells, halves)
    )
    assert whole_sessions["number"].min() == -1
    assert half_sessions.unique(maintain_order=True).equals(whole_sessions)


def test_no_cells_have_no_sessions() -> None:
    combiner = build_combiner(Sessions(10, end="leaves"))
    cuts = find_cuts(combiner.no_cells, combiner)
    assert (len(cuts.number), len(cuts.last), len(cuts.end)) == (0, 0, 0)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"end": "nowhere"}, "end='nowhere' isn't a column"),
        ({"start": "state"}, "start='state' has type String, not true or false"),
        ({"same": "share"}, "same='share' has type Float64"),
    ],
)
def test_columns_that_cannot_cut_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        build_combiner(Sessions(10, **options))
