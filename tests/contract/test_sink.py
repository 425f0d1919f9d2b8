"""What sinks that keep windows promise: the newest version wins, a repeat changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.sinks import (
    PLACES,
    DuckDBPlace,
    MemoryPlace,
    Place,
    PostgresPlace,
    in_order,
)
from tests.spark import feed

import muntin as mt
from muntin.sinks.sink import Sink
from muntin.testing import SinkBatch as Written
from muntin.testing import check_sink

TABLE = 'a "table"; --'


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return PLACES[request.param](request, tmp_path)


@pytest.fixture
def sink(place: Place) -> Sink:
    return place.sink(TABLE, "history")


def kept(place: Place) -> list[tuple[Any, ...]]:
    return place.read(TABLE, "key", "window_start", "n", "revision")


def test_what_sinks_of_others_are_held_against(place: Place) -> None:
    names = ("key", "n", "revision")

    def rows() -> list[dict[str, Any]]:
        return [dict(zip(names, row, strict=True)) for row in place.read(TABLE, *names)]

    check_sink(lambda: place.sink(TABLE, None), rows)


def test_the_greater_revision_wins(sink: Sink, place: Place) -> None:
    sink.write(Written(0, [("a", 0, 1, 0), ("b", 0, 1, 0), ("a", 10, 1, 0)]))
    sink.write(Written(1, [("a", 0, 2, 1), ("a", 0, 3, 2), ("b", 10, 5, 0)]))
    now = [("a", 0, 3, 2), ("a", 10, 1, 0), ("b", 0, 1, 0), ("b", 10, 5, 0)]
    assert kept(place) == now
    sink.write(Written(2, [("a", 0, 9, 1)]))
    assert kept(place) == now
    sink.write(Written(3, []))
    assert kept(place) == now


def test_what_was_taken_back_is_deleted(sink: Sink, place: Place) -> None:
    sink.write(Written(0, [("a", 0, 1, 0), ("b", 0, 1, 0), ("a", 20, 1, 0)]))
    last = Written(1, [("a", 0, None, 1), ("a", 20, None, 1), ("a", 10, 3, 0), ("c", 0, None, 3)])
    for _ in range(2):
        sink.write(last)
        assert kept(place) == [("a", 10, 3, 0), ("b", 0, 1, 0)]
    emitted = place.read("history", "emission", "key", "revision")
    taken = [("retract", "a", 1), ("retract", "a", 1), ("retract", "c", 3)]
    assert [row for row in emitted if row[0] == "retract"] == taken


def test_null_is_a_key_like_others_and_not_the_word(sink: Sink, place: Place) -> None:
    sink.write(Written(0, [(None, 0, 1, 0), ("null", 0, 5, 0), (None, 10, 7, 0), ("a", 0, 1, 0)]))
    later = Written(1, [(None, 0, 2, 1), (None, 0, 3, 2), ("null", 0, None, 1), ("a", 0, 2, 1)])
    for batch in (later, later, Written(2, [(None, 0, 9, 1)])):
        sink.write(batch)
        assert kept(place) == [(None, 0, 3, 2), (None, 10, 7, 0), ("a", 0, 2, 1)]
    for _ in range(2):
        sink.write(Written(3, [(None, 0, None, 3), (None, 20, 1, 0)]))
        assert kept(place) == [(None, 10, 7, 0), (None, 20, 1, 0), ("a", 0, 2, 1)]
    sink.write(Written(4, [("a", 0, 4, 3), ("null", 0, 6, 2)]))
    assert kept(place)[2:] == [("a", 0, 4, 3), ("null", 0, 6, 2)]


def test_a_repeated_batch_changes_nothing(sink: Sink, place: Place) -> None:
    one, two = Written(0, [("a", 0, 1, 0)]), Written(1, [("a", 0, 2, 1), ("b", 0, 1, 0)])
    sink.write(one)
    sink.write(two)
    sink.write(two)
    history = place.read("history", "key", "n", "revision", "batch")
    assert history == [("a", 1, 0, 0), ("a", 2, 1, 1), ("b", 1, 0, 1)]
    assert kept(place) == [("a", 0, 2, 1), ("b", 0, 1, 0)]


def test_rejected_messages_are_appended_once(sink: Sink, place: Place) -> None:
    for number, rows in ((0, [("a", 0, 1, 0)]), (1, [("a", 0, 1, 0)] * 2)):
        for _ in range(2):
            sink.write(Written(number, rows, "rejected", None))
    assert place.read(TABLE, "key", "batch") == [("a", 0), ("a", 1), ("a", 1)]


class Idle(Written):
    """A batch in which nothing came in, and of which nothing may be fetched."""

    def table(self) -> Any:
        raise AssertionError("there is nothing to fetch")


@pytest.mark.parametrize("keys", [("key",), None])
def test_a_batch_without_rows_is_passed_over(
    sink: Sink, place: Place, keys: tuple[str, ...] | None
) -> None:
    """But for the first, which makes the table."""
    sink.write(Written(0, [], keys=keys))
    assert place.read(TABLE, "key", "n") == []
    for number in (1, 1, 2):
        sink.write(Idle(number, [], keys=keys))
    sink.write(Written(3, [("a", 0, 1, 0)], keys=keys))
    sink.write(Idle(4, [], keys=keys))
    assert place.read(TABLE, "key", "n") == [("a", 1)]


# A window's versions come in order, one after the other, and it may end by being taken back.
VERSIONS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([0, 10]), st.booleans()),
    max_size=12,
)


@pytest.mark.parametrize("name", ["memory", "duckdb", "postgres"])
def test_the_last_version_of_each_window_is_kept(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Whatever the batches, and however often one is repeated before the next comes."""
    here: Place = MemoryPlace() if name == "memory" else DuckDBPlace(tmp_path / "out.duckdb")
    if name == "postgres":
        here = PostgresPlace(request.getfixturevalue("postgres").database())
    tables = iter(range(1_000_000))

    @settings(max_examples=15)
    @given(VERSIONS, st.lists(st.integers(1, 4), max_size=6), st.lists(st.booleans(), max_size=6))
    def check(versions: list[Any], cuts: list[int], repeats: list[bool]) -> None:
        table = f"t{next(tables)}"
        target = here.sink(table, None)
        said, newest = [], {}
        revisions: dict[tuple[str | None, int], int] = {}
        for n, (key, start, alive) in enumerate(versions):
            revision = revisions[key, start] = revisions.get((key, start), -1) + 1
            value = n if alive else None
            said.append((key, start, value, revision))
            newest[key, start] = (value, revision)
        number, at = 0, 0
        target.write(Written(0, []))
        while at < len(said):
            size = cuts[number % len(cuts)] if cuts else 3
            batch = Written(number + 1, said[at : at + size])
            target.write(batch)
            if repeats and repeats[number % len(repeats)]:
                target.write(batch)
            number, at = number + 1, at + size
        alive = [(k, s, v, r) for (k, s), (v, r) in newest.items() if v is not None]
        assert here.read(table, "key", "window_start", "n", "revision") == in_order(alive)

    check()


def test_duckdb_takes_columns_that_came_later_by_their_names(tmp_path: Path) -> None:
    class Grown(Written):
        def table(self) -> pa.Table:
            count = pa.array(range(10, 10 + len(self.windows)))
            return super().table().add_column(0, "first", count)

    path, quoted = f"{tmp_path}/out.duckdb", '"' + TABLE.replace('"', '""') + '"'
    sink: Any = mt.to_duckdb(path, TABLE)
    for made, number in ((Written, 0), (Grown, 1), (Written, 2), (Grown, 1)):
        sink.write(made(number, [("a", number, 1, 0)], "rejected", None))
    found = feed.rows(Path(path), f"SELECT batch, key, n, first FROM {quoted} ORDER BY batch")
    assert found == [(0, "a", 1, None), (1, "a", 1, 10), (2, "a", 1, None)]
