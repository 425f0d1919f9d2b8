from __future__ import annotations

import json

import polars as pl

from muntin.engine.retention import RetentionCounter, divide_limit, merge_uncounted


def cells(*counts_by_pane: tuple[int, int]) -> pl.DataFrame:
    return pl.DataFrame(
        list(counts_by_pane), schema={"pane": pl.Int64, "n": pl.Int64}, orient="row"
    )


def build_counter(
    rows: int | None, *counts_by_pane: tuple[int, int], span: int = 1
) -> RetentionCounter:
    counter = RetentionCounter("pane", span, rows)
    counter.add(cells(*counts_by_pane))
    return counter


def read_counts(counter: RetentionCounter) -> dict[int, int]:
    return dict(counter.entries()["counts"])


def test_the_oldest_panes_are_deleted_until_few_enough_messages_are_left() -> None:
    # pane       1  2  3  5 | 6  9
    # messages   4  1  2  3 | 9  9     6 and 9 are open
    counts_by_pane = [(1, 4), (2, 1), (3, 2), (5, 3), (6, 9), (9, 9)]
    firsts = {10: None, 9: 2, 6: 2, 5: 3, 4: 4, 3: 4, 2: 6, 1: 6}
    assert {
        rows: build_counter(rows, *counts_by_pane).apply_limit(6, None) for rows in firsts
    } == firsts


def test_deleted_panes_are_not_counted() -> None:
    counter = build_counter(5, (1, 4), (2, 3))
    assert counter.apply_limit(3, None) == counter.floor == 2
    assert counter.apply_limit(3, None) == counter.floor == 2
    assert read_counts(counter) == {2: 3}
    counter.add(cells((3, 3), (2, 1), (3, 1)))
    assert read_counts(counter) == {2: 4, 3: 4}
    assert counter.apply_limit(4, None) == 3


def test_messages_can_be_subtracted() -> None:
    counter = build_counter(5, (1, 4), (2, 3))
    counter.add(cells((1, 4), (2, 1)), -1)
    assert read_counts(counter) == {2: 2}
    assert counter.floor is None


def test_expired_panes_are_deleted_first() -> None:
    counter = build_counter(5, (1, 4), (2, 4), (3, 4), (4, 4))
    assert counter.apply_limit(5, 3) == counter.floor == 4
    assert read_counts(counter) == {4: 4}
    assert (counter.apply_limit(5, 9), counter.floor) == (9, 4)
    assert read_counts(counter) == {}


def test_positions_near_each_other_are_deleted_together() -> None:
    # ranges of two    -1 | 0  1 | 2  3 | 4
    counter = build_counter(5, (-1, 1), (0, 4), (1, 4), (3, 1), (4, 3), span=64)
    assert read_counts(counter) == {-1: 1, 0: 8, 1: 1, 2: 3}
    assert counter.apply_limit(5, None) == 2
    assert read_counts(counter) == {1: 1, 2: 3}


def test_without_a_limit_nothing_is_counted() -> None:
    counter = build_counter(None, (1, 10**9))
    assert read_counts(counter) == {}
    assert (counter.apply_limit(5, None), counter.apply_limit(5, 3)) == (None, 3)


def test_each_shard_has_its_part() -> None:
    assert [divide_limit(10, shards) for shards in (None, 1, 3)] == [10, 10, 4]


def test_counts_survive_a_restart() -> None:
    counter = build_counter(5, (1, 4), (2, 3), (3, 3))
    assert counter.apply_limit(3, None) == 2
    reopened = RetentionCounter("pane", 1, 5, json.loads(json.dumps(counter.entries())))
    assert (reopened.floor, reopened.apply_limit(4, None)) == (2, 3)


def test_stored_cells_are_counted_where_the_counts_have_another_width() -> None:
    full_counter = build_counter(5, (1, 4), (2, 3), (3, 3))
    stored = json.loads(json.dumps(full_counter.entries()))
    unlimited = json.loads(json.dumps(build_counter(None, (1, 4)).entries()))
    shorter = RetentionCounter("pane", 64, 5, stored)
    for counter in (
        shorter,
        RetentionCounter("pane", 1, 5, unlimited),
        RetentionCounter("pane", 1, 5),
    ):
        assert read_counts(counter) == {}
        counter.count_stored(lambda: [cells((1, 4), (2, 3)), cells((3, 3))], 2)
        counter.count_stored(lambda: [cells((1, 4))], None)
        assert sum(read_counts(counter).values()) == 6
    same = RetentionCounter("pane", 1, 5, stored)
    same.count_stored(lambda: [cells((1, 4))], None)
    assert read_counts(same) == read_counts(full_counter)


def test_shards_remember_the_greatest_floor_together() -> None:
    assert merge_uncounted([None, 3, 2]) == {"floor": 3, "width": None, "counts": []}
    assert RetentionCounter("pane", 1, 5, merge_uncounted([None])).floor is None
