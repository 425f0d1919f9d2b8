"""Tests of all sinks of windows: the newest version wins, a repeated batch changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.sinks import (
    TARGETS,
    DuckDBTarget,
    MemoryTarget,
    PostgresTarget,
    Target,
    sort_rows,
)
from tests.spark import feed

import muntin as mt
from muntin.sinks.sink import Sink
from muntin.testing import SinkBatch as Written
from muntin.testing import check_sink

TABLE = 'a "table"; --'


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    return TARGETS[request.param](request, tmp_path)


@pytest.fixture
def sink(target: Target) -> Sink:
    return target.sink(TABLE, "history")


def read_windows(target: Target) -> list[tuple[Any, ...]]:
    return target.read(TABLE, "key", "window_start", "n", "revision")


def test_what_sinks_of_others_are_held_against(target: Target) -> None:
    names = ("key", "n", "revision")

    def rows() -> list[dict[str, Any]]:
        return [dict(zip(names, row, strict=True)) for row in target.read(TABLE, *names)]

    check_sink(lambda: target.sink(TABLE, None), rows)


def test_the_greater_revision_wins(sink: Sink, target: Target) -> None:
    sink.write(Written(0, [("a", 0, 1, 0), ("b", 0, 1, 0), ("a", 10, 1, 0)]))
    sink.write(Written(1, [("a", 0, 2, 1), ("a", 0, 3, 2), ("b", 10, 5, 0)]))
    newest = [("a", 0, 3, 2), ("a", 10, 1, 0), ("b", 0, 1, 0), ("b", 10, 5, 0)]
    assert read_windows(target) == newest
    sink.write(Written(2, [("a", 0, 9, 1)]))
    assert read_windows(target) == newest
    sink.write(Written(3, []))
    assert read_windows(target) == newest


def test_what_was_taken_back_is_deleted(sink: Sink, target: Target) -> None:
    sink.write(Written(0, [("a", 0, 1, 0), ("b", 0, 1, 0), ("a", 20, 1, 0)]))
    retracting_batch = Written(
        1, [("a", 0, None, 1), ("a", 20, None, 1), ("a", 10, 3, 0), ("c", 0, None, 3)]
    )
    for _ in range(2):
        sink.write(retracting_batch)
        assert read_windows(target) == [("a", 10, 3, 0), ("b", 0, 1, 0)]
    emitted = target.read("history", "emission", "key", "revision")
    retractions = [("retract", "a", 1), ("retract", "a", 1), ("retract", "c", 3)]
    assert [row for row in emitted if row[0] == "retract"] == retractions


def test_null_is_a_key_like_others_and_not_the_word(sink: Sink, target: Target) -> None:
    sink.write(Written(0, [(None, 0, 1, 0), ("null", 0, 5, 0), (None, 10, 7, 0), ("a", 0, 1, 0)]))
    later = Written(1, [(None, 0, 2, 1), (None, 0, 3, 2), ("null", 0, None, 1), ("a", 0, 2, 1)])
    for batch in (later, later, Written(2, [(None, 0, 9, 1)])):
        sink.write(batch)
        assert read_windows(target) == [(None, 0, 3, 2), (None, 10, 7, 0), ("a", 0, 2, 1)]
    for _ in range(2):
        sink.write(Written(3, [(None, 0, None, 3), (None, 20, 1, 0)]))
        assert read_windows(target) == [(None, 10, 7, 0), (None, 20, 1, 0), ("a", 0, 2, 1)]
    sink.write(Written(4, [("a", 0, 4, 3), ("null", 0, 6, 2)]))
    assert read_windows(target)[2:] == [("a", 0, 4, 3), ("null", 0, 6, 2)]


def test_a_repeated_batch_changes_nothing(sink: Sink, target: Target) -> None:
    first, second = Written(0, [("a", 0, 1, 0)]), Written(1, [("a", 0, 2, 1), ("b", 0, 1, 0)])
    sink.write(first)
    sink.write(second)
    sink.write(second)
    history = target.read("history", "key", "n", "revision", "batch")
    assert history == [("a", 1, 0, 0), ("a", 2, 1, 1), ("b", 1, 0, 1)]
    assert read_windows(target) == [("a", 0, 2, 1), ("b", 0, 1, 0)]


def test_rejected_messages_are_appended_once(sink: Sink, target: Target) -> None:
    for number, rows in ((0, [("a", 0, 1, 0)]), (1, [("a", 0, 1, 0)] * 2)):
        for _ in range(2):
            sink.write(Written(number, rows, "rejected", None))
    assert target.read(TABLE, "key", "batch") == [("a", 0), ("a", 1), ("a", 1)]


class Idle(Written):
    """A batch without rows, whose table may not be fetched."""

    def table(self) -> Any:
        raise AssertionError("there is nothing to fetch")


@pytest.mark.parametrize("keys", [("key",), None])
def test_a_batch_without_rows_is_passed_over(
    sink: Sink, target: Target, keys: tuple[str, ...] | None
) -> None:
    """The first batch isn't: it creates the table."""
    sink.write(Written(0, [], keys=keys))
    assert target.read(TABLE, "key", "n") == []
    for number in (1, 1, 2):
        sink.write(Idle(number, [], keys=keys))
    sink.write(Written(3, [("a", 0, 1, 0)], keys=keys))
    sink.write(Idle(4, [], keys=keys))
    assert target.read(TABLE, "key", "n") == [("a", 1)]


# A window's versions come in order, and any version may be retracted.
VERSIONS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([0, 10]), st.booleans()),
    max_size=12,
)


@pytest.mark.parametrize("name", ["memory", "duckdb", "postgres"])
def test_the_last_version_of_each_window_is_kept(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The sizes of batches don't matter, nor which ones are repeated."""
    storage: Target = MemoryTarget() if name == "memory" else DuckDBTarget(tmp_path / "out.duckdb")
    if name == "postgres":
        storage = PostgresTarget(request.getfixturevalue("postgres").database())
    tables = iter(range(1_000_000))

    @settings(max_examples=15)
    @given(VERSIONS, st.lists(st.integers(1, 4), max_size=6), st.lists(st.booleans(), max_size=6))
    def check(versions: list[Any], cuts: list[int], repeats: list[bool]) -> None:
        table = f"t{next(tables)}"
        sink = storage.sink(table, None)
        emitted, newest = [], {}
        revisions: dict[tuple[str | None, int], int] = {}
        for n, (key, start, alive) in enumerate(versions):
            revision = revisions[key, start] = revisions.get((key, start), -1) + 1
            value = n if alive else None
            emitted.append((key, start, value, revision))
            newest[key, start] = (value, revision)
        number, at = 0, 0
        sink.write(Written(0, []))
        while at < len(emitted):
            size = cuts[number % len(cuts)] if cuts else 3
            batch = Written(number + 1, emitted[at : at + size])
            sink.write(batch)
            if repeats and repeats[number % len(repeats)]:
                sink.write(batch)
            number, at = number + 1, at + size
        alive = [(k, s, v, r) for (k, s), (v, r) in newest.items() if v is not None]
        assert storage.read(table, "key", "window_start", "n", "revision") == sort_rows(alive)

    check()


def test_duckdb_takes_columns_that_came_later_by_their_names(tmp_path: Path) -> None:
    class Grown(Written):
        def table(self) -> pa.Table:
            count = pa.array(range(10, 10 + len(self.windows)))
            return super().table().add_column(0, "first", count)

    path, quoted = f"{tmp_path}/out.duckdb", '"' + TABLE.replace('"', '""') + '"'
    sink: Any = mt.to_duckdb(path, TABLE)
    for batch_class, number in ((Written, 0), (Grown, 1), (Written, 2), (Grown, 1)):
        sink.write(batch_class(number, [("a", number, 1, 0)], "rejected", None))
    stored_rows = feed.rows(Path(path), f"SELECT batch, key, n, first FROM {quoted} ORDER BY batch")
    assert stored_rows == [(0, "a", 1, None), (1, "a", 1, 10), (2, "a", 1, None)]
