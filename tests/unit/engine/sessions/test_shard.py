from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.engine.queries import SCHEMA, CountingBlobs, messages

from muntin.engine import columns
from muntin.engine.output import ShardOutput
from muntin.engine.sessions.combine import SessionCombiner
from muntin.engine.sessions.shard import SessionShard
from muntin.model import aggregates
from muntin.model.errors import SpecChangedError, StateCorruptedError
from muntin.model.policies import Each, Every, EveryRows, Firing, FirstThen, Policy
from muntin.model.sessions import Closed, Sessions
from muntin.model.spec import WindowSpec
from muntin.state.frames import FrameCache

Row = tuple[Any, ...]


class Run:
    """A shard and its store; the watermark follows the times of the messages.

    Args:
        restart: Whether each step opens a new shard on the stored state.
        cached: Size of the cache of frames, in bytes.
    """

    def __init__(
        self,
        gap: int = 10,
        closed: Closed = "both",
        *,
        lateness: int = 0,
        restart: bool = False,
        cached: int = 1 << 20,
        **firing: Any,
    ) -> None:
        firing.setdefault("retention", firing.get("grace", 0))
        self.spec = WindowSpec(
            keys=("key",),
            time="time",
            windows=Sessions(gap, closed),
            aggregates={"n": aggregates.count(), "list": aggregates.collect_list("value")},
            firing=Firing(**firing),
            lateness=lateness,
            types={"key": "String", "value": "Int64"},
        )
        self.query = SessionCombiner(self.spec, SCHEMA)
        self.store = CountingBlobs()
        self.restart = restart
        self.cached = cached
        self.shard = self.open_shard()

    def open_shard(self) -> SessionShard:
        return SessionShard(self.query, self.store, FrameCache(self.cached))

    def step(
        self, *rows: Row, wall: int = 0, reached: int | None = None, final: bool = False
    ) -> ShardOutput:
        """Take one step; ``reached`` is the greatest time of another shard's messages."""
        if self.restart:
            self.shard = self.open_shard()
        combined = self.query.combine(messages(rows), self.shard.state.watermark)
        times = [time for time in (combined.latest, reached) if time is not None]
        combined.latest = max(times, default=None)
        return self.shard.step([combined], wall, final=final)

    def emit(self, *rows: Row, **options: Any) -> list[Row]:
        """Take one step and return key, bounds, count, emission and revision of each emission."""
        emitted = self.step(*rows, **options).results
        gap = self.query.sessions.gap
        bounds = emitted.select("key", "window_start", pl.col("window_end") - gap)
        return [
            (*identity, *values)
            for identity, values in zip(
                bounds.rows(), emitted.select("n", "emission", "revision").rows(), strict=True
            )
        ]


def test_a_session_emits_when_it_has_ended() -> None:
    run = Run()
    assert run.emit(("a", 0), ("a", 10)) == []
    assert run.emit(reached=20) == []
    assert run.emit(reached=21) == [("a", 0, 10, 2, "full", 0)]
    assert run.emit(reached=99) == []


@pytest.mark.parametrize(("retention", "rows"), [(0, 1), (488, 1), (489, 2), (490, 3)])
def test_only_retained_sessions_are_stored(retention: int, rows: int) -> None:
    # The sessions that end at 11 and 12 start and expire within the batch, which ends at 500.
    run = Run(retention=retention)
    emitted = run.emit(("a", 0), ("b", 1), ("a", 500))
    assert emitted == [("a", 0, 0, 1, "full", 0), ("b", 1, 1, 1, "full", 0)]
    assert run.shard.sessions.rows == rows


def test_sessions_that_another_late_policy_wrote_begin_with_the_first() -> None:
    def restart_with(late: Policy) -> None:
        run.spec = replace(run.spec, firing=replace(run.spec.firing, late=late))
        run.query = SessionCombiner(run.spec, SCHEMA)
        run.shard = run.open_shard()

    run = Run(grace=90, late=EveryRows(2))
    run.step(("a", 0), ("a", 10))
    assert run.emit(("b", 40)) == [("a", 0, 10, 2, "full", 0)]
    assert run.emit(("a", 5)) == []
    restart_with(FirstThen(EveryRows(2), Each()))
    assert run.emit(("a", 6)) == [("a", 0, 10, 4, "late", 1)]
    assert run.emit(("a", 7)) == [("a", 0, 10, 5, "late", 2)]
    restart_with(EveryRows(2))
    assert run.emit(("a", 7)) == []
    assert run.emit(("a", 7)) == [("a", 0, 10, 7, "late", 3)]
    restart_with(FirstThen(EveryRows(2), Each()))
    assert run.emit(("a", 7)) == []
    assert run.emit(("a", 7)) == [("a", 0, 10, 9, "late", 4)]
    assert run.emit(("a", 7)) == [("a", 0, 10, 10, "late", 5)]


def test_a_session_that_is_open_at_the_gap_ends_earlier() -> None:
    run = Run(closed="left")
    assert run.emit(("a", 0), ("a", 10)) == [("a", 0, 0, 1, "full", 0)]
    assert run.emit(reached=20) == [("a", 10, 10, 1, "full", 0)]


def test_after_a_jump_of_the_watermark_every_session_emits_in_order() -> None:
    run = Run()
    emitted = run.emit(("b", 5), ("a", 5), ("a", 0), ("c", 900), ("a", 100), ("b", 2_000))
    assert emitted == [
        ("a", 0, 5, 2, "full", 0),
        ("b", 5, 5, 1, "full", 0),
        ("a", 100, 100, 1, "full", 0),
        ("c", 900, 900, 1, "full", 0),
    ]


def test_a_bridging_message_retracts_both_sessions() -> None:
    run = Run(early=Each(), grace=100)
    assert run.emit(("a", 0)) == [("a", 0, 0, 1, "early", 0)]
    assert run.emit(("a", 15)) == [("a", 0, 0, 1, "full", 1), ("a", 15, 15, 1, "early", 0)]
    assert run.emit(("a", 8)) == [
        ("a", 0, 0, None, "retract", 2),
        ("a", 15, 15, None, "retract", 1),
        ("a", 0, 15, 3, "early", 0),
    ]
    assert run.emit(final=True) == [("a", 0, 15, 3, "full", 1)]


def test_retractions_come_before_the_rows_that_replace_them() -> None:
    run = Run(early=Each(), grace=100)
    run.step(("a", 10), ("b", 3))
    # The new session begins earlier; adding up rows in this order never counts a message twice.
    assert run.emit(("a", 4), ("b", 0)) == [
        ("b", 3, 3, None, "retract", 1),
        ("a", 10, 10, None, "retract", 1),
        ("b", 0, 3, 2, "early", 0),
        ("a", 4, 10, 2, "early", 0),
    ]


def test_a_session_that_was_never_emitted_is_not_retracted() -> None:
    run = Run()
    assert run.emit(("a", 0)) == []
    assert run.emit(("a", 5)) == []
    assert run.emit(final=True) == [("a", 0, 5, 2, "full", 0)]


def test_a_message_within_a_session_leaves_its_bounds_the_same() -> None:
    run = Run(early=Each())
    run.step(("a", 0), ("a", 6))
    assert run.emit(("a", 3)) == [("a", 0, 6, 3, "early", 1)]
    assert run.emit(("a", 7)) == [("a", 0, 6, None, "retract", 2), ("a", 0, 7, 4, "early", 0)]


@pytest.mark.parametrize("cached", [0, 1 << 20])
def test_a_merged_session_does_not_reappear(cached: int) -> None:
    run = Run(early=Each(), grace=500, retention=500, restart=True, cached=cached)
    run.step(("a", 20))
    run.step(("a", 12))  # 20 is now part of 12 to 20
    for _ in range(20):
        run.step(("a", 12))
    assert run.emit(final=True) == [("a", 12, 20, 22, "full", 21)]
    assert run.store.blobs == {}


def test_a_late_message_is_taken_where_the_session_it_joins_is_open() -> None:
    run = Run(grace=50, late=Each())
    run.step(("a", 100), ("b", 100))
    # The watermark is 100: sessions that ended by 50 are closed.
    emitted = run.step(("a", 39), ("a", 35), ("b", 45), ("b", 38))
    assert emitted.results.select("key", "window_start", "n").rows() == [("b", 38, 2)]
    assert emitted.rejected.select("key", columns.TIME).rows() == [("a", 39), ("a", 35)]
    assert emitted.counts == {"seen": 6, "counted": 4, "late": 2}
    emitted = run.step(("b", 28), ("a", 38))
    assert emitted.results.select("window_start", "emission").rows() == [
        (38, "retract"),
        (28, "late"),
    ]
    assert (emitted.counts["counted"], emitted.counts["late"]) == (5, 3)


def test_late_messages_of_one_batch_extend_a_session_together() -> None:
    run = Run(grace=50, late=Each())
    run.step(("a", 100))
    emitted = run.step(("a", 45), ("a", 36), ("a", 27), ("a", 5))
    assert emitted.results.select("window_start", "window_end", "n").rows() == [(27, 55, 3)]
    assert emitted.rejected[columns.TIME].to_list() == [5]


@pytest.mark.parametrize(
    ("early", "late"),
    [(Every(10), EveryRows(99)), (Every(10), Every(10**9)), (EveryRows(99), Every(10**9))],
)
def test_pending_sessions_emit_at_the_close_whatever_the_other_clock_did(
    early: Every | EveryRows, late: Every | EveryRows
) -> None:
    run = Run(early=early, late=late, grace=1_000)
    run.step(("a", 0), wall=1)
    assert run.emit(("a", 100), wall=2) == [("a", 0, 0, 1, "full", 0)]
    assert run.emit(("a", 0), wall=3) == []
    run.step(wall=15)
    run.step(wall=25)
    assert all(row[0:2] != ("a", 0) for row in run.emit(reached=1_010, wall=26))
    assert run.emit(reached=1_011, wall=27) == [("a", 0, 0, 2, "late", 1)]


def test_two_clocks_each_wake_their_own() -> None:
    run = Run(early=Every(10), late=Every(100), grace=1_000)
    run.step(("a", 0), ("b", 0), wall=1)
    run.step(("b", 50), wall=2)
    run.step(("a", 0), wall=3)
    assert run.emit(wall=11) == [("b", 50, 50, 1, "early", 0)]
    assert run.emit(wall=99) == []
    assert run.emit(wall=100) == [("a", 0, 0, 2, "late", 1)]
    assert run.emit(wall=300) == []


@pytest.mark.parametrize("late", [EveryRows(99), Every(100)])
def test_a_closed_session_emits_once_though_old_versions_are_stored(late: Any) -> None:
    run = Run(late=late, grace=1_000)
    run.step(("a", 0), wall=1)
    assert run.emit(reached=100, wall=2) == [("a", 0, 0, 1, "full", 0)]
    assert run.emit(("a", 0), ("b", 1_005), wall=3) == []
    # All of this expires at once, except the old version in one run with an open session.
    assert run.emit(reached=1_012, wall=4) == [("a", 0, 0, 2, "late", 1)]
    assert run.emit(reached=1_013, wall=5) == []
    assert run.emit(wall=105) == []
    assert run.emit(final=True, wall=106) == [("b", 1_005, 1_005, 1, "full", 0)]


def test_expired_sessions_are_deleted() -> None:
    run = Run(grace=20, retention=70)
    for time in range(0, 4_000, 50):
        run.step(("a", time))
    stored = pl.concat(run.shard.sessions.read())
    assert stored[columns.LAST].min() > 4_000 - 1_000
    assert len(run.store.blobs) < 30
    assert run.step().rows < 30


def count_io(run: Run) -> dict[str, int]:
    return dict(run.store.calls) | {"written": run.store.written}


def test_a_batch_costs_the_same_however_much_is_stored() -> None:
    """One key changes among many that all have sessions; compaction isn't counted."""
    costs = []
    for stored in (10, 3_000):
        run = Run(early=Every(10**6), grace=10**6, cached=0)
        run.step(*((f"k{n}", n) for n in range(stored)))
        run.step(reached=stored)
        costs.append([])
        for n in range(5):
            run.store.calls.clear()
            written_before = run.store.written
            run.step(("k3", 4_000 + n), reached=4_000)
            calls = {name: run.store.calls[name] for name in ("put", "remove")}
            costs[-1].append((calls, (run.store.written - written_before) // 1_000))
    assert costs[0] == costs[1]


def test_nothing_is_written_when_nothing_happens() -> None:
    run = Run(early=Every(10), grace=100)
    run.step(("a", 0), ("b", 3), wall=1)
    run.store.calls.clear()
    for wall in range(2, 9):
        run.step(wall=wall)
    assert run.store.calls["put"] == run.store.calls["remove"] == 0


STEPS = st.lists(
    st.tuples(
        st.lists(
            st.tuples(st.sampled_from("ab"), st.integers(-15, 15), st.integers(0, 9)), max_size=4
        ),
        st.integers(0, 8),
        st.integers(0, 12),
    ),
    min_size=2,
    max_size=12,
)
POLICIES = st.one_of(
    st.just(Each()), st.sampled_from([1, 2, 99]).map(EveryRows), st.integers(2, 30).map(Every)
)


@settings(max_examples=12)
@given(STEPS, st.none() | POLICIES, POLICIES, st.sampled_from([0, 9, 40]), st.data())
def test_a_failed_step_repeated_from_the_last_commit_emits_the_same(
    steps: list[tuple[list[Row], int, int]], early: Any, late: Any, grace: int, data: st.DataObject
) -> None:
    options = {"gap": 5, "early": early, "late": late, "grace": grace}
    cached_run = Run(**options)
    reopening_run = Run(**options, restart=True, cached=0)
    failing_run = Run(**options)
    base = wall = 0
    for rows, forward, elapsed in steps:
        base, wall = base + forward, wall + elapsed
        batch = [(key, base + time, value) for key, time, value in rows]
        emitted = cached_run.step(*batch, wall=wall)
        committed = failing_run.store.copy()
        if data.draw(st.booleans()):
            failing_run.step(*batch, wall=wall)
            failing_run.store = committed  # the first try is lost, the cache of the process isn't
            cache = failing_run.shard.sessions.frames.cache
            failing_run.shard = SessionShard(failing_run.query, failing_run.store, cache)
        for output in (reopening_run.step(*batch, wall=wall), failing_run.step(*batch, wall=wall)):
            assert output.results.rows() == emitted.results.rows()
            assert sorted(output.rejected.rows(), key=repr) == sorted(
                emitted.rejected.rows(), key=repr
            )
            assert (output.counts, output.watermark) == (emitted.counts, emitted.watermark)
    last = cached_run.step(wall=wall, final=True).results.rows()
    assert reopening_run.step(wall=wall, final=True).results.rows() == last
    for run in (cached_run, reopening_run):
        assert run.store.blobs == {}


def test_no_more_messages_are_stored_than_the_limit() -> None:
    # A session of two messages every 100; two closed sessions fit the limit.
    run = Run(retention=10_000, rows=4)
    for n in range(60):
        run.step(("a", 100 * n))
        run.step(("a", 100 * n + 5))
        stored_count = sum(count for _, count in run.shard.retained.entries()["counts"])
        assert stored_count == min(2 * n, 4) + 2
    assert run.shard.sessions.rows < 30


def test_messages_are_counted_where_their_session_is() -> None:
    run = Run(retention=10_000, rows=9, grace=50)
    run.step(("a", 0), ("b", 3))
    run.step(("a", 20))
    run.step(("a", 10))
    # The session of b, and one of the three of a.
    assert sum(count for _, count in run.shard.retained.entries()["counts"]) == 4
    frames = run.shard.sessions.read()
    newest = run.shard._newest(frames)
    assert newest.filter(pl.col(columns.MESSAGES) > 0).select("k0", "n").rows() == [
        ("b", 1),
        ("a", 3),
    ]


def test_expired_sessions_do_not_reappear_when_the_retention_grows() -> None:
    # The emitted version of a isn't stored; an older one lies in a run with b, which is open.
    run = Run(lateness=985)
    run.step(("a", 10), ("b", 1_000))
    assert run.emit(("a", 15), ("b", 1_030)) == [("a", 10, 15, 2, "full", 0)]
    longer = Run(lateness=985, retention=3_600)
    longer.store = run.store
    assert read_bounds(longer) == [("b", 1_000), ("b", 1_030)]
    longer.shard = longer.open_shard()
    longer.step(("c", 60))
    longer.step(reached=2_000)
    # Sessions that were complete then are stored, and so is the first complete position.
    assert read_bounds(longer) == [("c", 60), ("b", 1_000), ("b", 1_030)]


def read_bounds(run: Run) -> list[tuple[str, int]]:
    """Return the keys and starts of the sessions that can be read."""
    return run.open_shard().snapshot(None, None).select("key", "window_start").rows()


def test_state_of_another_spec_is_refused() -> None:
    run = Run()
    run.step(("a", 0))
    run_with_other_gap = Run(gap=11)
    with pytest.raises(SpecChangedError, match="session 10 microseconds"):
        SessionShard(run_with_other_gap.query, run.store, FrameCache())


def test_a_damaged_manifest_is_named() -> None:
    run = Run()
    run.step(("a", 0))
    run.store.manifest = "{"
    with pytest.raises(StateCorruptedError, match="was damaged"):
        run.open_shard()
