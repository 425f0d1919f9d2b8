"""Properties of joins: the engine agrees with the oracle and with DuckDB."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.join_runners import (
    EngineJoinRunner,
    JoinBatch,
    JoinRun,
    OracleJoinRunner,
    StandaloneJoinRunner,
)
from tests.property.agreement import join_differences
from tests.property.joins import EARLY, Query, queries

from muntin.model.bounds import AsOf, SessionBound, Together, Within
from muntin.model.joins import HOWS, SIDES, How, JoinSpec, Side
from muntin.model.policies import Each, Every
from muntin.state import runs

RUNNERS = [
    EngineJoinRunner(),
    EngineJoinRunner(shards=3),
    EngineJoinRunner(shards=2, restart=True),
    EngineJoinRunner(repeat=True),
]


@pytest.mark.parametrize("runner", RUNNERS, ids=lambda runner: runner.name)
@given(query=queries())
def test_engine_says_what_the_oracle_says(runner: EngineJoinRunner, query: Query) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "MAX_RUNS", 2)
        assert join_differences(runner, query.spec, query.types, query.steps) == []


@given(query=queries())
def test_every_message_is_accounted_for(query: Query) -> None:
    for step in EngineJoinRunner(shards=2).run(query.spec, query.types, query.steps):
        counts = step.counts
        assert counts["seen"] == sum(n for name, n in counts.items() if name != "seen")
        assert len(step.rejected) == sum(
            n for name, n in counts.items() if name not in ("seen", "counted", "duplicates")
        )


@settings(max_examples=max(1, settings.default.max_examples // 3))  # type: ignore[union-attr]
@given(query=queries(), restart=st.booleans(), single=st.booleans())
def test_a_side_sends_on_each_message_that_it_counts_once(
    query: Query, restart: bool, single: bool
) -> None:
    runner = StandaloneJoinRunner(restart=restart, single=single, outputs=True)
    steps = [*query.steps, JoinBatch(wall=query.steps[-1].wall, final=True)]
    run = JoinRun(runner, query.spec, query.types, Path(), steps[0].wall)
    counted = sum(run.step(step).counts["counted"] for step in steps)
    assert counted == sum(map(len, run.window_outputs.values()))
    for side in SIDES:
        names = query.types[side]
        received, sent = (
            Counter(tuple(message[name] for name in names) for message in messages)
            for messages in (
                (m for step in steps for m in step.side(side)),
                run.window_outputs[side],
            )
        )
        assert sent <= received


@pytest.mark.parametrize("how", HOWS)
@given(data=st.data())
def test_rows_are_those_of_duckdb_however_the_input_arrives(how: How, data: st.DataObject) -> None:
    query = data.draw(queries(how=how, policies=EARLY, orderly=True))
    rows = [
        tuple(v for name, v in row.items() if name != "emission")
        for step in EngineJoinRunner(shards=2).run(query.spec, query.types, query.steps)
        for row in step.rows
    ]
    assert sorted(rows, key=repr) == sorted(join_in_duckdb(query), key=repr)


@given(query=queries(policies=[Every(20), Every(50)]))
def test_policies_change_when_rows_are_told_and_not_which(query: Query) -> None:
    query.steps.append(JoinBatch(wall=query.steps[-1].wall, final=True))
    spec = at_once = query.spec
    for name in SIDES:
        side = spec.side(name)
        # A message that expires by its own side's clock may be gone before its trigger fires.
        firing = replace(side.firing, retention=side.firing.grace)
        spec = spec.with_side(name, replace(side, firing=firing))
        each = replace(firing, early=Each(), late=Each())
        at_once = at_once.with_side(name, replace(side, firing=each))
    results = []
    for joining in (spec, at_once):
        steps = EngineJoinRunner().run(joining, query.types, query.steps)
        rows = [tuple(v for n, v in r.items() if n != "emission") for s in steps for r in s.rows]
        results.append(sorted(rows, key=repr))
    assert results[0] == results[1]


def join_in_duckdb(query: Query) -> list[tuple[Any, ...]]:
    """Return the join of all messages at once, computed by DuckDB."""
    spec, how = query.spec, query.spec.how
    tables = {
        side: pl.DataFrame(
            [m for step in query.steps for m in step.side(side)],
            schema={"key": pl.String, "time": pl.Int64, "id": pl.Int64},
        )
        for side in ("left", "right")
    }
    kind = how.upper() if how in ("semi", "anti") else f"{how.upper()} OUTER"
    kind = "INNER" if how == "inner" else kind
    columns = "L.key, L.time, L.id"
    if how not in ("semi", "anti"):
        columns = "coalesce(L.key, R.key), L.time, L.id, R.time, R.id"
    connection = duckdb.connect()
    for side, name in (("left", "L"), ("right", "R")):
        connection.register(name, tables[side])
    if isinstance(spec.bound, AsOf):
        return connection.execute(_format_version_join(spec.bound, how)).fetchall()
    if isinstance(spec.bound, SessionBound):
        _number_sessions(connection, spec.bound.sessions.reach)
    condition = _format_condition(spec.bound)
    join = f"SELECT {columns} FROM L {kind} JOIN R ON L.key = R.key AND {condition}"
    return connection.execute(join).fetchall()


def _format_version_join(bound: AsOf, how: How) -> str:
    """Return the query of a join that gives each left message the newest right one at its time."""
    near = "true" if bound.most is None else f"L.time - V.time <= {bound.most}"
    newest = "SELECT * FROM R WHERE R.key = L.key AND R.time <= L.time"
    newest += " ORDER BY R.time DESC, R.id DESC LIMIT 1"
    return f"""
        SELECT L.key, L.time, L.id, V.time, V.id
        FROM L {how.upper()} JOIN LATERAL ({newest}) AS V ON {near}
    """


def _number_sessions(connection: duckdb.DuckDBPyConnection, reach: int) -> None:
    """Number the sessions of both tables."""
    connection.execute(
        f"""
        CREATE TABLE positions AS
        WITH every AS (SELECT key, time FROM L UNION SELECT key, time FROM R),
        gaps AS (
            SELECT *, time - lag(time) OVER (PARTITION BY key ORDER BY time) >= {reach} AS far
            FROM every
        )
        SELECT key, time, sum(coalesce(far, true)::INT) OVER (PARTITION BY key ORDER BY time) AS s
        FROM gaps
        """
    )
    for name in ("L", "R"):
        connection.execute(
            f"CREATE TABLE of_{name} AS FROM {name} JOIN positions USING (key, time)"
        )
        connection.unregister(name)
        connection.execute(f"ALTER TABLE of_{name} RENAME TO {name}")


def _format_condition(bound: Any) -> str:
    if isinstance(bound, SessionBound):
        return "L.s = R.s"
    if isinstance(bound, Within):
        return f"R.time - L.time BETWEEN {-bound.before} AND {bound.after}"
    assert isinstance(bound, Together)
    shared = []
    for windows in bound.windows:
        low, high = "least(L.time, R.time)", "greatest(L.time, R.time)"
        # The longest of cumulating windows contains all others.
        slide = getattr(windows, "slide", windows.size)
        slot = f"(({low} - {windows.origin})::DOUBLE / {slide})"
        last = f"floor({slot})::BIGINT * {slide} + {windows.origin}"
        shared.append(f"{high} < {last} + {windows.size}")
    return " AND ".join(shared)


@given(data=st.data())
def test_a_limit_of_rows_bounds_what_is_kept_and_loses_no_row_of_an_outer_join(
    data: st.DataObject,
) -> None:
    query = data.draw(queries(how="full", policies=EARLY, orderly=True, limit=3))
    emitted = EngineJoinRunner(restart=True).run(query.spec, query.types, query.steps)
    rows = [row for step in emitted for row in step.rows]
    for side, name in (("left", "id"), ("right", "id_right")):
        ids = [m["id"] for step in query.steps for m in step.side(side)]
        paired_ids = {
            row[name] for row in rows if row["id"] is not None and row["id_right"] is not None
        }
        unmatched_ids = [row[name] for row in rows if None in (row["id"], row["id_right"])]
        unmatched_ids = [number for number in unmatched_ids if number is not None]
        assert sorted(unmatched_ids) == sorted(set(ids) - paired_ids)


@pytest.mark.parametrize("how", ["inner", "left", "full"])
@given(data=st.data())
def test_no_row_lies_further_behind_than_the_spec_says(how: How, data: st.DataObject) -> None:
    query = data.draw(queries(how=how, policies=EARLY))
    lag, greatest = query.spec.lag, None
    if lag is None:
        assert query.spec.axis == "rows" or isinstance(query.spec.bound, SessionBound)
        return
    for step in EngineJoinRunner().run(query.spec, query.types, query.steps):
        times = [row["time"] for row in step.rows if row["time"] is not None]
        assert greatest is None or all(time >= greatest - lag for time in times)
        greatest = max([*times, *([] if greatest is None else [greatest])], default=None)


def test_oracle_pairs_a_message_with_partners_that_come_after_others_were_dropped() -> None:
    sides = (Side(("key",), "time"), Side(("key",), "time"))
    spec = JoinSpec(*sides, Within(0, 1_000))
    types = {side: {"key": "string", "time": "long", "id": "long"} for side in SIDES}
    steps = [
        JoinBatch(
            left=[{"key": "b" if at else "a", "time": at, "id": at}] if at % 10 == 0 else [],
            right=[{"key": "a", "time": at, "id": at}],
        )
        for at in range(300)
    ]
    rows = [row for step in OracleJoinRunner().run(spec, types, steps) for row in step.rows]
    assert sorted(row["id_right"] for row in rows) == [*range(300)]
