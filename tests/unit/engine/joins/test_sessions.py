"""Tests of joins by sessions that span both sides."""

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
from muntin.state.frames import FrameCache, decode_frame, encode_frame
from muntin.state.manifest import parse_manifest

# Names that the engine uses, or used, for its own columns.
ORDINARY = ["last", "first", "new", "at", "row", "group", "part", "grows", "met", "place", "n"]
GAP = SessionBound(Sessions(10))


class Run:
    """A join of ``key``, ``time`` and one column, which opens its shard again at each step."""

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

    def open_shard(self) -> JoinShard:
        return JoinShard(self.joiner, self.store, FrameCache())

    def step(self, left: list[Any] = [], right: list[Any] = [], **options: Any) -> Any:  # noqa: B006
        values_by_side = {"left": left, "right": right}
        frames: dict[SideName, pl.DataFrame] = {
            side: pl.DataFrame(
                [("a", value, time) for value, time in values_by_side[side]],
                self.schema,
                orient="row",
            )
            for side in SIDES
        }
        arrived = {side: [self.joiner.arrive(side, frames[side])] for side in SIDES}
        return self.open_shard().step(arrived, 0, **options)

    def read_values(self, emitted: Any) -> list[tuple[Any, ...]]:
        rows = emitted.results.select(self.name, f"{self.name}_right").rows()
        return sorted(rows, key=repr)


@pytest.mark.parametrize(("kind", "values"), [(pl.Int64, [7, 8, 9]), (pl.String, ["x", "y", "z"])])
@pytest.mark.parametrize("name", ORDINARY)
def test_columns_may_have_ordinary_names(name: str, kind: Any, values: list[Any]) -> None:
    run, (first, second, third) = Run(name, kind, "full"), values
    run.step([(first, 100)])
    assert run.read_values(run.step([], [(second, 105)])) == [(first, second)]
    assert run.read_values(run.step([(third, 112)])) == [(third, second)]
    shard = run.open_shard()
    stored_messages = read_join_messages(shard, "left", AxisRange(None, None))
    assert stored_messages.select("key", name, columns.TIME).rows() == [
        ("a", first, 100),
        ("a", third, 112),
    ]
    session_columns = ("window_start", "window_end", "left", "right")
    sessions = read_join_sessions(shard, AxisRange(None, None))
    assert sessions.select(session_columns).rows() == [(100, 122, 2, 1)]
    (outside_frame,) = read_from_outside(run, "left")
    assert sorted(outside_frame[name]) == sorted([first, third])
    emitted = run.step([(first, 200)], final=True)
    assert run.read_values(emitted) == [(first, None)]


def read_from_outside(run: Run, side: str) -> list[pl.DataFrame]:
    return read_side_messages(parse_manifest(run.store.load() or ""), side, run.store.blobs)[1]


def restore_old_format(run: Run) -> None:
    """Rewrite the blobs in the older format, where the last position of a session was ``last``."""
    for number, blob in run.store.blobs.items():
        frame = decode_frame(blob)
        names = [name for name in frame.columns if name != LAST]
        old = frame.with_columns(pl.col(LAST).alias("last"))
        if "last" not in names:
            names.insert(frame.columns.index(LAST), "last")
        run.store.blobs[number] = encode_frame(old.select(names))


@pytest.mark.parametrize(("name", "old_value"), [("value", 7), ("last", None)])
def test_state_of_an_earlier_version_is_read(name: str, old_value: int | None) -> None:
    # The last positions of sessions had overwritten the user's column of this name.
    run = Run(name, how="full")
    run.step([(7, 100)], [(5, 80)])
    restore_old_format(run)
    (outside_frame,) = read_from_outside(run, "left")
    assert outside_frame[LAST].to_list() == [100]
    unmatched = (None, old_value and 5)
    assert set(run.read_values(run.step([], [(8, 105)]))) == {(old_value, 8), unmatched}
    assert run.read_values(run.step([(9, 112)])) == [(9, 8)]
    assert run.read_values(run.step(final=True)) == []


@pytest.mark.parametrize("value", [0, 10**9])
def test_a_column_called_last_is_an_ordinary_one_in_other_joins(value: int) -> None:
    run = Run("last", bound=Within(20, 20))
    run.step([(value, 100), (value, 180)], [(value, 170)])
    (outside_frame,) = read_from_outside(run, "left")
    assert outside_frame.select("last", columns.TIME).rows() == [(value, 180)]


@pytest.mark.parametrize("grace", [0, 5])
def test_whether_a_message_is_late_depends_on_its_session(grace: int) -> None:
    run, late_time = Run("value", grace=grace), 100 - grace - GAP.sessions.reach
    run.step([(1, 100)])
    assert run.step([(2, late_time - 50)]).counts.get("late") is None
    run.step([], [(3, 100)])
    emitted = run.step([(4, late_time)], [(5, late_time)])
    assert emitted.rejected.select("side", "value").rows() == [("left", 4), ("right", 5)]
    emitted = run.step([(6, late_time + 1), (7, late_time - 9)], [(8, late_time - 19)])
    assert emitted.counts["late"] == 2
    assert {(6, 8), (7, 8)} <= set(run.read_values(emitted))


def test_a_late_message_is_accepted_where_it_bridges_to_an_open_session() -> None:
    run = Run("value")
    run.step([(1, 100)], [(2, 100)])
    emitted = run.step([(3, 80), (4, 90)], [(5, 70)])
    assert emitted.counts.get("late") is None
    assert run.read_values(emitted) == [(1, 5), (3, 2), (3, 5), (4, 2), (4, 5)]
