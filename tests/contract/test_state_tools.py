"""What looks at a query's state works for every kind of query, or says by name that it can't.

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
from muntin.state.frame_cache import FrameCache
from muntin.state.manifest import parse_manifest
from muntin.stores import Image, memory
from muntin.tables import App
from muntin.tables.partition_store import open_partition_blobs

AT = "1970-01-01 00:00:00.000013"
BY_TIME = [kind for kind, one in WINDOWS.items() if one.axis == "time"]
LIMITED = [kind for kind in BY_TIME if kind != "days"]
CLICKS = [
    [("a", 1.0), ("b", 2.0), ("c", 3.0)],
    [("a", 4.0), ("d", 12.0), ("a", 33.0)],
]

# What the key "a" is where there is more to it.
KEYS: dict[str, tuple[Any, ...]] = {kind: (0, "a") for kind in WINDOWS if "offsets" in kind}
KEYS["grouped by sets"] = ("a", 0)


def opened(kind: str, batch: int | None = None) -> OpenWindows:
    run = windows_run(window_spec(kind))
    run.take(BATCHES)
    checkpoint = run.opened(batch)
    spec = read_spec(checkpoint)
    assert spec == window_spec(kind)
    return OpenWindows(checkpoint, spec)


def said(checkpoint: Checkpoint, key: list[str], at: str, *table: str) -> str:
    """What ``why`` says, in one line."""
    return " ".join(" ".join(explain_checkpoint(checkpoint, key, at, *table)).split())


def rows(frame: pl.DataFrame) -> Counter[Any]:
    return Counter(map(str, frame.rows()))


def held_by(state: OpenWindows, stores: list[MemoryBlobs]) -> pl.DataFrame:
    """What the shards say themselves."""
    query = state._reader.combiner
    found = [open_shard(query, store, FrameCache()).snapshot(None, None) for store in stores]
    return pl.concat(found).select(*state.spec.keys, "n", "sum")


def check_changes(then: OpenWindows, now: OpenWindows) -> pl.DataFrame:
    """See that changes lead from one batch to another; returns them."""
    changes = now.changes(then.batch)
    identity = [*now.spec.keys, "window_start", "window_end"]
    # What is gone because it expired is no change.
    there = pl.concat([now.fetch(), changes.filter(pl.col("change") == "gone").drop("change")])
    before = then.fetch().join(there, on=identity, how="semi", nulls_equal=True)
    stays = before.join(changes, on=identity, how="anti", nulls_equal=True)
    new = changes.filter(pl.col("change") != "gone").drop("change")
    assert rows(pl.concat([stays, new])) == rows(now.fetch())
    return changes


def inspected(checkpoint: MemoryCheckpoint, key: list[str] | None = None) -> dict[str, Any]:
    """What ``inspect`` says, whose sums are those of the state."""
    report = report_checkpoint(checkpoint, key or ())
    runs = [run for one in checkpoint.manifest_by_shard.values() for run in one.runs()]
    blobs = sum(len(mine) for mine in checkpoint.measure_blobs().values())
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
        state = OpenWindows(run.opened(), window_spec(kind))
        found = state.fetch()
        # A window that ends with its message is full at once, and isn't kept.
        assert len(found) or kind == "rows that slide"
        held = held_by(state, run.stores)
        assert rows(found.select(held.columns)) == rows(held)
        key: Any = KEYS.get(kind, "a")
        assert set(state.fetch(key)["key"]) <= {"a"}
        assert len(state.fetch(key)) == len(found.filter(pl.col("key") == "a"))

    @pytest.mark.parametrize("kind", WINDOWS)
    def test_changes_lead_from_one_batch_to_another(self, kind: str) -> None:
        run = windows_run(window_spec(kind))
        run.take(BATCHES)
        then, now = (OpenWindows(run.opened(n), window_spec(kind)) for n in (1, 3))
        changes = check_changes(then, now)
        assert "new" in changes["change"] or kind == "rows that slide"

    @pytest.mark.parametrize("kind", WINDOWS)
    def test_inspect_counts_what_is_kept(self, kind: str) -> None:
        report = inspected(opened(kind).checkpoint)
        assert report["kind"] == "windows"
        assert report["counts"]["seen"] == sum(map(len, BATCHES))

    @pytest.mark.parametrize("kind", WINDOWS)
    def test_a_key_is_looked_into(self, kind: str) -> None:
        checkpoint = opened(kind).checkpoint
        key = [str(part) for part in KEYS.get(kind, ["a"])]
        assert report_checkpoint(checkpoint, key)["key"] or kind == "rows that slide"
        place = {"days": "1970-01-07"}.get(kind, AT) if kind in BY_TIME else "13"
        found = said(checkpoint, key, place)
        assert found.startswith(f"key {', '.join(key)} windows {WINDOWS[kind]}")
        if kind not in BY_TIME:
            with pytest.raises(OptionError, match="isn't an offset; give a whole number"):
                explain_checkpoint(checkpoint, key, AT)

    def test_why_windows_of_rows_are_not_full(self) -> None:
        """Of ``a`` five messages came by arrival; row 47 of the partition is its last."""
        found = said(opened("rows").checkpoint, ["a"], "4")
        assert "messages 5 of this key so far, numbered from 0" in found
        assert "window row 3 to row 6 not full yet: holds 2 messages, and 1 more" in found
        assert "message 4 has come: by their arrival none is late" in found
        assert "still to come: the next of this key is 5" in said(
            opened("rows").checkpoint, ["a"], "5"
        )
        slides = said(opened("rows that slide").checkpoint, ["a"], "4")
        assert "window row 2 to row 5 emitted in full when row 4 came" in slides

        offsets = opened("offsets").checkpoint
        assert "watermark row 50 of this key's partition" in said(offsets, ["0", "a"], "47")
        late = said(offsets, ["0", "a"], "1")
        assert "rejected as late: its last window takes nothing since the watermark" in late
        assert "none: no message has moved it yet" in said(offsets, ["1", "a"], "1")
        sessions = opened("sessions of offsets").checkpoint
        assert "session row 47 to row 50 holds 1 messages" in said(sessions, ["0", "a"], "47")

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
        assert rows(OpenWindows(moved.opened(), spec).fetch()) == rows(opened(kind).fetch())


def joined(kind: str, batch: int | None = None) -> OpenJoin:
    run = join_run(join_spec(kind))
    run.take(BATCHES)
    checkpoint = run.opened(batch)
    spec = read_spec(checkpoint)
    assert spec == join_spec(kind)
    return OpenJoin(checkpoint, spec)


class TestJoins:
    @pytest.mark.parametrize("kind", BOUNDS)
    def test_open_state_says_what_either_side_keeps(self, kind: str) -> None:
        state = joined(kind)
        for factor, side in enumerate(SIDES, 1):
            found = state.fetch(side)
            sent = {(key, value * factor, at) for batch in BATCHES for key, at, value in batch}
            assert len(found)
            assert set(found.select("key", "value", "at").rows()) <= sent
            only = found.filter(pl.col("key") == "a")
            assert rows(state.fetch(side, "a")) == rows(only)

    @pytest.mark.parametrize("kind", BOUNDS)
    def test_changes_are_what_came_since_and_is_kept(self, kind: str) -> None:
        state = joined(kind)
        for factor, side in enumerate(SIDES, 1):
            new = {(key, value * factor, at) for batch in BATCHES[3:] for key, at, value in batch}
            kept = set(state.fetch(side).select("key", "value", "at").rows())
            found = state.changes(side, 2).select("key", "value", "at").rows()
            assert set(found) == new & kept
            assert found

    @pytest.mark.parametrize("kind", BOUNDS)
    def test_inspect_counts_what_is_kept(self, kind: str) -> None:
        report = inspected(joined(kind).checkpoint, ["b"])
        assert report["kind"] == "join"
        assert report["counts"]["seen"] == 2 * sum(map(len, BATCHES))
        assert {row["side"] for row in report["key"]} == set(SIDES)

    @pytest.mark.parametrize("kind", [kind for kind in BOUNDS if kind != "version"])
    def test_why_a_message_has_partners_or_none(self, kind: str) -> None:
        run = join_run(join_spec(kind), apart=True)
        # Left: even values, right: odd ones.
        run.take([[("a", 1, 2), ("b", 2, 2)], [("a", 2, 1), ("c", 3, 1), ("d", 3, 2)]])
        place = "{}" if kind == "offsets" else f"{AT[:-2]}{{:02}}"
        checkpoint = run.opened()
        found = said(checkpoint, ["a"], place.format(1))
        assert f"key a join full, on key partners {BOUNDS[kind]}" in found
        at = "row 2" if kind == "offsets" else "1970-01-01 00:00:00.000002"
        assert f"has 1 partners that are kept: at {at} right " in found
        alone = said(checkpoint, ["d"], place.format(3))
        assert "has no partner among what is kept: no right message of this key is kept" in alone
        assert "Then the left side's unmatched messages are emitted" in alone
        assert "no message of this key is kept at" in said(checkpoint, ["d"], place.format(4))
        null = said(checkpoint, [r"\N"], place.format(1))
        assert "left a message with NULL in its key has no partner: it is rejected" in null

    def test_why_a_message_has_a_version_or_none(self) -> None:
        run = join_run(join_spec("version"), apart=True)
        # Left: even values, right: odd ones.
        run.take([[("a", 1, 1), ("a", 4, 1), ("c", 5, 1)], [("a", 5, 2), ("b", 6, 2), ("a", 9, 2)]])
        checkpoint = run.opened()
        found = said(checkpoint, ["a"], f"{AT[:-2]}05")
        assert "partners the newest before or at its time, 30 microseconds old at most" in found
        assert "has 1 partners that are kept: at 1970-01-01 00:00:00.000004 right" in found
        none = said(checkpoint, ["b"], f"{AT[:-2]}06")
        assert "it is kept until the right side's watermark has passed it" in none
        assert "has no partner among what is kept: no right message of this key is kept" in none
        late = said(checkpoint, ["a"], f"{AT[:-2]}01")
        assert "is rejected as late: the first accepted position is" in late
        assert "Then the left side's unmatched messages are emitted" in none

    @pytest.mark.parametrize("how", HOWS)
    @pytest.mark.parametrize("kind", ["distance", "offsets"])
    def test_why_a_message_had_partners_that_are_gone(self, kind: str, how: How) -> None:
        """What is noted of a message is known, and nothing else."""
        run = join_run(join_spec(kind, how=how), apart=True)
        # Left: even values, right: odd ones. By the last left one all of the right ones go.
        early = [("a", 1, 1), ("b", 2, 3), ("c", 2, 4), ("a", 3, 2)]
        run.take([early, [("d", 200, 2)], [("b", 3, 5)]])
        checkpoint = run.opened()
        spec = read_spec(checkpoint)
        assert isinstance(spec, JoinSpec)
        assert not len(OpenJoin(checkpoint, spec).fetch("right", "a"))
        had, none = (
            said(checkpoint, [key], place if kind == "offsets" else f"{AT[:-2]}0{place}").split(
                " right watermark"
            )[0]
            for key, place in (("a", "3"), ("c", "2"))
        )
        if how == "semi":
            assert "one that has found a partner was emitted then, and isn't kept" in had
        elif "left" in spec.sides_to_mark:
            assert "were deleted; it had a partner among them, or several" in had
            assert had.endswith("leaves no room for a partner, and has had a partner")
        else:
            assert "were deleted, and whether it had partners among them isn't known" in had
        assert "has no partner among what is kept: no right message of this key" in none
        assert ("were deleted; it had no partner among them" in none) == (
            "left" in spec.sides_to_mark
        )

    def test_why_a_message_is_late(self) -> None:
        found = said(joined("window").checkpoint, ["a"], "1970-01-01 00:00:00.000001")
        assert "is rejected as late: the first accepted position is 1970-01-01" in found
        assert "would be taken now" in said(joined("window").checkpoint, ["a"], "1970-01-01 00:01")

    @pytest.mark.parametrize(
        ("kind", "how"),
        # Each kind of join with one of the bounds, and the other bounds with the outermost join.
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
        given = run.take(batches[:3])
        for cut, shards in ((3, 3), (6, 1), (9, 4)):
            spec = join_spec(kind, shards, how=how)
            run = run.moved(shards, lambda stores, spec=spec: join_run(spec, stores, apart=True))
            given += run.take(batches[cut : cut + 3])
        assert given == wanted
        assert any(given[3:6])
        assert any(given[6:9])
        now, then = OpenJoin(run.opened(), spec), OpenJoin(whole.opened(), join_spec(kind, how=how))
        for side in SIDES:
            assert rows(now.fetch(side)) == rows(then.fetch(side))

    @pytest.mark.parametrize("kind", BOUNDS)
    def test_it_goes_on_in_other_shards_before_its_first_message(self, kind: str) -> None:
        run = join_run(join_spec(kind))
        assert run.take([[]]) == [[]]
        moved = run.moved(3, lambda stores: join_run(join_spec(kind, 3), stores))
        assert moved.take(BATCHES) == join_run(join_spec(kind)).take(BATCHES)


def messages_of_joins() -> list[list[Any]]:
    """Of both sides by turns, some late, most in the reach of others, some of nobody."""
    drawn = Random(7)
    found = []
    for batch in range(12):
        low = max(0, 12 * batch - 30)
        found.append(
            [
                (
                    f"key {drawn.randrange(3 if n % 4 < 2 else 40)}",
                    drawn.randrange(low, 12 * batch + 12),
                    16 * batch + n,
                )
                for n in range(16)
            ]
        )
    return found


@pytest.fixture(scope="module", params=CHAINS)
def chain(request: pytest.FixtureRequest) -> Link:
    """A chain that has taken some messages."""
    made = CHAINS[request.param]()
    made.take(messages_of_joins()[:7])
    return made


@pytest.mark.slow
class TestChains:
    def test_open_state_and_changes_of_each_operator(self, chain: Link) -> None:
        for link in chain.chain():
            then, now = link.opened(4), link.opened()
            assert read_spec(now) == link.spec
            if isinstance(link.spec, JoinSpec):
                for side in SIDES:
                    one, other = (OpenJoin(at, link.spec).fetch(side) for at in (then, now))
                    came = OpenJoin(now, link.spec).changes(side, 4)
                    assert rows(came) == rows(other) - rows(one)
                    assert len(came)
                continue
            state = OpenWindows(now, link.spec)
            held = held_by(state, link.stores)
            assert rows(state.fetch().select(held.columns)) == rows(held)
            changes = check_changes(OpenWindows(then, link.spec), state)
            assert {"new"} <= {*changes["change"]}

    def test_inspect_and_why_of_each_operator(self, chain: Link) -> None:
        for link in chain.chain():
            reports = [inspected(link.opened(), [f"key {n}"]) for n in range(3)]
            assert {report["kind"] for report in reports} == {link.spec.KIND}
            assert any(report["key"] for report in reports)
            found = said(link.opened(), ["key 0"], "1970-01-01 00:00:00.000070")
            head = "join full, on key partners" if link.spec.KIND == "join" else "windows"
            assert found.startswith(f"key key 0 {head} ")
            late = said(link.opened(), ["key 0"], "1970-01-01")
            assert "rejected as late" in late or "takes nothing" in late

    @pytest.mark.parametrize("name", CHAINS)
    def test_it_goes_on_in_other_shards(self, name: str) -> None:
        batches, one = messages_of_joins()[:7], CHAINS[name]()
        given = one.take(batches[:3])
        for cut, shards in ((3, 3), (5, 1)):
            one = one.moved(shards)
            given += one.take(batches[cut : cut + 2])
        assert given == CHAINS[name]().take(batches)
        assert given[-1]

    @pytest.mark.parametrize("name", CHAINS)
    def test_it_goes_on_with_other_policies_of_an_operator(self, name: str) -> None:
        """Only the last may emit early, so that nothing in between counts more than once."""
        batches = messages_of_joins()[:6]

        def full(found: list[list[Any]]) -> Counter[Any]:
            emitted = (row for batch in found for row in batch)
            if CHAINS[name]().spec.KIND == "join":
                return Counter(emitted)
            return Counter(row[:-1] for row in emitted if row[-2] == "full")

        wanted = full(CHAINS[name]().take(batches))
        assert wanted
        for number, link in enumerate(CHAINS[name]().chain()):
            if isinstance(link.spec, JoinSpec):
                continue

            def change(spec: Any, number: int = number) -> Any:
                early = spec.firing.early if number else EveryRows(2)
                firing = replace(spec.firing, early=early, retention=2 * spec.firing.retention)
                return replace(spec, firing=firing)

            one = CHAINS[name]()
            given = one.take(batches[:3])
            other = one.changed(change, number)
            given += other.take(batches[3:])
            assert full(given) == wanted
            assert read_spec(other.chain()[number].opened()) == change(link.spec)

    @pytest.mark.parametrize("name", CHAINS)
    def test_what_may_not_change_is_refused_with_the_operator(self, name: str) -> None:
        for number, link in enumerate(CHAINS[name]().chain()):

            def change(spec: Any) -> Any:
                if isinstance(spec, JoinSpec):
                    return spec.with_side("left", change(spec.left))
                firing = replace(spec.firing, grace=spec.firing.grace + 1, retention=900)
                return replace(spec, firing=firing)

            one = CHAINS[name]()
            one.take(messages_of_joins()[:2])
            other = one.changed(change, number)
            with pytest.raises(SpecChangedError, match="grace: was ") as refusal:
                other.take(messages_of_joins()[2:3])
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
        """What emits at last is the same whatever emitted before."""
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
        found, there = (
            OpenWindows(one.opened(), read_spec(one.opened())) for one in (changed, whole)
        )
        assert (found.spec, there.spec) == (other, spec)
        assert rows(found.fetch()) == rows(there.fetch())

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
        # By the first one the first window would have expired.
        run(10, "1 hour", 200.0)
        stores = [open_partition_blobs(memory(image), "app", number) for number in range(2)]
        found = OpenTable(MemoryCheckpoint([image_of(stores)]), "views", None, None).fetch("a")
        assert len(found) == 2
        with pytest.raises(SpecChangedError, match="'views' was written by another definition"):
            run(7, "1 hour", 201.0)


@pytest.fixture(scope="module")
def images() -> list[Any]:
    return tables_images(CLICKS)


class TestTables:
    @pytest.mark.parametrize("table", TABLES)
    def test_open_table_and_its_changes(self, images: list[Any], table: str) -> None:
        then, now = (OpenTable(MemoryCheckpoint(images, n), table, None, None) for n in (0, 1))
        found, before = now.fetch(), then.fetch()
        assert set(found["key"]) >= {"a", "d"}
        assert rows(now.fetch("a")) == rows(found.filter(pl.col("key") == "a"))
        changes = now.changes(0)
        identity = [name for name in found.columns if name != "value"]
        stays = before.join(changes, on=identity, how="anti", nulls_equal=True)
        new = changes.filter(pl.col("change") != "gone").drop("change")
        assert rows(pl.concat([stays, new])) == rows(found)

    @pytest.mark.parametrize("table", TABLES)
    def test_inspect_shows_a_key(self, images: list[Any], table: str) -> None:
        checkpoint = MemoryCheckpoint(images)
        report = report_checkpoint(checkpoint, ["a"], table)
        runs = [run for one in checkpoint.manifest_by_shard.values() for run in one.runs()]
        assert report["kind"] == "tables"
        assert sum(one["rows"] for one in report["tables"]) == sum(run.rows for run in runs)
        assert {row["key"] for row in report["key"]} == {"a"}

    @pytest.mark.parametrize("partitions", [1, 3])
    @pytest.mark.parametrize("table", TABLES)
    def test_it_lies_in_other_partitions(
        self, images: list[Any], table: str, partitions: int
    ) -> None:
        """That agents go on there is tested with the tables."""
        stores = [MemoryBlobs(text) for text, _ in images[-1].values()]
        for store, (_, blobs) in zip(stores, images[-1].values(), strict=True):
            store.blobs = dict(blobs)
        moved = MemoryCheckpoint([image_of(rescaled(stores, partitions))])
        before, after = (
            OpenTable(one, table, None, None) for one in (MemoryCheckpoint(images), moved)
        )
        assert rows(after.fetch()) == rows(before.fetch())
        assert rows(after.fetch("a")) == rows(before.fetch("a"))
        assert len(after.fetch("a"))

    @pytest.mark.parametrize("table", TABLES)
    def test_why_a_key_has_a_value_or_a_write_is_late(self, images: list[Any], table: str) -> None:
        checkpoint = MemoryCheckpoint(images)
        state = OpenTable(checkpoint, table, None, None)
        found = said(checkpoint, ["a"], "1970-01-01 00:00:33", table)
        assert found.startswith(f"key a table {state.spec} ")
        assert "would be taken" in found
        assert {"members": "value {0, 1}", "total": "value 3"}.get(table, "holds ") in found
        nobody = said(checkpoint, ["nobody"], "1970-01-01 00:00:33", table)
        assert "it was never written, or" in nobody
        early = said(checkpoint, ["a"], "1960-01-01", table)
        expires = state.spec.windows is not None and state.spec.expires is not None
        assert ("is rejected as late: its last window expired" in early) == expires

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
    kept = OpenWindows(run.opened(), limited).fetch()
    there = OpenWindows(whole.opened(), read_spec(whole.opened())).fetch()
    assert 0 < len(kept) < len(there)
    assert not rows(kept) - rows(there)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("kind", LIMITED)
def test_a_limit_of_rows_goes_on_in_other_shards(kind: str, shards: int) -> None:
    """What is emitted is the same; what was let go doesn't come back."""
    firing: dict[str, Any] = {"retention": 100, "rows": 6}
    whole, run = (windows_run(window_spec(kind, **firing)) for _ in range(2))
    wanted = whole.take(BATCHES)
    run.take(BATCHES[:3])
    spec = window_spec(kind, shards, **firing)
    moved = run.moved(shards, lambda stores: windows_run(spec, stores))
    moved.images.append(image_of(moved.stores))
    before, after = (
        OpenWindows(one, read_spec(one)).fetch() for one in (run.opened(), moved.opened())
    )
    assert len(after)
    assert not rows(after) - rows(before)
    assert moved.take(BATCHES[3:]) == wanted[3:]


@pytest.mark.parametrize("kind", LIMITED)
def test_a_limit_that_comes_later_counts_what_was_there(kind: str) -> None:
    """It keeps as much as one that was there from the beginning."""
    free = {"early": None, "retention": 100}
    always, later = window_spec(kind, 1, **free, rows=4), window_spec(kind, 1, **free)
    first, then = windows_run(always), windows_run(later)
    for run in (first, then):
        run.take(BATCHES[:3])
    again = windows_run(always, then.stores)
    for run in (first, again):
        run.take(BATCHES[3:])
    kept, there = (OpenWindows(run.opened(), always).fetch() for run in (again, first))
    assert rows(kept) == rows(there)


@pytest.mark.parametrize("kind", ["rows", "rows that slide", "offsets", "sessions of offsets"])
def test_a_limit_of_rows_beside_rows_is_refused_by_name(kind: str) -> None:
    with pytest.raises(OptionError, match="is a second measure for"):
        window_spec(kind, rows=4)


def test_a_limit_of_rows_of_joins() -> None:
    for kind in ("distance", "window"):
        run = join_run(join_spec(kind, rows=2))
        run.take(BATCHES)
        kept = OpenJoin(run.opened(), join_spec(kind, rows=2)).fetch("left")
        assert 0 < len(kept) < len(joined(kind).fetch("left"))
    for kind in ("session", "offsets"):
        with pytest.raises(OptionError, match=r"isn't for session joins|can't be counted here"):
            join_spec(kind, rows=4)


def test_what_has_found_a_partner_goes_with_its_key() -> None:
    run = join_run(join_spec("distance"))
    run.take(BATCHES)
    moved = rescaled(run.stores, 3)

    def matched(stores: list[MemoryBlobs]) -> list[int]:
        tables = [parse_manifest(store.load() or "").tables["left matched"] for store in stores]
        return [sum(run.rows for run in runs) for runs in tables]

    assert sum(matched(moved)) == sum(matched(run.stores))
    assert sum(n > 0 for n in matched(moved)) > 1


@pytest.mark.parametrize("how", ["full", "semi"])
@pytest.mark.parametrize("kind", ["distance", "window"])
def test_a_limit_of_rows_of_joins_goes_on_in_other_shards(kind: str, how: How) -> None:
    """Each message is emitted unmatched once or with partners that it has, as without the limit."""
    batches = messages_of_joins()
    run = join_run(join_spec(kind, how=how, rows=8), apart=True)
    given = run.take(batches[:4])
    for cut, shards in ((4, 3), (8, 1)):
        spec = join_spec(kind, shards, how=how, rows=8)
        run = run.moved(shards, lambda stores, spec=spec: join_run(spec, stores, apart=True))
        given += run.take(batches[cut : cut + 4])
        kept = [OpenJoin(run.opened(), spec).fetch(side) for side in SIDES]
        assert all(0 < len(side) <= 8 + shards for side in kept)
    # Without the limit there are more pairs, and those that don't come count as unmatched.
    free = join_run(join_spec(kind, how=how), apart=True).take(batches)
    there, emitted = (Counter(str(row) for rows in out for row in rows) for out in (free, given))
    assert max(emitted.values()) == 1
    assert all("None" in row for row in emitted - there)
