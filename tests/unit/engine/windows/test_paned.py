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
from muntin.state.frames import FrameCache
from muntin.state.manifest import MANIFEST_FORMAT, parse_manifest

TUMBLING = Windows(10, 10)
HOPPING = Windows(10, 5)
ALL_POLICIES = Firing(early=Each(), late=Each(), grace=20, retention=30)


def make_shard(query: Combiner, store: MemoryBlobs | None = None, cache: Any = None) -> PanedShard:
    return PanedShard(query, store or MemoryBlobs(), cache or FrameCache())


def step(
    shard: PanedShard, *rows: tuple[Any, ...], wall: int = 0, final: bool = False
) -> ShardOutput:
    return shard.step(batch(shard.combiner, shard.state.watermark, *rows), wall, final=final)


def list_emissions(emitted: ShardOutput) -> list[tuple[Any, ...]]:
    """Return key, start, count, sum, emission and revision of each row."""
    columns = ("key", "window_start", "n", "sum", "emission", "revision")
    return emitted.results.select(columns).rows()


def list_brief_emissions(emitted: ShardOutput) -> list[tuple[Any, ...]]:
    """Return start, sum, emission and revision of each row, where there is one key."""
    return [(start, total, *rest) for _, start, _, total, *rest in list_emissions(emitted)]


class TestEmissions:
    def test_a_window_emits_when_the_watermark_reaches_its_end(self) -> None:
        # time   0    5    10   15   20
        # step 1 1    2
        # step 2           4              the watermark reaches 10
        shard = make_shard(combiner(TUMBLING))
        assert list_emissions(step(shard, ("a", 0, 1), ("a", 5, 2))) == []
        assert list_emissions(step(shard, ("a", 10, 4))) == [("a", 0, 2, 3, "full", 0)]
        assert list_emissions(step(shard, final=True)) == [("a", 10, 1, 4, "full", 0)]

    def test_lateness_holds_the_watermark_back(self) -> None:
        shard = make_shard(combiner(TUMBLING, lateness=5))
        emitted = step(shard, ("a", 3, 1), ("a", 14, 2))
        assert (emitted.judged, emitted.watermark, list_emissions(emitted)) == (None, 9, [])
        emitted = step(shard, ("a", 15, 4))
        assert (emitted.judged, emitted.watermark) == (9, 10)
        assert list_emissions(emitted) == [("a", 0, 1, 1, "full", 0)]

    def test_the_watermark_never_goes_back(self) -> None:
        shard = make_shard(combiner(TUMBLING))
        step(shard, ("a", 50, 1))
        assert step(shard, ("a", 40, 1)).watermark == 50
        assert step(shard).watermark == 50

    def test_firings_are_in_order_of_start_then_key(self) -> None:
        shard = make_shard(combiner(TUMBLING))
        emitted = step(shard, ("b", 11, 1), ("a", 12, 1), ("b", 1, 1), ("é", 1, 1), final=True)
        assert [row[:2] for row in list_emissions(emitted)] == [
            ("b", 0),
            ("é", 0),
            ("a", 10),
            ("b", 10),
        ]

    def test_several_windows_end_in_one_step(self) -> None:
        # windows of 10 every 5: [-5, 5), [0, 10) and so on
        shard = make_shard(combiner(HOPPING))
        assert list_emissions(step(shard, ("a", 0, 1), ("a", 4, 2))) == []
        emitted = step(shard, ("a", 9, 4), ("a", 100, 8))
        assert list_brief_emissions(emitted) == [
            (-5, 3, "full", 0),
            (0, 7, "full", 0),
            (5, 4, "full", 0),
        ]

    def test_a_stream_with_a_late_first_time_skips_the_windows_before(self) -> None:
        shard = make_shard(combiner(Windows(10, 3)))
        emitted = step(shard, ("a", 10**15, 1))
        assert list_emissions(emitted) == []
        assert len(list_emissions(step(shard, final=True))) in (3, 4)

    def test_each_message_emits_early_and_the_end_emits_in_full(self) -> None:
        shard = make_shard(combiner(TUMBLING, firing=Firing(early=Each())))
        assert list_brief_emissions(step(shard, ("a", 1, 1))) == [(0, 1, "early", 0)]
        assert list_brief_emissions(step(shard, ("a", 2, 2))) == [(0, 3, "early", 1)]
        assert list_brief_emissions(step(shard, ("a", 12, 4))) == [
            (0, 3, "full", 2),
            (10, 4, "early", 0),
        ]

    def test_windows_wait_for_a_number_of_rows(self) -> None:
        shard = make_shard(combiner(TUMBLING, firing=Firing(early=EveryRows(2))))
        emitted = step(shard, ("a", 1, 1), ("b", 1, 1))
        assert (list_emissions(emitted), emitted.pending) == ([], 2)
        emitted = step(shard, ("a", 2, 2))
        assert (list_emissions(emitted), emitted.pending) == ([("a", 0, 2, 3, "early", 0)], 1)
        assert [row[4:] for row in list_emissions(step(shard, final=True))] == [
            ("full", 1),
            ("full", 0),
        ]

    def test_windows_wait_for_the_clock_even_without_messages(self) -> None:
        shard = make_shard(combiner(TUMBLING, firing=Firing(early=Every(60))))
        assert list_emissions(step(shard, ("a", 1, 1), wall=50)) == []
        assert list_brief_emissions(step(shard, wall=61)) == [(0, 1, "early", 0)]
        assert list_emissions(step(shard, wall=130)) == []

    def test_late_messages_revise_a_window_within_its_grace(self) -> None:
        # watermark 25: window 0 has ended, and closes at 30
        shard = make_shard(combiner(TUMBLING, firing=replace(ALL_POLICIES, early=None)))
        step(shard, ("a", 1, 1), ("a", 25, 8))
        assert list_brief_emissions(step(shard, ("a", 2, 2))) == [(0, 3, "late", 1)]
        emitted = step(shard, ("b", 3, 4))
        assert list_emissions(emitted) == [("b", 0, 1, 4, "late", 0)]
        step(shard, ("a", 30, 1))
        emitted = step(shard, ("a", 3, 4))
        assert (list_emissions(emitted), emitted.rejected["reason"].to_list()) == ([], ["late"])

    @pytest.mark.parametrize("late", [EveryRows(9), Every(10**9)], ids=str)
    def test_waiting_messages_are_emitted_when_their_window_closes(self, late: Any) -> None:
        firing = Firing(late=late, grace=10, retention=10)
        shard = make_shard(combiner(TUMBLING, firing=firing))
        step(shard, ("a", 1, 1), ("a", 10, 8))
        emitted = step(shard, ("a", 2, 2))
        assert (list_emissions(emitted), emitted.pending) == ([], 1)
        emitted = step(shard, ("a", 20, 1))
        assert (0, 3, "late", 1) in list_brief_emissions(emitted)
        assert emitted.pending == 0

    @pytest.mark.parametrize("late", [EveryRows(9), Every(10**9)], ids=str)
    def test_late_messages_in_the_batch_that_closes_a_window_are_emitted_at_once(
        self, late: Any
    ) -> None:
        # window 0 takes late messages until 20, and the batch that brings one reaches 20
        shard = make_shard(combiner(TUMBLING, firing=Firing(late=late, grace=10, retention=10)))
        step(shard, ("a", 1, 1), ("a", 10, 8))
        emitted = step(shard, ("a", 2, 2), ("a", 20, 1))
        assert list_brief_emissions(emitted) == [(0, 3, "late", 1), (10, 8, "full", 0)]

    def test_the_messages_own_clock_takes_precedence_and_never_goes_back(self) -> None:
        shard = make_shard(combiner(TUMBLING, firing=Firing(early=Every(60))))

        def step_at(clock: int) -> ShardOutput:
            parts = batch(shard.combiner, shard.state.watermark, ("a", 1, 1))
            return shard.step([replace(part, clock=clock) for part in parts], wall=10**9)

        assert list_emissions(step_at(59)) == []
        assert list_brief_emissions(step_at(61)) == [(0, 2, "early", 0)]
        assert list_emissions(step_at(10)) == []
        assert list_emissions(step_at(62)) == []
        assert shard.state.wall == 62

    def test_counts_add_up_over_steps(self) -> None:
        shard = make_shard(combiner(TUMBLING))
        step(shard, ("a", 1, 1), (None, 1, 1), ("a", 50, 1))
        emitted = step(shard, ("a", 2, 1))
        assert emitted.counts == {"seen": 4, "counted": 2, "null_key": 1, "late": 1}

    def test_a_sum_beyond_64_bits_is_null_and_reported(self) -> None:
        shard = make_shard(combiner(TUMBLING))
        emitted = step(shard, ("a", 1, 2**63 - 1), ("a", 2, 1), final=True)
        assert list_emissions(emitted) == [("a", 0, 2, None, "full", 0)]
        assert emitted.rejected.select("key", "__muntin_time", "reason").rows() == [
            ("a", 0, "overflow")
        ]


class TestDeltas:
    def test_an_emission_has_only_the_new_messages(self) -> None:
        shard = make_shard(combiner(TUMBLING, firing=replace(ALL_POLICIES, accumulate=False)))
        assert list_brief_emissions(step(shard, ("a", 1, 1))) == [(0, 1, "early", 0)]
        assert list_brief_emissions(step(shard, ("a", 2, 2))) == [(0, 2, "early", 1)]
        emitted = step(shard, ("a", 3, 4), ("a", 10, 8))
        assert list_brief_emissions(emitted) == [(0, 4, "full", 2), (10, 8, "early", 0)]
        assert list_brief_emissions(step(shard, ("a", 4, 16))) == [(0, 16, "late", 3)]

    def test_a_full_emission_without_new_messages_is_empty(self) -> None:
        shard = make_shard(combiner(TUMBLING, firing=Firing(early=Each(), accumulate=False)))
        step(shard, ("a", 1, 1))
        emitted = step(shard, ("b", 10, 8))
        assert list_emissions(emitted)[0] == ("a", 0, 0, None, "full", 1)

    def test_deltas_add_up_to_the_whole(self) -> None:
        firing = Firing(EveryRows(2), EveryRows(3), 20, 20, accumulate=False)
        shard = make_shard(combiner(HOPPING, firing=firing))
        rows = [("a", (n * 7) % 23 + n, n) for n in range(60)]
        steps = [step(shard, *rows[n : n + 4]) for n in range(0, 60, 4)]
        steps.append(step(shard, final=True))
        single_step = step(make_shard(combiner(HOPPING, lateness=1000)), *rows, final=True)
        totals: dict[tuple[Any, ...], int] = {}
        for emitted in steps:
            for key, start, _, total, _, _ in list_emissions(emitted):
                totals[key, start] = totals.get((key, start), 0) + (total or 0)
        assert sum(emitted.rejected.height for emitted in steps) == 0
        assert totals == {
            (key, start): total for key, start, _, total, *_ in list_emissions(single_step)
        }


class TestStore:
    def test_a_shard_continues_from_its_manifest(self) -> None:
        query, store = combiner(HOPPING, firing=ALL_POLICIES, lateness=3), CountingBlobs()
        stream = [("a", (n * 11) % 17 + n, n) for n in range(40)]
        unstopped = make_shard(query)
        for n in range(0, 40, 4):
            rows = stream[n : n + 4]
            output = step(make_shard(query, store), *rows, wall=n)
            assert summarize_output(output) == summarize_output(step(unstopped, *rows, wall=n))
        manifest = json.loads(store.manifest or "")
        assert manifest["format"] == MANIFEST_FORMAT
        assert manifest["watermark"] == unstopped.state.watermark
        assert manifest["wall"] == 36
        assert manifest["counts"] == unstopped.state.counts

    def test_every_blob_is_in_the_manifest_and_none_else(self) -> None:
        store = CountingBlobs()
        shard = make_shard(combiner(HOPPING, firing=ALL_POLICIES), store)
        for n in range(60):
            step(shard, ("a", n, 1), ("b", n - 3, 1))
            assert list_run_numbers(store) == set(store.blobs)

    def test_a_changed_spec_is_refused_with_its_differences(self) -> None:
        store = MemoryBlobs()
        step(make_shard(combiner(TUMBLING), store), ("a", 1, 1))
        other = combiner(HOPPING, aggs={"n": aggregates.count()}, lateness=7)
        with pytest.raises(SpecChangedError) as error:
            make_shard(other, store)
        for difference in (
            "windows: was tumbling 10 microseconds",
            "lateness: was 0 seconds, is 7 microseconds",
            "agg sum: was sum(value), is absent",
        ):
            assert difference in str(error.value)
        assert "agg n" not in str(error.value)

    def test_policies_and_retention_may_change_over_a_restart(self) -> None:
        """After the change, a query emits as one that always had the new options."""
        before = Firing(late=EveryRows(2), grace=20, retention=20)
        after = Firing(early=Each(), late=Each(), grace=20, retention=3000)
        first, second = (combiner(HOPPING, firing=firing) for firing in (before, after))
        longer = make_shard(combiner(HOPPING, firing=replace(before, retention=3000)))
        stream, store = [("ab"[n % 2], n - n % 7, n) for n in range(60)], MemoryBlobs()
        for row in stream[:30]:
            step(make_shard(first, store), row)
            step(longer, row)
        for row in stream[30:]:
            step(make_shard(second, store), row)
            step(longer, row)
        stored, expected = (
            make_shard(second, store).snapshot(None, None),
            longer.snapshot(None, None),
        )
        # Windows deleted before the change stay deleted, even if some of their panes are stored.
        assert (expected["window_start"].min(), stored["window_start"].min()) == (-5, 0)
        assert stored.rows() == expected.filter(pl.col("window_start") >= 0).rows()
        assert set(stored["key"]) == {"a", "b"}
        emitted = step(make_shard(second, store), ("a", 55, 1))
        assert {row[4] for row in list_emissions(emitted)} == {"early"}
        emitted = step(make_shard(second, store), ("a", 200, 1), ("b", 45, 1))
        assert {"full", "late", "early"} == {row[4] for row in list_emissions(emitted)}

    def test_added_aggregates_cover_only_later_messages(self) -> None:
        old_aggregates = {"n": aggregates.count(), "sum": aggregates.sum("value")}
        new_aggregates = old_aggregates | {
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
        old = make_shard(combiner(HOPPING, aggs=old_aggregates, firing=ALL_POLICIES), store)
        step(old, ("a", 1, 1, None, True), ("a", 6, 2, None, False), ("b", 7, 9, None, True))
        step(old, ("a", 8, 3, None, True))
        query = combiner(HOPPING, aggs=new_aggregates, firing=ALL_POLICIES)
        step(make_shard(query, store), ("a", 9, 5, None, True), ("a", 12, 7, None, True))
        windows = make_shard(query, store).snapshot(0, 9).filter(pl.col("key") == "a").to_dicts()
        expected = {
            "all": True, "dev": None, "if": 1, "list": [5], "mean": 5.0, "mid": 5.0, "most": 5,
            "about": 1, "p": 5, "top": [5],
        }  # fmt: skip
        assert {name: windows[1][name] for name in expected} == expected
        assert [(row["window_start"], row["n"], row["sum"], row["top"]) for row in windows] == [
            (-5, 1, 1, []),
            (0, 4, 11, [5]),
            (5, 4, 17, [7, 5]),
        ]

    @pytest.mark.parametrize("manifest", ["", "{", "[]", "null", "{}", '{"watermark": 1}'])
    def test_a_damaged_manifest(self, manifest: str) -> None:
        store = MemoryBlobs()
        store.save(manifest)
        with pytest.raises(StateCorruptedError, match="manifest of a shard can't be read"):
            make_shard(combiner(), store)

    def test_a_manifest_of_a_newer_format(self) -> None:
        store = MemoryBlobs()
        step(make_shard(combiner(), store), ("a", 1, 1))
        manifest = json.loads(store.manifest or "")
        store.save(json.dumps({**manifest, "format": MANIFEST_FORMAT + 1}))
        with pytest.raises(
            StateCorruptedError, match=f"format {MANIFEST_FORMAT + 1}.*use the muntin"
        ):
            make_shard(combiner(), store)

    def test_a_damaged_blob(self) -> None:
        store = MemoryBlobs()
        step(make_shard(combiner(), store), ("a", 1, 1))
        number = next(iter(store.blobs))
        store.blobs[number] = store.blobs[number][:-1] + b"\x01"
        with pytest.raises(StateCorruptedError, match="checksum"):
            step(make_shard(combiner(), store), final=True)

    @pytest.mark.parametrize("accumulate", [True, False])
    def test_a_repeated_step_emits_the_same(self, accumulate: bool) -> None:
        # The cache stays warm over the failed attempt, as it does in a worker that lives on.
        firing = Firing(EveryRows(3), EveryRows(2), 20, 20, accumulate)
        query, store, cache = combiner(HOPPING, firing=firing), CountingBlobs(), FrameCache()
        for n in range(0, 60, 4):
            rows = [("ab"[i % 2], (i * 11) % 17 + i, i) for i in range(n, n + 4)]
            failed, committed = store.copy(), store.copy()
            first = step(PanedShard(query, failed, cache), *rows, wall=n)
            second = step(PanedShard(query, committed, cache), *rows, wall=n)
            cold = step(PanedShard(query, store.copy(), FrameCache()), *rows, wall=n)
            assert summarize_output(first) == summarize_output(second) == summarize_output(cold)
            store = committed


def summarize_output(emitted: ShardOutput) -> tuple[Any, ...]:
    rejected = sorted(map(repr, emitted.rejected.rows()))
    return (
        list_emissions(emitted),
        rejected,
        emitted.judged,
        emitted.watermark,
        emitted.counts,
        emitted.pending,
        emitted.rows,
    )


def list_run_numbers(store: MemoryBlobs) -> set[int]:
    return {run.number for run in parse_manifest(store.manifest or "").runs()}


class TestCost:
    @pytest.mark.parametrize("accumulate", [True, False])
    @pytest.mark.parametrize("early", [None, Each(), Every(10**9)], ids=str)
    def test_state_is_deleted_with_its_windows(self, early: Any, accumulate: bool) -> None:
        firing = Firing(early, EveryRows(2), grace=20, retention=40, accumulate=accumulate)
        store = CountingBlobs()
        shard = make_shard(combiner(HOPPING, firing=firing, lateness=5), store)
        blobs, rows = [], []
        for n in range(60):
            emitted = step(shard, ("a", 3 * n, 1), ("b", 3 * n - 7, 1), wall=10 * n)
            blobs.append(len(store.blobs))
            rows.append(emitted.rows + emitted.pending)
        assert max(blobs[30:]) <= max(blobs[:30])
        assert max(rows[30:]) <= max(rows[:30])
        assert max(rows) < 150

    def test_cells_of_closed_windows_are_deleted(self) -> None:
        shard = make_shard(combiner(TUMBLING))
        step(shard, *(("a", 10 * n, 1) for n in range(1000)))
        assert shard.cells.rows == 1

    def test_no_more_messages_are_stored_than_the_limit(self) -> None:
        # Windows of 10 are retained for 1000, with at most 12 messages in those that have ended.
        firing = Firing(retention=1000, rows=12)
        shard = make_shard(combiner(TUMBLING, firing=firing), cache=FrameCache())
        for n in range(90):
            step(shard, *(("a", 10 * n, 1) for _ in range(3)))
            assert dict(shard.retained.entries()["counts"]) == dict.fromkeys(
                range(max(0, n - 4), n + 1), 3
            )
            assert {*shard.cells.frames.blobs.blobs} == {
                run.number for run in shard.cells.entries()
            }
        # Deleted panes remain only in runs that they share with stored ones.
        assert shard.cells.rows < 25
        stored_panes = {pane for frame in shard.cells.read() for pane in frame["pane"]}
        assert stored_panes >= set(range(85, 90))

    def test_a_limit_of_messages_survives_a_restart(self) -> None:
        query, store = combiner(TUMBLING, firing=Firing(retention=990, rows=2)), MemoryBlobs()
        for n in range(9):
            step(make_shard(query, store), ("a", 10 * n, 1), ("b", 10 * n, 1))
        stored_panes = {
            pane for frame in make_shard(query, store).cells.read() for pane in frame["pane"]
        }
        assert stored_panes == {7, 8}

    @pytest.mark.parametrize("cold", [False, True])
    def test_a_small_batch_over_a_large_state_makes_few_calls(self, cold: bool) -> None:
        calls = []
        for keys in (10, 2_000):
            query, store, cache = combiner(Windows(1000, 10)), CountingBlobs(), FrameCache()
            shard = PanedShard(query, store, cache)
            for part in range(10):
                step(shard, *((f"key {n}", part * 10, 1) for n in range(keys)))
            store.calls.clear()
            store.written = 0
            reopened = PanedShard(query, store, FrameCache() if cold else cache)
            step(reopened, ("key 1", 95, 1))
            calls.append((dict(store.calls), store.written))
        assert calls[0] == calls[1]
        assert calls[0][0] == {"put": 1}

    def test_written_bytes_depend_on_the_batch(self) -> None:
        store = CountingBlobs()
        shard = make_shard(combiner(Windows(10_000, 1000), firing=Firing(early=Each())), store)
        step(shard, *((f"key {n}", n % 1000, 1) for n in range(20_000)))
        first_written, store.written = store.written, 0
        for n in range(20):
            step(shard, (f"key {n}", 500, 1))
        assert store.written < first_written / 5

    @pytest.mark.parametrize(
        "firing", [Firing(), ALL_POLICIES, replace(ALL_POLICIES, accumulate=False)]
    )
    def test_the_end_of_the_input_deletes_all_state(self, firing: Firing) -> None:
        store, cache = CountingBlobs(), FrameCache()
        firing = replace(firing, retention=firing.grace)
        shard = make_shard(combiner(HOPPING, firing=firing, lateness=5), store, cache)
        for n in range(30):
            step(shard, ("a", n, 1), ("b", n - 3, 1))
        emitted = step(shard, ("a", 30, 1), final=True)
        assert (emitted.rows, emitted.pending, store.blobs, cache.bytes) == (0, 0, {}, 0)
        assert list_emissions(step(shard, final=True)) == []
