"""Tests that the tools for a query's state work for every kind of query, or refuse it by name.

``open_state`` and ``open_table``, their ``changes``, ``inspect``, ``why``, ``rescale`` and limits
of rows, over windows, joins and tables of each kind, and over each operator of chains of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

import polars as pl
import pytest
from tests.contract.chains import CHAINS, Link
from tests.contract.checkpoints import (
    BATCHES,
    BOUNDS,
    TABLES,
    WINDOWS,
    MemoryCheckpoint,
    image_of,
    join_run,
    join_spec,
    rescaled,
    tables_images,
    window_spec,
    windows_run,
)

from muntin.dataframe.state import explain_checkpoint, report_checkpoint
from muntin.engine.windows.operator import open_shard
from muntin.hosts.inspect.joins import OpenJoin
from muntin.hosts.inspect.opening import read_spec
from muntin.hosts.inspect.windows import OpenWindows
from muntin.model.errors import OptionError, SpecChangedError
from muntin.model.joins import HOWS, SIDES, How, JoinSpec
from muntin.model.policies import After, EveryRows, Firing
from muntin.spark.host.checkpoint import Checkpoint
from muntin.spark.inspect.tables import OpenTable
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache
from muntin.state.manifest import parse_manifest
from muntin.stores import Image, memory
from muntin.tables import App
from muntin.tables.partition_store import open_partition_blobs

AT = "1970-01-01 00:00:00.000013"
BY_TIME = [kind for kind, windows in WINDOWS.items() if windows.axis == "time"]
LIMITED = [kind for kind in BY_TIME if kind != "days"]
CLICKS = [
    [("a", 1.0), ("b", 2.0), ("c", 3.0)],
    [("a", 4.0), ("d", 12.0), ("a", 33.0)],
]

# The key "a" of the kinds whose key has more columns.
KEYS: dict[str, tuple[Any, ...]] = {kind: (0, "a") for kind in WINDOWS if "offsets" in kind}
KEYS["grouped by sets"] = ("a", 0)


def open_windows(kind: str, batch: int | None = None) -> OpenWindows:
    run = windows_run(window_spec(kind))
    run.take(BATCHES)
    checkpoint = run.open_checkpoint(batch)
    spec = read_spec(checkpoint)
    assert spec == window_spec(kind)
    return OpenWindows(checkpoint, spec)


def explain(checkpoint: Checkpoint, key: list[str], at: str, *table: str) -> str:
    """Return the output of ``why`` in one line."""
    return " ".join(" ".join(explain_checkpoint(checkpoint, key, at, *table)).split())


def rows(frame: pl.DataFrame) -> Counter[Any]:
    return Counter(map(str, frame.rows()))


def read_shards(state: OpenWindows, stores: list[MemoryBlobs]) -> pl.DataFrame:
    """Return the windows of the shards, read directly from their stores."""
    query = state._reader.combiner
    snapshots = [open_shard(query, store, FrameCache()).snapshot(None, None) for store in stores]
    return pl.concat(snapshots).select(*state.spec.keys, "n", "sum")


def check_changes(then: OpenWindows, now: OpenWindows) -> pl.DataFrame:
    """Check that changes lead from one batch to another, and return them."""
    changes = now.changes(then.batch)
    identity = [*now.spec.keys, "window_start", "window_end"]
    # Windows that expired aren't among the changes.
    present = pl.concat([now.fetch(), changes.filter(pl.col("change") == "gone").drop("change")])
    before = then.fetch().join(present, on=identity, how="semi", nulls_equal=True)
    unchanged = before.join(changes, on=identity, how="anti", nulls_equal=True)
    new = changes.filter(pl.col("change") != "gone").drop("change")
    assert rows(pl.concat([unchanged, new])) == rows(now.fetch())
    return changes


def inspect_checkpoint(
    checkpoint: MemoryCheckpoint, key: list[str] | None = None
) -> dict[str, Any]:
    """Return the output of ``inspect``, whose sums must equal those of the state."""
    report = report_checkpoint(checkpoint, key or ())
    runs = [run for manifest in checkpoint.manifest_by_shard.values() for run in manifest.runs()]
    blobs = sum(len(sizes) for sizes in checkpoint.measure_blobs().values())
    assert sum(table["rows"] for table in report["tables"]) == sum(run.rows for run in runs)
    assert sum(table["runs"] for table in report["tables"]) == blobs == len(runs)
    assert sum(table["bytes"] for table in report["tables"]) == sum(
        shard["bytes"] for shard in report["shards"]
    )
    return report


class TestWindows:
    @pytest.mark.parametrize("kind", WINDOWS)
    def test_open_state_says_what_the_shards_hold(self, kind: str) -> None:
        run = windows_run(window_spec(kind))
        run.take(BATCHES)
        state = OpenWindows(run.open_checkpoint(), window_spec(kind))
        windows = state.fetch()
        # A window that ends with its message is full at once, and isn't kept.
        assert len(windows) or kind == "rows that slide"
        shard_windows = read_shards(state, run.stores)
        assert rows(windows.select(shard_windows.columns)) == rows(shard_windows)
        key: Any = KEYS.get(kind, "a")
        assert set(state.fetch(key)["key"]) <= {"a"}
        assert len(state.fetch(key)) == len(windows.filter(pl.col("key") == "a"))

    @pytest.mark.parametrize("kind", WINDOWS)
    def test_changes_lead_from_one_batch_to_another(self, kind: str) -> None:
        run = windows_run(window_spec(kind))
        run.take(BATCHES)
        then, now = (OpenWindows(run.open_checkpoint(n), window_spec(kind)) for n in (1, 3))
        changes = check_changes(then, now)
        assert "new" in changes["change"] or kind == "rows that slide"

    @pytest.mark.parametrize("kind", WINDOWS)
    def test_inspect_counts_what_is_kept(self, kind: str) -> None:
        report = inspect_checkpoint(open_windows(kind).checkpoint)
        assert report["kind"] == "windows"
        assert report["counts"]["seen"] == sum(map(len, BATCHES))

    @pytest.mark.parametrize("kind", WINDOWS)
    def test_a_key_is_looked_into(self, kind: str) -> None:
        checkpoint = open_windows(kind).checkpoint
        key = [str(part) for part in KEYS.get(kind, ["a"])]
        assert report_checkpoint(checkpoint, key)["key"] or kind == "rows that slide"
        position = {"days": "1970-01-07"}.get(kind, AT) if kind in BY_TIME else "13"
        explanation = explain(checkpoint, key, position)
        assert explanation.startswith(f"key {', '.join(key)} windows {WINDOWS[kind]}")
        if kind not in BY_TIME:
            with pytest.raises(OptionError, match="isn't an offset; give a whole number"):
                explain_checkpoint(checkpoint, key, AT)

    def test_why_windows_of_rows_are_not_full(self) -> None:
        """The key ``a`` has five messages; row 47 of the partition is its last."""
        explanation = explain(open_windows("rows").checkpoint, ["a"], "4")
        assert "messages 5 of this key so far, numbered from 0" in explanation
        assert "window row 3 to row 6 not full yet: holds 2 messages, and 1 more" in explanation
        assert "message 4 has come: by their arrival none is late" in explanation
        assert "still to come: the next of this key is 5" in explain(
            open_windows("rows").checkpoint, ["a"], "5"
        )
        slides = explain(open_windows("rows that slide").checkpoint, ["a"], "4")
        assert "window row 2 to row 5 emitted in full when row 4 came" in slides

        offsets = open_windows("offsets").checkpoint
        assert "watermark row 50 of this key's partition" in explain(offsets, ["0", "a"], "47")
        late = explain(offsets, ["0", "a"], "1")
        assert "rejected as late: its last window takes nothing since the watermark" in late
        assert "none: no message has moved it yet" in explain(offsets, ["1", "a"], "1")
        sessions = open_windows("sessions of offsets").checkpoint
        assert "session row 47 to row 50 holds 1 messages" in explain(sessions, ["0", "a"], "47")

    @pytest.mark.parametrize("shards", [1, 3])
    @pytest.mark.parametrize("kind", WINDOWS)
    def test_it_goes_on_in_other_shards(self, kind: str, shards: int) -> None:
        whole = windows_run(window_spec(kind))
        wanted = whole.take(BATCHES)
        run = windows_run(window_spec(kind))
        assert run.take(BATCHES[:2]) == wanted[:2]
        spec = window_spec(kind, shards)
        moved = run.moved(shards, lambda stores: windows_run(spec, stores))
        assert moved.take(BATCHES[2:]) == wanted[2:]
        assert rows(OpenWindows(moved.open_checkpoint(), spec).fetch()) == rows(
            open_windows(kind).fetch()
        )


def open_join(kind: str, batch: int | None = None) -> OpenJoin:
    run = join_run(join_spec(kind))
    run.take(BATCHES)
    checkpoint = run.open_checkpoint(batch)
    spec = read_spec(checkpoint)
    assert spec == join_spec(kind)
    return OpenJoin(checkpoint, spec)


class TestJoins:
    @pytest.mark.parametrize("kind", BOUNDS)
    def test_open_state_says_what_either_side_keeps(self, kind: str) -> None:
        state = open_join(kind)
        for factor, side in enumerate(SIDES, 1):
            messages = state.fetch(side)
            sent = {(key, value * factor, at) for batch in BATCHES for key, at, value in batch}
            assert len(messages)
            assert set(messages.select("key", "value", "at").rows()) <= sent
            messages_of_key = messages.filter(pl.col("key") == "a")
            assert rows(state.fetch(side, "a")) == rows(messages_of_key)

    @pytest.mark.parametrize("kind", BOUNDS)
    def test_changes_are_what_came_since_and_is_kept(self, kind: str) -> None:
        state = open_join(kind)
        for factor, side in enumerate(SIDES, 1):
            new = {(key, value * factor, at) for batch in BATCHES[3:] for key, at, value in batch}
            stored = set(state.fetch(side).select("key", "value", "at").rows())
            changes = state.changes(side, 2).select("key", "value", "at").rows()
            assert set(changes) == new & stored
            assert changes

    @pytest.mark.parametrize("kind", BOUNDS)
    def test_inspect_counts_what_is_kept(self, kind: str) -> None:
        report = inspect_checkpoint(open_join(kind).checkpoint, ["b"])
        assert report["kind"] == "join"
        assert report["counts"]["seen"] == 2 * sum(map(len, BATCHES))
        assert {row["side"] for row in report["key"]} == set(SIDES)

    @pytest.mark.parametrize("kind", [kind for kind in BOUNDS if kind != "version"])
    def test_why_a_message_has_partners_or_none(self, kind: str) -> None:
        run = join_run(join_spec(kind), apart=True)
        # Left: even values, right: odd ones.
        run.take([[("a", 1, 2), ("b", 2, 2)], [("a", 2, 1), ("c", 3, 1), ("d", 3, 2)]])
        position = "{}" if kind == "offsets" else f"{AT[:-2]}{{:02}}"
        checkpoint = run.open_checkpoint()
        explanation = explain(checkpoint, ["a"], position.format(1))
        assert f"key a join full, on key partners {BOUNDS[kind]}" in explanation
        at = "row 2" if kind == "offsets" else "1970-01-01 00:00:00.000002"
        assert f"has 1 partners that are kept: at {at} right " in explanation
        unmatched = explain(checkpoint, ["d"], position.format(3))
        assert (
            "has no partner among what is kept: no right message of this key is kept" in unmatched
        )
        assert "Then the left side's unmatched messages are emitted" in unmatched
        assert "no message of this key is kept at" in explain(checkpoint, ["d"], position.format(4))
        null = explain(checkpoint, [r"\N"], position.format(1))
        assert "left a message with NULL in its key has no partner: it is rejected" in null

    def test_why_a_message_has_a_version_or_none(self) -> None:
        run = join_run(join_spec("version"), apart=True)
        # Left: even values, right: odd ones.
        run.take([[("a", 1, 1), ("a", 4, 1), ("c", 5, 1)], [("a", 5, 2), ("b", 6, 2), ("a", 9, 2)]])
        checkpoint = run.open_checkpoint()
        explanation = explain(checkpoint, ["a"], f"{AT[:-2]}05")
        assert (
            "partners the newest before or at its time, 30 microseconds old at most" in explanation
        )
        assert "has 1 partners that are kept: at 1970-01-01 00:00:00.000004 right" in explanation
        unmatched = explain(checkpoint, ["b"], f"{AT[:-2]}06")
        assert "it is kept until the right side's watermark has passed it" in unmatched
        assert (
            "has no partner among what is kept: no right message of this key is kept" in unmatched
        )
        late = explain(checkpoint, ["a"], f"{AT[:-2]}01")
        assert "is rejected as late: the first accepted position is" in late
        assert "Then the left side's unmatched messages are emitted" in unmatched

    @pytest.mark.parametrize("how", HOWS)
    @pytest.mark.parametrize("kind", ["distance", "offsets"])
    def test_why_a_message_had_partners_that_are_gone(self, kind: str, how: How) -> None:
        """``why`` knows only what the join has noted about a message."""
        run = join_run(join_spec(kind, how=how), apart=True)
        # Left: even values, right: odd ones. The last left message expires all right ones.
        early = [("a", 1, 1), ("b", 2, 3), ("c", 2, 4), ("a", 3, 2)]
        run.take([early, [("d", 200, 2)], [("b", 3, 5)]])
        checkpoint = run.open_checkpoint()
        spec = read_spec(checkpoint)
        assert isinstance(spec, JoinSpec)
        assert not len(OpenJoin(checkpoint, spec).fetch("right", "a"))
        matched, unmatched = (
            explain(
                checkpoint, [key], position if kind == "offsets" else f"{AT[:-2]}0{position}"
            ).split(" right watermark")[0]
            for key, position in (("a", "3"), ("c", "2"))
        )
        if how == "semi":
            assert "one that has found a partner was emitted then, and isn't kept" in matched
        elif "left" in spec.sides_to_mark:
            assert "were deleted; it had a partner among them, or several" in matched
            assert matched.endswith("leaves no room for a partner, and has had a partner")
        else:
            assert "were deleted, and whether it had partners among them isn't known" in matched
        assert "has no partner among what is kept: no right message of this key" in unmatched
        assert ("were deleted; it had no partner among them" in unmatched) == (
            "left" in spec.sides_to_mark
        )

    def test_why_a_message_is_late(self) -> None:
        explanation = explain(open_join("window").checkpoint, ["a"], "1970-01-01 00:00:00.000001")
        assert "is rejected as late: the first accepted position is 1970-01-01" in explanation
        assert "would be taken now" in explain(
            open_join("window").checkpoint, ["a"], "1970-01-01 00:01"
        )

    @pytest.mark.parametrize(
        ("kind", "how"),
        # Each kind of join with one bound, and the other bounds with the full join.
        [
            *(("distance", how) for how in HOWS),
            *((kind, None) for kind in BOUNDS if kind != "distance"),
        ],
    )
    def test_it_goes_on_in_other_shards(self, kind: str, how: How | None) -> None:
        batches = messages_of_joins()
        whole = join_run(join_spec(kind, how=how), apart=True)
        wanted = whole.take(batches)
        run = join_run(join_spec(kind, how=how), apart=True)
        results = run.take(batches[:3])
        for cut, shards in ((3, 3), (6, 1), (9, 4)):
            spec = join_spec(kind, shards, how=how)
            run = run.moved(shards, lambda stores, spec=spec: join_run(spec, stores, apart=True))
            results += run.take(batches[cut : cut + 3])
        assert results == wanted
        assert any(results[3:6])
        assert any(results[6:9])
        now, then = (
            OpenJoin(run.open_checkpoint(), spec),
            OpenJoin(whole.open_checkpoint(), join_spec(kind, how=how)),
        )
        for side in SIDES:
            assert rows(now.fetch(side)) == rows(then.fetch(side))

    @pytest.mark.parametrize("kind", BOUNDS)
    def test_it_goes_on_in_other_shards_before_its_first_message(self, kind: str) -> None:
        run = join_run(join_spec(kind))
        assert run.take([[]]) == [[]]
        moved = run.moved(3, lambda stores: join_run(join_spec(kind, 3), stores))
        assert moved.take(BATCHES) == join_run(join_spec(kind)).take(BATCHES)


def messages_of_joins() -> list[list[Any]]:
    """Return messages of both sides in turns: most have partners, some have none, some are late."""
    random = Random(7)
    batches = []
    for batch in range(12):
        low = max(0, 12 * batch - 30)
        batches.append(
            [
                (
                    f"key {random.randrange(3 if n % 4 < 2 else 40)}",
                    random.randrange(low, 12 * batch + 12),
                    16 * batch + n,
                )
                for n in range(16)
            ]
        )
    return batches


@pytest.fixture(scope="module", params=CHAINS)
def chain(request: pytest.FixtureRequest) -> Link:
    """A chain that has taken some messages."""
    chain_with_state = CHAINS[request.param]()
    chain_with_state.take(messages_of_joins()[:7])
    return chain_with_state


@pytest.mark.slow
class TestChains:
    def test_open_state_and_changes_of_each_operator(self, chain: Link) -> None:
        for link in chain.chain():
            then, now = link.open_checkpoint(4), link.open_checkpoint()
            assert read_spec(now) == link.spec
            if isinstance(link.spec, JoinSpec):
                for side in SIDES:
                    before, after = (OpenJoin(at, link.spec).fetch(side) for at in (then, now))
                    changes = OpenJoin(now, link.spec).changes(side, 4)
                    assert rows(changes) == rows(after) - rows(before)
                    assert len(changes)
                continue
            state = OpenWindows(now, link.spec)
            shard_windows = read_shards(state, link.stores)
            assert rows(state.fetch().select(shard_windows.columns)) == rows(shard_windows)
            changes = check_changes(OpenWindows(then, link.spec), state)
            assert {"new"} <= {*changes["change"]}

    def test_inspect_and_why_of_each_operator(self, chain: Link) -> None:
        for link in chain.chain():
            reports = [inspect_checkpoint(link.open_checkpoint(), [f"key {n}"]) for n in range(3)]
            assert {report["kind"] for report in reports} == {link.spec.KIND}
            assert any(report["key"] for report in reports)
            explanation = explain(link.open_checkpoint(), ["key 0"], "1970-01-01 00:00:00.000070")
            head = "join full, on key partners" if link.spec.KIND == "join" else "windows"
            assert explanation.startswith(f"key key 0 {head} ")
            late = explain(link.open_checkpoint(), ["key 0"], "1970-01-01")
            assert "rejected as late" in late or "takes nothing" in late

    @pytest.mark.parametrize("name", CHAINS)
    def test_it_goes_on_in_other_shards(self, name: str) -> None:
        batches, chain = messages_of_joins()[:7], CHAINS[name]()
        results = chain.take(batches[:3])
        for cut, shards in ((3, 3), (5, 1)):
            chain = chain.moved(shards)
            results += chain.take(batches[cut : cut + 2])
        assert results == CHAINS[name]().take(batches)
        assert results[-1]

    @pytest.mark.parametrize("name", CHAINS)
    def test_it_goes_on_with_other_policies_of_an_operator(self, name: str) -> None:
        """Only the last operator may emit early: others would pass windows on more than once."""
        batches = messages_of_joins()[:6]

        def select_full(batches_of_rows: list[list[Any]]) -> Counter[Any]:
            emitted = (row for batch in batches_of_rows for row in batch)
            if CHAINS[name]().spec.KIND == "join":
                return Counter(emitted)
            return Counter(row[:-1] for row in emitted if row[-2] == "full")

        wanted = select_full(CHAINS[name]().take(batches))
        assert wanted
        for number, link in enumerate(CHAINS[name]().chain()):
            if isinstance(link.spec, JoinSpec):
                continue

            def change(spec: Any, number: int = number) -> Any:
                early = spec.firing.early if number else EveryRows(2)
                firing = replace(spec.firing, early=early, retention=2 * spec.firing.retention)
                return replace(spec, firing=firing)

            chain = CHAINS[name]()
            results = chain.take(batches[:3])
            changed_chain = chain.change_operator(change, number)
            results += changed_chain.take(batches[3:])
            assert select_full(results) == wanted
            assert read_spec(changed_chain.chain()[number].open_checkpoint()) == change(link.spec)

    @pytest.mark.parametrize("name", CHAINS)
    def test_what_may_not_change_is_refused_with_the_operator(self, name: str) -> None:
        for number, link in enumerate(CHAINS[name]().chain()):

            def change(spec: Any) -> Any:
                if isinstance(spec, JoinSpec):
                    return spec.with_side("left", change(spec.left))
                firing = replace(spec.firing, grace=spec.firing.grace + 1, retention=900)
                return replace(spec, firing=firing)

            chain = CHAINS[name]()
            chain.take(messages_of_joins()[:2])
            changed_chain = chain.change_operator(change, number)
            with pytest.raises(SpecChangedError, match="grace: was ") as refusal:
                changed_chain.take(messages_of_joins()[2:3])
            assert f") than {link.spec.title}; go back to it" in str(refusal.value)


CHANGED = Firing(early=EveryRows(2), late=EveryRows(2))
AGES = Firing(early=After(9), late=After(9, "last", 2))


class TestChangedPolicies:
    @pytest.mark.parametrize(
        ("kind", "before", "after"),
        [
            *((kind, None, CHANGED) for kind in BY_TIME),
            *((kind, CHANGED, AGES) for kind in BY_TIME),
            *((kind, AGES, CHANGED) for kind in BY_TIME),
        ],
    )
    def test_windows_by_time_go_on_with_other_policies(
        self, kind: str, before: Firing | None, after: Firing
    ) -> None:
        """The final results don't depend on earlier emissions."""
        spec = window_spec(kind)
        if before is not None:
            first = replace(spec.firing, early=before.early, late=before.late)
            spec = replace(spec, firing=first)
        firing = replace(spec.firing, early=after.early, late=after.late)
        other = replace(spec, firing=replace(firing, retention=2 * firing.retention))
        run, whole = windows_run(spec), windows_run(spec)
        run.take(BATCHES[:2])
        whole.take(BATCHES)
        changed = windows_run(other, run.stores)
        changed.take(BATCHES[2:])
        state, expected = (
            OpenWindows(query.open_checkpoint(), read_spec(query.open_checkpoint()))
            for query in (changed, whole)
        )
        assert (state.spec, expected.spec) == (other, spec)
        assert rows(state.fetch()) == rows(expected.fetch())

    @pytest.mark.parametrize("kind", [kind for kind in WINDOWS if kind not in BY_TIME])
    def test_windows_by_rows(self, kind: str) -> None:
        spec = window_spec(kind)
        run = windows_run(spec)
        run.take(BATCHES[:2])
        early = replace(spec, firing=replace(spec.firing, early=EveryRows(2)))
        if early.by_arrival:
            with pytest.raises(SpecChangedError, match="early: was never, is every 2 rows"):
                windows_run(early, run.stores).take(BATCHES[2:])
            return
        windows_run(early, run.stores).take(BATCHES[2:])
        with pytest.raises(SpecChangedError, match="early: was every 2 rows, is never"):
            windows_run(spec, run.stores).take(BATCHES[3:])

    @pytest.mark.parametrize("kind", BOUNDS)
    def test_joins_refuse_them_by_name(self, kind: str) -> None:
        spec = join_spec(kind)
        run = join_run(spec)
        run.take(BATCHES[:2])
        firing = replace(spec.left.firing, grace=9, retention=9)
        other = replace(spec, left=replace(spec.left, firing=firing))
        with pytest.raises(SpecChangedError, match="left grace: was 0 "):
            join_run(other, run.stores).take(BATCHES[2:])

    def test_tables_go_on_with_another_expires_and_no_other_windows(self) -> None:
        image = Image()

        def run(size: int, expires: str, at: float) -> None:
            app = App("app", max_ahead=None)
            views = app.Table("views", default=int).tumbling(size, expires=expires)

            @app.agent(app.topic("clicks"))
            async def count(stream: Any) -> None:
                async for page in stream:
                    views[page] += 1

            running = app.open(store=memory(image), partitions=2)
            running.send("clicks", "a", key="a", timestamp=at)
            running.close()

        run(10, "1 minute", 1.0)
        # With the first definition, the first window would have expired.
        run(10, "1 hour", 200.0)
        stores = [open_partition_blobs(memory(image), "app", number) for number in range(2)]
        windows = OpenTable(MemoryCheckpoint([image_of(stores)]), "views", None, None).fetch("a")
        assert len(windows) == 2
        with pytest.raises(SpecChangedError, match="'views' was written by another definition"):
            run(7, "1 hour", 201.0)


@pytest.fixture(scope="module")
def images() -> list[Any]:
    return tables_images(CLICKS)


class TestTables:
    @pytest.mark.parametrize("table", TABLES)
    def test_open_table_and_its_changes(self, images: list[Any], table: str) -> None:
        then, now = (OpenTable(MemoryCheckpoint(images, n), table, None, None) for n in (0, 1))
        after, before = now.fetch(), then.fetch()
        assert set(after["key"]) >= {"a", "d"}
        assert rows(now.fetch("a")) == rows(after.filter(pl.col("key") == "a"))
        changes = now.changes(0)
        identity = [name for name in after.columns if name != "value"]
        unchanged = before.join(changes, on=identity, how="anti", nulls_equal=True)
        new = changes.filter(pl.col("change") != "gone").drop("change")
        assert rows(pl.concat([unchanged, new])) == rows(after)

    @pytest.mark.parametrize("table", TABLES)
    def test_inspect_shows_a_key(self, images: list[Any], table: str) -> None:
        checkpoint = MemoryCheckpoint(images)
        report = report_checkpoint(checkpoint, ["a"], table)
        runs = [
            run for manifest in checkpoint.manifest_by_shard.values() for run in manifest.runs()
        ]
        assert report["kind"] == "tables"
        assert sum(table_report["rows"] for table_report in report["tables"]) == sum(
            run.rows for run in runs
        )
        assert {row["key"] for row in report["key"]} == {"a"}

    @pytest.mark.parametrize("partitions", [1, 3])
    @pytest.mark.parametrize("table", TABLES)
    def test_it_lies_in_other_partitions(
        self, images: list[Any], table: str, partitions: int
    ) -> None:
        """tests/unit/tables tests that agents continue in other partitions."""
        stores = [MemoryBlobs(text) for text, _ in images[-1].values()]
        for store, (_, blobs) in zip(stores, images[-1].values(), strict=True):
            store.blobs = dict(blobs)
        moved = MemoryCheckpoint([image_of(rescaled(stores, partitions))])
        before, after = (
            OpenTable(checkpoint, table, None, None)
            for checkpoint in (MemoryCheckpoint(images), moved)
        )
        assert rows(after.fetch()) == rows(before.fetch())
        assert rows(after.fetch("a")) == rows(before.fetch("a"))
        assert len(after.fetch("a"))

    @pytest.mark.parametrize("table", TABLES)
    def test_why_a_key_has_a_value_or_a_write_is_late(self, images: list[Any], table: str) -> None:
        checkpoint = MemoryCheckpoint(images)
        state = OpenTable(checkpoint, table, None, None)
        explanation = explain(checkpoint, ["a"], "1970-01-01 00:00:33", table)
        assert explanation.startswith(f"key a table {state.spec} ")
        assert "would be taken" in explanation
        assert {"members": "value {0, 1}", "total": "value 3"}.get(table, "holds ") in explanation
        unknown_key = explain(checkpoint, ["nobody"], "1970-01-01 00:00:33", table)
        assert "it was never written, or" in unknown_key
        early = explain(checkpoint, ["a"], "1960-01-01", table)
        has_expiry = state.spec.windows is not None and state.spec.expires is not None
        assert ("is rejected as late: its last window expired" in early) == has_expiry

    def test_the_other_tools_refuse_them_by_name(self, images: list[Any]) -> None:
        checkpoint = MemoryCheckpoint(images)
        with pytest.raises(OptionError, match=r"holds tables; write muntin\.open_table"):
            read_spec(checkpoint)
        with pytest.raises(OptionError, match=r"may be in several tables; give one: --table"):
            explain_checkpoint(checkpoint, ["a"], AT)


@pytest.mark.parametrize("kind", LIMITED)
def test_a_limit_of_rows_keeps_the_newest_windows(kind: str) -> None:
    firing = {"early": None, "retention": 100, "rows": 4}
    limited = window_spec(kind, **firing)
    run = windows_run(limited)
    run.take(BATCHES)
    whole = windows_run(replace(limited, firing=replace(limited.firing, rows=None)))
    whole.take(BATCHES)
    limited_windows = OpenWindows(run.open_checkpoint(), limited).fetch()
    all_windows = OpenWindows(whole.open_checkpoint(), read_spec(whole.open_checkpoint())).fetch()
    assert 0 < len(limited_windows) < len(all_windows)
    assert not rows(limited_windows) - rows(all_windows)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("kind", LIMITED)
def test_a_limit_of_rows_goes_on_in_other_shards(kind: str, shards: int) -> None:
    """The results are the same, and deleted windows don't come back."""
    firing: dict[str, Any] = {"retention": 100, "rows": 6}
    whole, run = (windows_run(window_spec(kind, **firing)) for _ in range(2))
    wanted = whole.take(BATCHES)
    run.take(BATCHES[:3])
    spec = window_spec(kind, shards, **firing)
    moved = run.moved(shards, lambda stores: windows_run(spec, stores))
    moved.images.append(image_of(moved.stores))
    before, after = (
        OpenWindows(checkpoint, read_spec(checkpoint)).fetch()
        for checkpoint in (run.open_checkpoint(), moved.open_checkpoint())
    )
    assert len(after)
    assert not rows(after) - rows(before)
    assert moved.take(BATCHES[3:]) == wanted[3:]


@pytest.mark.parametrize("kind", LIMITED)
def test_a_limit_that_comes_later_counts_what_was_there(kind: str) -> None:
    """It keeps as many rows as a limit from the beginning."""
    free = {"early": None, "retention": 100}
    always, later = window_spec(kind, 1, **free, rows=4), window_spec(kind, 1, **free)
    first, then = windows_run(always), windows_run(later)
    for run in (first, then):
        run.take(BATCHES[:3])
    limited = windows_run(always, then.stores)
    for run in (first, limited):
        run.take(BATCHES[3:])
    windows, expected = (
        OpenWindows(run.open_checkpoint(), always).fetch() for run in (limited, first)
    )
    assert rows(windows) == rows(expected)


@pytest.mark.parametrize("kind", ["rows", "rows that slide", "offsets", "sessions of offsets"])
def test_a_limit_of_rows_beside_rows_is_refused_by_name(kind: str) -> None:
    with pytest.raises(OptionError, match="is a second measure for"):
        window_spec(kind, rows=4)


def test_a_limit_of_rows_of_joins() -> None:
    for kind in ("distance", "window"):
        run = join_run(join_spec(kind, rows=2))
        run.take(BATCHES)
        messages = OpenJoin(run.open_checkpoint(), join_spec(kind, rows=2)).fetch("left")
        assert 0 < len(messages) < len(open_join(kind).fetch("left"))
    for kind in ("session", "offsets"):
        with pytest.raises(OptionError, match=r"isn't for session joins|can't be counted here"):
            join_spec(kind, rows=4)


def test_what_has_found_a_partner_goes_with_its_key() -> None:
    run = join_run(join_spec("distance"))
    run.take(BATCHES)
    moved = rescaled(run.stores, 3)

    def count_matched(stores: list[MemoryBlobs]) -> list[int]:
        tables = [parse_manifest(store.load() or "").tables["left matched"] for store in stores]
        return [sum(run.rows for run in runs) for runs in tables]

    assert sum(count_matched(moved)) == sum(count_matched(run.stores))
    assert sum(n > 0 for n in count_matched(moved)) > 1


@pytest.mark.parametrize("how", ["full", "semi"])
@pytest.mark.parametrize("kind", ["distance", "window"])
def test_a_limit_of_rows_of_joins_goes_on_in_other_shards(kind: str, how: How) -> None:
    """Each message is emitted with partners, as without the limit, or unmatched once."""
    batches = messages_of_joins()
    run = join_run(join_spec(kind, how=how, rows=8), apart=True)
    results = run.take(batches[:4])
    for cut, shards in ((4, 3), (8, 1)):
        spec = join_spec(kind, shards, how=how, rows=8)
        run = run.moved(shards, lambda stores, spec=spec: join_run(spec, stores, apart=True))
        results += run.take(batches[cut : cut + 4])
        sides = [OpenJoin(run.open_checkpoint(), spec).fetch(side) for side in SIDES]
        assert all(0 < len(side) <= 8 + shards for side in sides)
    # Without the limit there are more pairs, and those that don't come count as unmatched.
    free = join_run(join_spec(kind, how=how), apart=True).take(batches)
    expected, emitted = (
        Counter(str(row) for rows in out for row in rows) for out in (free, results)
    )
    assert max(emitted.values()) == 1
    assert all("None" in row for row in emitted - expected)
