from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from tests.unit.engine.queries import CountingBlobs, batch, combiner

from muntin.engine.output import ShardOutput
from muntin.engine.windows.combine import Combiner
from muntin.engine.windows.paned import PanedShard
from muntin.model import aggregates
from muntin.model.errors import SpecChangedError, StateCorruptedError
from muntin.model.policies import Each, Every, EveryRows, Firing
from muntin.model.windows import Windows
from muntin.state.blobs import MemoryBlobs
from muntin.state.frame_cache import FrameCache
from muntin.state.manifest import MANIFEST_FORMAT, parse_manifest

TUMBLING = Windows(10, 10)
HOPPING = Windows(10, 5)
ALL_POLICIES = Firing(early=Each(), late=Each(), grace=20, retention=30)


def shard(query: Combiner, store: MemoryBlobs | None = None, cache: Any = None) -> PanedShard:
    return PanedShard(query, store or MemoryBlobs(), cache or FrameCache())


def step(
    one: PanedShard, *rows: tuple[Any, ...], wall: int = 0, final: bool = False
) -> ShardOutput:
    return one.step(batch(one.combiner, one.state.watermark, *rows), wall, final=final)


def said(emitted: ShardOutput) -> list[tuple[Any, ...]]:
    """Key, start, count, sum, emission and revision of each firing."""
    columns = ("key", "window_start", "n", "sum", "emission", "revision")
    return emitted.results.select(columns).rows()


def said_short(emitted: ShardOutput) -> list[tuple[Any, ...]]:
    """Start, sum, emission and revision, where there is one key."""
    return [(start, total, *rest) for _, start, _, total, *rest in said(emitted)]


class TestSpeaking:
    def test_a_window_speaks_when_the_watermark_reaches_its_end(self) -> None:
        # time   0    5    10   15   20
        # step 1 1    2
        # step 2           4              the watermark reaches 10
        one = shard(combiner(TUMBLING))
        assert said(step(one, ("a", 0, 1), ("a", 5, 2))) == []
        assert said(step(one, ("a", 10, 4))) == [("a", 0, 2, 3, "full", 0)]
        assert said(step(one, final=True)) == [("a", 10, 1, 4, "full", 0)]

    def test_lateness_holds_the_watermark_back(self) -> None:
        one = shard(combiner(TUMBLING, lateness=5))
        emitted = step(one, ("a", 3, 1), ("a", 14, 2))
        assert (emitted.judged, emitted.watermark, said(emitted)) == (None, 9, [])
        emitted = step(one, ("a", 15, 4))
        assert (emitted.judged, emitted.watermark) == (9, 10)
        assert said(emitted) == [("a", 0, 1, 1, "full", 0)]

    def test_the_watermark_never_goes_back(self) -> None:
        one = shard(combiner(TUMBLING))
        step(one, ("a", 50, 1))
        assert step(one, ("a", 40, 1)).watermark == 50
        assert step(one).watermark == 50

    def test_firings_are_in_order_of_start_then_key(self) -> None:
        one = shard(combiner(TUMBLING))
        emitted = step(one, ("b", 11, 1), ("a", 12, 1), ("b", 1, 1), ("é", 1, 1), final=True)
        assert [row[:2] for row in said(emitted)] == [("b", 0), ("é", 0), ("a", 10), ("b", 10)]

    def test_several_windows_end_in_one_step(self) -> None:
        # windows of 10 every 5: [-5, 5), [0, 10) and so on
        one = shard(combiner(HOPPING))
        assert said(step(one, ("a", 0, 1), ("a", 4, 2))) == []
        emitted = step(one, ("a", 9, 4), ("a", 100, 8))
        assert said_short(emitted) == [(-5, 3, "full", 0), (0, 7, "full", 0), (5, 4, "full", 0)]

    def test_a_stream_that_starts_late_in_time_skips_what_was_before(self) -> None:
        one = shard(combiner(Windows(10, 3)))
        emitted = step(one, ("a", 10**15, 1))
        assert said(emitted) == []
        assert len(said(step(one, final=True))) in (3, 4)

    def test_each_message_is_told_early_and_the_whole_at_the_end(self) -> None:
        one = shard(combiner(TUMBLING, firing=Firing(early=Each())))
        assert said_short(step(one, ("a", 1, 1))) == [(0, 1, "early", 0)]
        assert said_short(step(one, ("a", 2, 2))) == [(0, 3, "early", 1)]
        assert said_short(step(one, ("a", 12, 4))) == [(0, 3, "full", 2), (10, 4, "early", 0)]

    def test_rows_are_waited_for(self) -> None:
        one = shard(combiner(TUMBLING, firing=Firing(early=EveryRows(2))))
        emitted = step(one, ("a", 1, 1), ("b", 1, 1))
        assert (said(emitted), emitted.pending) == ([], 2)
        emitted = step(one, ("a", 2, 2))
        assert (said(emitted), emitted.pending) == ([("a", 0, 2, 3, "early", 0)], 1)
        assert [row[4:] for row in said(step(one, final=True))] == [("full", 1), ("full", 0)]

    def test_the_clock_is_waited_for_even_without_messages(self) -> None:
        one = shard(combiner(TUMBLING, firing=Firing(early=Every(60))))
        assert said(step(one, ("a", 1, 1), wall=50)) == []
        assert said_short(step(one, wall=61)) == [(0, 1, "early", 0)]
        assert said(step(one, wall=130)) == []

    def test_late_messages_revise_a_window_within_its_grace(self) -> None:
        # watermark 25: window 0 has ended, and closes at 30
        one = shard(combiner(TUMBLING, firing=replace(ALL_POLICIES, early=None)))
        step(one, ("a", 1, 1), ("a", 25, 8))
        assert said_short(step(one, ("a", 2, 2))) == [(0, 3, "late", 1)]
        emitted = step(one, ("b", 3, 4))
        assert said(emitted) == [("b", 0, 1, 4, "late", 0)]
        step(one, ("a", 30, 1))
        emitted = step(one, ("a", 3, 4))
        assert (said(emitted), emitted.rejected["reason"].to_list()) == ([], ["late"])

    @pytest.mark.parametrize("late", [EveryRows(9), Every(10**9)], ids=str)
    def test_what_waits_is_told_when_its_window_closes(self, late: Any) -> None:
        firing = Firing(late=late, grace=10, retention=10)
        one = shard(combiner(TUMBLING, firing=firing))
        step(one, ("a", 1, 1), ("a", 10, 8))
        emitted = step(one, ("a", 2, 2))
        assert (said(emitted), emitted.pending) == ([], 1)
        emitted = step(one, ("a", 20, 1))
        assert (0, 3, "late", 1) in said_short(emitted)
        assert emitted.pending == 0

    @pytest.mark.parametrize("late", [EveryRows(9), Every(10**9)], ids=str)
    def test_what_comes_with_the_close_is_told_at_once(self, late: Any) -> None:
        # window 0 takes late messages until 20, and the batch that brings one reaches 20
        one = shard(combiner(TUMBLING, firing=Firing(late=late, grace=10, retention=10)))
        step(one, ("a", 1, 1), ("a", 10, 8))
        emitted = step(one, ("a", 2, 2), ("a", 20, 1))
        assert said_short(emitted) == [(0, 3, "late", 1), (10, 8, "full", 0)]

    def test_the_messages_own_clock_goes_before_the_wall_and_never_back(self) -> None:
        one = shard(combiner(TUMBLING, firing=Firing(early=Every(60))))

        def arriving(clock: int) -> ShardOutput:
            parts = batch(one.combiner, one.state.watermark, ("a", 1, 1))
            return one.step([replace(part, clock=clock) for part in parts], wall=10**9)

        assert said(arriving(59)) == []
        assert said_short(arriving(61)) == [(0, 2, "early", 0)]
        assert said(arriving(10)) == []
        assert said(arriving(62)) == []
        assert one.state.wall == 62

    def test_counts_add_up_over_steps(self) -> None:
        one = shard(combiner(TUMBLING))
        step(one, ("a", 1, 1), (None, 1, 1), ("a", 50, 1))
        emitted = step(one, ("a", 2, 1))
        assert emitted.counts == {"seen": 4, "counted": 2, "null_key": 1, "late": 1}

    def test_a_sum_beyond_64_bits_is_null_and_reported(self) -> None:
        one = shard(combiner(TUMBLING))
        emitted = step(one, ("a", 1, 2**63 - 1), ("a", 2, 1), final=True)
        assert said(emitted) == [("a", 0, 2, None, "full", 0)]
        assert emitted.rejected.select("key", "__muntin_time", "reason").rows() == [
            ("a", 0, "overflow")
        ]


class TestDeltas:
    def test_a_firing_tells_only_what_is_new(self) -> None:
        one = shard(combiner(TUMBLING, firing=replace(ALL_POLICIES, accumulate=False)))
        assert said_short(step(one, ("a", 1, 1))) == [(0, 1, "early", 0)]
        assert said_short(step(one, ("a", 2, 2))) == [(0, 2, "early", 1)]
        emitted = step(one, ("a", 3, 4), ("a", 10, 8))
        assert said_short(emitted) == [(0, 4, "full", 2), (10, 8, "early", 0)]
        assert said_short(step(one, ("a", 4, 16))) == [(0, 16, "late", 3)]

    def test_a_full_firing_with_nothing_new_says_so(self) -> None:
        one = shard(combiner(TUMBLING, firing=Firing(early=Each(), accumulate=False)))
        step(one, ("a", 1, 1))
        emitted = step(one, ("b", 10, 8))
        assert said(emitted)[0] == ("a", 0, 0, None, "full", 1)

    def test_deltas_add_up_to_the_whole(self) -> None:
        firing = Firing(EveryRows(2), EveryRows(3), 20, 20, accumulate=False)
        one = shard(combiner(HOPPING, firing=firing))
        rows = [("a", (n * 7) % 23 + n, n) for n in range(60)]
        steps = [step(one, *rows[n : n + 4]) for n in range(0, 60, 4)]
        steps.append(step(one, final=True))
        whole = step(shard(combiner(HOPPING, lateness=1000)), *rows, final=True)
        totals: dict[tuple[Any, ...], int] = {}
        for emitted in steps:
            for key, start, _, total, _, _ in said(emitted):
                totals[key, start] = totals.get((key, start), 0) + (total or 0)
        assert sum(emitted.rejected.height for emitted in steps) == 0
        assert totals == {(key, start): total for key, start, _, total, *_ in said(whole)}


class TestStore:
    def test_a_shard_goes_on_from_its_manifest(self) -> None:
        query, store = combiner(HOPPING, firing=ALL_POLICIES, lateness=3), CountingBlobs()
        stream = [("a", (n * 11) % 17 + n, n) for n in range(40)]
        alone = shard(query)
        for n in range(0, 40, 4):
            rows = stream[n : n + 4]
            again = step(shard(query, store), *rows, wall=n)
            assert facts(again) == facts(step(alone, *rows, wall=n))
        manifest = json.loads(store.manifest or "")
        assert manifest["format"] == MANIFEST_FORMAT
        assert manifest["watermark"] == alone.state.watermark
        assert manifest["wall"] == 36
        assert manifest["counts"] == alone.state.counts

    def test_every_blob_is_in_the_manifest_and_none_else(self) -> None:
        store = CountingBlobs()
        one = shard(combiner(HOPPING, firing=ALL_POLICIES), store)
        for n in range(60):
            step(one, ("a", n, 1), ("b", n - 3, 1))
            assert listed(store) == set(store.blobs)

    def test_a_changed_spec_is_refused_and_told_apart(self) -> None:
        store = MemoryBlobs()
        step(shard(combiner(TUMBLING), store), ("a", 1, 1))
        other = combiner(HOPPING, aggs={"n": aggregates.count()}, lateness=7)
        with pytest.raises(SpecChangedError) as error:
            shard(other, store)
        for difference in (
            "windows: was tumbling 10 microseconds",
            "lateness: was 0 seconds, is 7 microseconds",
            "agg sum: was sum(value), is absent",
        ):
            assert difference in str(error.value)
        assert "agg n" not in str(error.value)

    def test_it_goes_on_with_other_policies_and_keeps_longer(self) -> None:
        """From a change on it says what it would have said had it always been so."""
        before = Firing(late=EveryRows(2), grace=20, retention=20)
        after = Firing(early=Each(), late=Each(), grace=20, retention=3000)
        first, then = (combiner(HOPPING, firing=firing) for firing in (before, after))
        longer = shard(combiner(HOPPING, firing=replace(before, retention=3000)))
        stream, store = [("ab"[n % 2], n - n % 7, n) for n in range(60)], MemoryBlobs()
        for row in stream[:30]:
            step(shard(first, store), row)
            step(longer, row)
        for row in stream[30:]:
            step(shard(then, store), row)
            step(longer, row)
        held, whole = shard(then, store).snapshot(None, None), longer.snapshot(None, None)
        # What had gone before the change is gone, also where some panes of it are left.
        assert (whole["window_start"].min(), held["window_start"].min()) == (-5, 0)
        assert held.rows() == whole.filter(pl.col("window_start") >= 0).rows()
        assert set(held["key"]) == {"a", "b"}
        emitted = step(shard(then, store), ("a", 55, 1))
        assert {row[4] for row in said(emitted)} == {"early"}
        emitted = step(shard(then, store), ("a", 200, 1), ("b", 45, 1))
        assert {"full", "late", "early"} == {row[4] for row in said(emitted)}

    def test_aggregates_that_were_added_know_only_of_what_came_since(self) -> None:
        some = {"n": aggregates.count(), "sum": aggregates.sum("value")}
        more = some | {
            "most": aggregates.max("value"),
            "mean": aggregates.mean("value"),
            "dev": aggregates.stddev("value"),
            "if": aggregates.count_if("flag"),
            "all": aggregates.bool_and("flag"),
            "about": aggregates.approx_distinct("value"),
            "p": aggregates.quantile("value", 0.5),
            "top": aggregates.top_k("value", 2),
            "list": aggregates.collect_list("value"),
            "mid": aggregates.median("value"),
        }
        store = MemoryBlobs()
        old = shard(combiner(HOPPING, aggs=some, firing=ALL_POLICIES), store)
        step(old, ("a", 1, 1, None, True), ("a", 6, 2, None, False), ("b", 7, 9, None, True))
        step(old, ("a", 8, 3, None, True))
        query = combiner(HOPPING, aggs=more, firing=ALL_POLICIES)
        step(shard(query, store), ("a", 9, 5, None, True), ("a", 12, 7, None, True))
        found = shard(query, store).snapshot(0, 9).filter(pl.col("key") == "a").to_dicts()
        known = {
            "all": True, "dev": None, "if": 1, "list": [5], "mean": 5.0, "mid": 5.0, "most": 5,
            "about": 1, "p": 5, "top": [5],
        }  # fmt: skip
        assert {name: found[1][name] for name in known} == known
        assert [(row["window_start"], row["n"], row["sum"], row["top"]) for row in found] == [
            (-5, 1, 1, []),
            (0, 4, 11, [5]),
            (5, 4, 17, [7, 5]),
        ]

    @pytest.mark.parametrize("manifest", ["", "{", "[]", "null", "{}", '{"watermark": 1}'])
    def test_a_damaged_manifest(self, manifest: str) -> None:
        store = MemoryBlobs()
        store.save(manifest)
        with pytest.raises(StateCorruptedError, match="manifest of a shard can't be read"):
            shard(combiner(), store)

    def test_a_manifest_of_a_newer_format(self) -> None:
        store = MemoryBlobs()
        step(shard(combiner(), store), ("a", 1, 1))
        manifest = json.loads(store.manifest or "")
        store.save(json.dumps({**manifest, "format": MANIFEST_FORMAT + 1}))
        with pytest.raises(
            StateCorruptedError, match=f"format {MANIFEST_FORMAT + 1}.*use the muntin"
        ):
            shard(combiner(), store)

    def test_a_damaged_blob(self) -> None:
        store = MemoryBlobs()
        step(shard(combiner(), store), ("a", 1, 1))
        number = next(iter(store.blobs))
        store.blobs[number] = store.blobs[number][:-1] + b"\x01"
        with pytest.raises(StateCorruptedError, match="checksum"):
            step(shard(combiner(), store), final=True)

    @pytest.mark.parametrize("accumulate", [True, False])
    def test_a_step_that_is_repeated_tells_the_same(self, accumulate: bool) -> None:
        # The cache stays warm over the failed attempt, as it does in a worker that lives on.
        firing = Firing(EveryRows(3), EveryRows(2), 20, 20, accumulate)
        query, store, cache = combiner(HOPPING, firing=firing), CountingBlobs(), FrameCache()
        for n in range(0, 60, 4):
            rows = [("ab"[i % 2], (i * 11) % 17 + i, i) for i in range(n, n + 4)]
            failed, committed = store.copy(), store.copy()
            first = step(PanedShard(query, failed, cache), *rows, wall=n)
            second = step(PanedShard(query, committed, cache), *rows, wall=n)
            cold = step(PanedShard(query, store.copy(), FrameCache()), *rows, wall=n)
            assert facts(first) == facts(second) == facts(cold)
            store = committed


def facts(emitted: ShardOutput) -> tuple[Any, ...]:
    rejected = sorted(map(repr, emitted.rejected.rows()))
    return (
        said(emitted),
        rejected,
        emitted.judged,
        emitted.watermark,
        emitted.counts,
        emitted.pending,
        emitted.rows,
    )


def listed(store: MemoryBlobs) -> set[int]:
    return {run.number for run in parse_manifest(store.manifest or "").runs()}


class TestCost:
    @pytest.mark.parametrize("accumulate", [True, False])
    @pytest.mark.parametrize("early", [None, Each(), Every(10**9)], ids=str)
    def test_state_goes_with_its_windows(self, early: Any, accumulate: bool) -> None:
        firing = Firing(early, EveryRows(2), grace=20, retention=40, accumulate=accumulate)
        store = CountingBlobs()
        one = shard(combiner(HOPPING, firing=firing, lateness=5), store)
        blobs, rows = [], []
        for n in range(60):
            emitted = step(one, ("a", 3 * n, 1), ("b", 3 * n - 7, 1), wall=10 * n)
            blobs.append(len(store.blobs))
            rows.append(emitted.rows + emitted.pending)
        assert max(blobs[30:]) <= max(blobs[:30])
        assert max(rows[30:]) <= max(rows[:30])
        assert max(rows) < 150

    def test_cells_of_closed_windows_are_gone(self) -> None:
        one = shard(combiner(TUMBLING))
        step(one, *(("a", 10 * n, 1) for n in range(1000)))
        assert one.cells.rows == 1

    def test_no_more_messages_are_kept_than_asked_for(self) -> None:
        # Windows of 10 are kept for 1000, but no more than 12 messages in those that have ended.
        firing = Firing(retention=1000, rows=12)
        one = shard(combiner(TUMBLING, firing=firing), cache=FrameCache())
        for n in range(90):
            step(one, *(("a", 10 * n, 1) for _ in range(3)))
            assert dict(one.retained.entries()["counts"]) == dict.fromkeys(
                range(max(0, n - 4), n + 1), 3
            )
            assert {*one.cells.frames.blobs.blobs} == {run.number for run in one.cells.entries()}
        # What is left of older panes shares a run with younger ones.
        assert one.cells.rows < 25
        there = {pane for frame in one.cells.read() for pane in frame["pane"]}
        assert there >= set(range(85, 90))

    def test_a_limit_is_kept_over_a_restart(self) -> None:
        query, store = combiner(TUMBLING, firing=Firing(retention=990, rows=2)), MemoryBlobs()
        for n in range(9):
            step(shard(query, store), ("a", 10 * n, 1), ("b", 10 * n, 1))
        there = {pane for frame in shard(query, store).cells.read() for pane in frame["pane"]}
        assert there == {7, 8}

    @pytest.mark.parametrize("cold", [False, True])
    def test_a_small_batch_over_a_great_state_makes_few_calls(self, cold: bool) -> None:
        calls = []
        for keys in (10, 2_000):
            query, store, cache = combiner(Windows(1000, 10)), CountingBlobs(), FrameCache()
            one = PanedShard(query, store, cache)
            for part in range(10):
                step(one, *((f"key {n}", part * 10, 1) for n in range(keys)))
            store.calls.clear()
            store.written = 0
            again = PanedShard(query, store, FrameCache() if cold else cache)
            step(again, ("key 1", 95, 1))
            calls.append((dict(store.calls), store.written))
        assert calls[0] == calls[1]
        assert calls[0][0] == {"put": 1}

    def test_what_is_written_follows_the_batch(self) -> None:
        store = CountingBlobs()
        one = shard(combiner(Windows(10_000, 1000), firing=Firing(early=Each())), store)
        step(one, *((f"key {n}", n % 1000, 1) for n in range(20_000)))
        great, store.written = store.written, 0
        for n in range(20):
            step(one, (f"key {n}", 500, 1))
        assert store.written < great / 5

    @pytest.mark.parametrize(
        "firing", [Firing(), ALL_POLICIES, replace(ALL_POLICIES, accumulate=False)]
    )
    def test_the_end_of_the_input_leaves_nothing(self, firing: Firing) -> None:
        store, cache = CountingBlobs(), FrameCache()
        firing = replace(firing, retention=firing.grace)
        one = shard(combiner(HOPPING, firing=firing, lateness=5), store, cache)
        for n in range(30):
            step(one, ("a", n, 1), ("b", n - 3, 1))
        emitted = step(one, ("a", 30, 1), final=True)
        assert (emitted.rows, emitted.pending, store.blobs, cache.bytes) == (0, 0, {}, 0)
        assert said(step(one, final=True)) == []
