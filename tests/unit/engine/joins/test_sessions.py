"""Sessions that two sides make up together."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from muntin.engine import columns
from muntin.engine.joins.joiner import Joiner
from muntin.engine.joins.reading import AxisRange, read_join_messages, read_join_sessions
from muntin.engine.joins.sessions import LAST
from muntin.engine.joins.shard import JoinShard
from muntin.engine.state_reader import read_side_messages
from muntin.model.bounds import Bound, SessionBound, SideName, Within
from muntin.model.joins import SIDES, How, JoinSpec, Side
from muntin.model.policies import Each, Firing
from muntin.model.sessions import Sessions
from muntin.state.blobs import MemoryBlobs
from muntin.state.frame_cache import FrameCache
from muntin.state.frames import decode_frame, encode_frame
from muntin.state.manifest import parse_manifest

# What the engine itself calls places, rows and sessions, or did.
ORDINARY = ["last", "first", "new", "at", "row", "group", "part", "grows", "met", "place", "n"]
GAP = SessionBound(Sessions(10))


class Run:
    """A join of ``key``, ``time`` and one more column, opened anew for each step."""

    def __init__(
        self,
        name: str,
        kind: Any = pl.Int64,
        how: How = "inner",
        bound: Bound = GAP,
        grace: int = 0,
    ) -> None:
        firing = Firing(Each(), Each(), grace=grace, retention=grace)
        side = Side(("key",), "time", firing=firing)
        self.name = name
        self.schema = pl.Schema({"key": pl.String, name: kind, columns.TIME: pl.Int64})
        self.joiner = Joiner(JoinSpec(side, side, bound, how), dict.fromkeys(SIDES, self.schema))
        self.store = MemoryBlobs()

    def opened(self) -> JoinShard:
        return JoinShard(self.joiner, self.store, FrameCache())

    def step(self, left: list[Any] = [], right: list[Any] = [], **options: Any) -> Any:  # noqa: B006
        given = {"left": left, "right": right}
        frames: dict[SideName, pl.DataFrame] = {
            side: pl.DataFrame(
                [("a", value, time) for value, time in given[side]], self.schema, orient="row"
            )
            for side in SIDES
        }
        arrived = {side: [self.joiner.arrive(side, frames[side])] for side in SIDES}
        return self.opened().step(arrived, 0, **options)

    def values(self, emitted: Any) -> list[tuple[Any, ...]]:
        found = emitted.results.select(self.name, f"{self.name}_right").rows()
        return sorted(found, key=repr)


@pytest.mark.parametrize(("kind", "values"), [(pl.Int64, [7, 8, 9]), (pl.String, ["x", "y", "z"])])
@pytest.mark.parametrize("name", ORDINARY)
def test_columns_may_have_ordinary_names(name: str, kind: Any, values: list[Any]) -> None:
    run, (one, two, three) = Run(name, kind, "full"), values
    run.step([(one, 100)])
    assert run.values(run.step([], [(two, 105)])) == [(one, two)]
    assert run.values(run.step([(three, 112)])) == [(three, two)]
    shard = run.opened()
    kept = read_join_messages(shard, "left", AxisRange(None, None))
    assert kept.select("key", name, columns.TIME).rows() == [("a", one, 100), ("a", three, 112)]
    whole = ("window_start", "window_end", "left", "right")
    found = read_join_sessions(shard, AxisRange(None, None))
    assert found.select(whole).rows() == [(100, 122, 2, 1)]
    (read,) = read_from_outside(run, "left")
    assert sorted(read[name]) == sorted([one, three])
    emitted = run.step([(one, 200)], final=True)
    assert run.values(emitted) == [(one, None)]


def read_from_outside(run: Run, side: str) -> list[pl.DataFrame]:
    return read_side_messages(parse_manifest(run.store.load() or ""), side, run.store.blobs)[1]


def written_before(run: Run) -> None:
    """Turn what is stored into what it was when the place of a session was called ``last``."""
    for number, blob in run.store.blobs.items():
        frame = decode_frame(blob)
        names = [name for name in frame.columns if name != LAST]
        old = frame.with_columns(pl.col(LAST).alias("last"))
        if "last" not in names:
            names.insert(frame.columns.index(LAST), "last")
        run.store.blobs[number] = encode_frame(old.select(names))


@pytest.mark.parametrize(("name", "known"), [("value", 7), ("last", None)])
def test_what_an_earlier_version_stored_is_read(name: str, known: int | None) -> None:
    # The places of sessions had taken the place of the user's values.
    run = Run(name, how="full")
    run.step([(7, 100)], [(5, 80)])
    written_before(run)
    (read,) = read_from_outside(run, "left")
    assert read[LAST].to_list() == [100]
    alone = (None, known and 5)
    assert set(run.values(run.step([], [(8, 105)]))) == {(known, 8), alone}
    assert run.values(run.step([(9, 112)])) == [(9, 8)]
    assert run.values(run.step(final=True)) == []


@pytest.mark.parametrize("value", [0, 10**9])
def test_a_column_called_last_says_nothing_of_other_joins(value: int) -> None:
    run = Run("last", bound=Within(20, 20))
    run.step([(value, 100), (value, 180)], [(value, 170)])
    (read,) = read_from_outside(run, "left")
    assert read.select("last", columns.TIME).rows() == [(value, 180)]


@pytest.mark.parametrize("grace", [0, 5])
def test_a_message_is_judged_by_the_session_that_it_would_be_of(grace: int) -> None:
    run, over = Run("value", grace=grace), 100 - grace - GAP.sessions.reach
    run.step([(1, 100)])
    assert run.step([(2, over - 50)]).counts.get("late") is None
    run.step([], [(3, 100)])
    emitted = run.step([(4, over)], [(5, over)])
    assert emitted.rejected.select("side", "value").rows() == [("left", 4), ("right", 5)]
    emitted = run.step([(6, over + 1), (7, over - 9)], [(8, over - 19)])
    assert emitted.counts["late"] == 2
    assert {(6, 8), (7, 8)} <= set(run.values(emitted))


def test_a_late_message_is_let_in_where_it_bridges_to_a_session_that_grows() -> None:
    run = Run("value")
    run.step([(1, 100)], [(2, 100)])
    emitted = run.step([(3, 80), (4, 90)], [(5, 70)])
    assert emitted.counts.get("late") is None
    assert run.values(emitted) == [(1, 5), (3, 2), (3, 5), (4, 2), (4, 5)]
