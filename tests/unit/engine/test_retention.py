from __future__ import annotations

import json

import polars as pl

from muntin.engine.retention import RetentionCounter, divide_limit, merge_uncounted


def cells(*found: tuple[int, int]) -> pl.DataFrame:
    return pl.DataFrame(list(found), schema={"pane": pl.Int64, "n": pl.Int64}, orient="row")


def kept(rows: int | None, *found: tuple[int, int], span: int = 1) -> RetentionCounter:
    counted = RetentionCounter("pane", span, rows)
    counted.add(cells(*found))
    return counted


def counts(held: RetentionCounter) -> dict[int, int]:
    return dict(held.entries()["counts"])


def test_the_oldest_go_until_few_enough_are_left() -> None:
    # pane       1  2  3  5 | 6  9
    # messages   4  1  2  3 | 9  9     6 and 9 are open
    found = [(1, 4), (2, 1), (3, 2), (5, 3), (6, 9), (9, 9)]
    firsts = {10: None, 9: 2, 6: 2, 5: 3, 4: 4, 3: 4, 2: 6, 1: 6}
    assert {rows: kept(rows, *found).apply_limit(6, None) for rows in firsts} == firsts


def test_what_is_gone_is_counted_no_more() -> None:
    counted = kept(5, (1, 4), (2, 3))
    assert counted.apply_limit(3, None) == counted.floor == 2
    assert counted.apply_limit(3, None) == counted.floor == 2
    assert counts(counted) == {2: 3}
    counted.add(cells((3, 3), (2, 1), (3, 1)))
    assert counts(counted) == {2: 4, 3: 4}
    assert counted.apply_limit(4, None) == 3


def test_what_is_taken_away_again() -> None:
    counted = kept(5, (1, 4), (2, 3))
    counted.add(cells((1, 4), (2, 1)), -1)
    assert counts(counted) == {2: 2}
    assert counted.floor is None


def test_time_goes_first() -> None:
    counted = kept(5, (1, 4), (2, 4), (3, 4), (4, 4))
    assert counted.apply_limit(5, 3) == counted.floor == 4
    assert counts(counted) == {4: 4}
    assert (counted.apply_limit(5, 9), counted.floor) == (9, 4)
    assert counts(counted) == {}


def test_places_near_each_other_go_together() -> None:
    # stretches of two    -1 | 0  1 | 2  3 | 4
    counted = kept(5, (-1, 1), (0, 4), (1, 4), (3, 1), (4, 3), span=64)
    assert counts(counted) == {-1: 1, 0: 8, 1: 1, 2: 3}
    assert counted.apply_limit(5, None) == 2
    assert counts(counted) == {1: 1, 2: 3}


def test_without_a_limit_nothing_is_counted() -> None:
    counted = kept(None, (1, 10**9))
    assert counts(counted) == {}
    assert (counted.apply_limit(5, None), counted.apply_limit(5, 3)) == (None, 3)


def test_each_shard_has_its_part() -> None:
    assert [divide_limit(10, shards) for shards in (None, 1, 3)] == [10, 10, 4]


def test_counts_survive_a_restart() -> None:
    before = kept(5, (1, 4), (2, 3), (3, 3))
    assert before.apply_limit(3, None) == 2
    after = RetentionCounter("pane", 1, 5, json.loads(json.dumps(before.entries())))
    assert (after.floor, after.apply_limit(4, None)) == (2, 3)


def test_what_is_stored_is_counted_where_another_counted_it() -> None:
    whole = kept(5, (1, 4), (2, 3), (3, 3))
    stored = json.loads(json.dumps(whole.entries()))
    free = json.loads(json.dumps(kept(None, (1, 4)).entries()))
    shorter = RetentionCounter("pane", 64, 5, stored)
    for counted in (shorter, RetentionCounter("pane", 1, 5, free), RetentionCounter("pane", 1, 5)):
        assert counts(counted) == {}
        counted.count_stored(lambda: [cells((1, 4), (2, 3)), cells((3, 3))], 2)
        counted.count_stored(lambda: [cells((1, 4))], None)
        assert sum(counts(counted).values()) == 6
    same = RetentionCounter("pane", 1, 5, stored)
    same.count_stored(lambda: [cells((1, 4))], None)
    assert counts(same) == counts(whole)


def test_shards_remember_the_greatest_floor_together() -> None:
    assert merge_uncounted([None, 3, 2]) == {"floor": 3, "width": None, "counts": []}
    assert RetentionCounter("pane", 1, 5, merge_uncounted([None])).floor is None
