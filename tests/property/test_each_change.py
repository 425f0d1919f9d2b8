"""Properties of joins at each change: agreement with the oracle, across cuts, and with DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.join_runners import EngineJoinRunner, JoinRunner, StandaloneJoinRunner
from tests.property.agreement import join_differences
from tests.property.changes import (
    TYPES,
    Arrival,
    arrival_lists,
    cuts,
    make_spec,
    queries,
    upsert_rows,
)
from tests.property.joined_chains import Message, convert_times, make_messages, to_micros
from tests.property.joins import Query
from tests.property.test_joined_chains import messages

from muntin.model import aggregates
from muntin.model.axis import SECOND
from muntin.model.joins import HOWS, SIDES, How
from muntin.standalone import JoinWindow, WindowedAggregator, join, windowed
from muntin.state import runs

RUNNERS: list[JoinRunner] = [
    EngineJoinRunner(),
    EngineJoinRunner(shards=3),
    EngineJoinRunner(shards=2, restart=True),
    EngineJoinRunner(repeat=True),
    StandaloneJoinRunner(),
    StandaloneJoinRunner(single=True),
]
BOUNDS = ["key", "window_start", "window_end"]
FEWER = settings(max_examples=max(1, settings.default.max_examples // 3))  # type: ignore[union-attr]


@pytest.mark.parametrize("runner", RUNNERS, ids=lambda runner: runner.name)
@FEWER
@given(query=queries())
def test_every_runner_says_what_the_oracle_says(runner: JoinRunner, query: Query) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "MAX_RUNS", 2)
        assert join_differences(runner, query.spec, query.types, query.steps) == []


@given(query=queries())
def test_every_firing_is_accounted_for(query: Query) -> None:
    for step in EngineJoinRunner(shards=2).run(query.spec, query.types, query.steps):
        counts = step.counts
        assert counts["seen"] == sum(n for name, n in counts.items() if name != "seen")
        assert counts["late"] + counts["null_key"] == len(step.rejected)


@pytest.mark.parametrize("how", HOWS[:4])
@FEWER
@given(data=st.data(), arrivals=arrival_lists())
def test_neither_cuts_nor_the_order_of_sides_change_the_table(
    how: How, data: st.DataObject, arrivals: list[Arrival]
) -> None:
    tables = []
    for order in (arrivals, data.draw(st.permutations(arrivals))):
        steps = data.draw(cuts(order))
        emitted = EngineJoinRunner(shards=2).run(make_spec(how, lateness=100), TYPES, steps)
        tables.append(upsert_rows(row for step in emitted for row in step.rows))
    assert tables[0] == tables[1]
    rows = {
        (*key, row["value"], row["value_right"], row["revision"]) for key, row in tables[0].items()
    }
    assert rows == join_newest_in_duckdb(how, arrivals)


def join_newest_in_duckdb(how: How, arrivals: Sequence[Arrival]) -> set[tuple[Any, ...]]:
    """Return the join of the newest rows of both sides, computed by DuckDB."""
    kinds = {"key": pl.String, "time": pl.Int64, "value": pl.Int64}
    schema = {**kinds, "emission": pl.String, "revision": pl.Int64}
    connection = duckdb.connect()
    for side in SIDES:
        rows = [row for arrival_side, row in arrivals if arrival_side == side]
        connection.register(f"all_{side}", pl.DataFrame(rows, schema=schema))
        connection.execute(
            f"""
            CREATE TABLE of_{side} AS FROM all_{side}
            QUALIFY row_number() OVER (PARTITION BY key, time ORDER BY revision DESC) = 1
            """
        )
    source = "FROM of_{0} WHERE emission <> 'retract'"
    kind = "INNER" if how == "inner" else f"{how.upper()} OUTER"
    return {*connection.execute(
        f"""
        SELECT key, time, l.value, r.value,
            coalesce(a.revision + 1, 0) + coalesce(b.revision + 1, 0) - 1
        FROM ({source.format("left")}) l {kind} JOIN ({source.format("right")}) r USING (key, time)
        LEFT JOIN of_left a USING (key, time) LEFT JOIN of_right b USING (key, time)
        """
    ).fetchall()}  # fmt: skip


@pytest.mark.parametrize("how", HOWS[:4])
@FEWER
@given(data=st.data(), left=messages(), right=messages())
def test_operators_hold_what_a_join_of_two_group_bys_gives(
    how: How, data: st.DataObject, left: list[Message], right: list[Message]
) -> None:
    side_windows = windowed(key="key", time="at").tumbling("10 seconds").early(each=True)
    side_windows = side_windows.late(grace="10 seconds", each=True).agg(
        total=aggregates.sum("value")
    )
    side = windowed(time="window_end", max_ahead=None).late(grace="10 seconds", each=True)
    pairs = JoinWindow(
        join(side, side, on=BOUNDS, how=how, each_change=True),
        schema=dict.fromkeys(SIDES, FIRING),
    )
    sides = [WindowedAggregator(side_windows, schema={"key": str, "value": int}) for _ in SIDES]
    emitted: list[dict[str, Any]] = []
    pending = [("left", row) for row in left], [("right", row) for row in right]
    while any(pending):
        number = data.draw(st.sampled_from([index for index in (0, 1) if pending[index]]))
        count = data.draw(st.integers(1, 4))
        rows = [row for _, row in pending[number][:count]]
        del pending[number][:count]
        sides[number].add_messages(make_messages(rows))
        firings = [convert_times(row) for row in sides[number].get_result().to_dicts()]
        sides[number].flush()
        if firings:
            pairs.add_messages(**{SIDES[number]: firings})
        emitted += [convert_times(row) for row in pairs.get_result().to_dicts()]
        assert pairs.rejected.is_empty()
        pairs.flush()
    table = upsert_rows(emitted, BOUNDS)
    totals = {(*key[:2], row["total"], row["total_right"]) for key, row in table.items()}
    assert totals == join_totals_in_duckdb(how, left, right)


FIRING = {
    "key": str, "window_start": int, "window_end": int, "total": int,
    "emission": str, "revision": int,
}  # fmt: skip


def join_totals_in_duckdb(
    how: How, left: Sequence[Message], right: Sequence[Message]
) -> set[tuple[Any, ...]]:
    connection = duckdb.connect()
    schema = {"key": pl.String, "second": pl.Int64, "value": pl.Int64}
    for name, rows in (("l", left), ("r", right)):
        connection.register(f"all_{name}", pl.DataFrame(rows, schema=schema, orient="row"))
        connection.execute(
            f"""
            CREATE TABLE {name} AS SELECT key, second // 10 * 10 AS start, sum(value) AS total
            FROM all_{name} WHERE key IS NOT NULL GROUP BY ALL
            """
        )
    kind = "INNER" if how == "inner" else f"{how.upper()} OUTER"
    query = f"SELECT key, start, l.total, r.total FROM l {kind} JOIN r USING (key, start)"
    groups = connection.execute(query).fetchall()
    return {(key, to_micros(0) + start * SECOND, *totals) for key, start, *totals in groups}
