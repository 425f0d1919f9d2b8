"""What each option does to the table, shard by shard."""

from __future__ import annotations

import dataclasses

import pytest
from tests.unit.apps.windowing.machine import Machine, call, tuples

import muntin as mt
from muntin.apps.windowing import TableProgress
from muntin.apps.windowing.packing import split_tuples


def batch(first: int, count: int, time: int):
    return tuples([(number, number, time) for number in range(first, first + count)])


def total(progress: list[TableProgress], name: str) -> int:
    return sum(getattr(emitted, name) for emitted in progress)


def test_historyseconds_deletes_what_is_as_old_and_nothing_younger():
    machine = Machine(historyseconds=1)
    machine.step(1000, batch(0, 10, 1000), batch(10, 5, 999))
    assert total(machine.step(1998), "rows") == 15
    assert total(machine.step(1999 + 100), "rows") == 0


def test_maxrows_is_a_limit_over_all_shards_however_uneven():
    machine = Machine(maxrows=7, historyseconds=0, shards=4)
    machine.step(1, batch(0, 3, 1))
    progress = machine.step(2, batch(3, 3, 2))
    assert total(progress, "rows") == 6
    unmatched = [n for n in range(100, 200) if 2 in split_tuples(batch(n, 1, 3), 4)]
    progress = machine.step(3, tuples([(n, n, 3) for n in unmatched[:5]]))
    assert [emitted.inserted for emitted in progress] == [0, 0, 5, 0]
    assert total(progress, "rows") == 7
    assert machine.times() == [2, 2, 3, 3, 3, 3, 3]


def test_shardrows_is_a_limit_of_each_shard():
    machine = Machine(shardrows=3, historyseconds=0, shards=2)
    machine.step(1, batch(0, 40, 1))
    assert [len(rows) for rows in machine.rows()] == [3, 3]
    newest = [rows[-1] for rows in machine.rows()]
    mine = next(n for n in range(100, 200) if 0 in split_tuples(batch(n, 1, 2), 2))
    progress = machine.step(200, batch(mine, 1, 2))
    assert [emitted.deleted for emitted in progress] == [1, 0]
    assert machine.rows()[0][1:] == [newest[0], (mine, mine, 2)]
    # One that is older than all that a shard keeps isn't among its newest.
    (late, _) = machine.step(400, batch(mine, 1, 0))
    assert (late.inserted, late.deleted, late.rows) == (1, 1, 3)


def test_the_three_limits_hold_together():
    machine = Machine(maxrows=5, shardrows=4, historyseconds=0.1, shards=1)
    machine.step(100, batch(0, 2, 50), batch(2, 6, 100))
    assert machine.times() == [100] * 4
    machine.step(250)
    assert machine.times() == []


def test_a_call_deletes_what_is_older_once():
    machine = Machine(historyseconds=0, deletes="calls", shards=2, deletechunksize=2)
    machine.step(10, batch(0, 20, 1), batch(20, 10, 5))
    progress = machine.step(11, calls=[call(before=5)])
    assert total(progress, "deleted") == 20
    assert total(progress, "chunks") == sum(-(-one.deleted // 2) for one in progress)
    answers = [answer for emitted in progress for answer in emitted.answers]
    assert [(name, left) for name, _, left in answers] == [("a", 0), ("a", 0)]
    assert sum(deleted for _, deleted, _ in answers) == 20
    assert total(machine.step(12, batch(30, 4, 6)), "rows") == 14
    assert machine.step(13)[0].answers == []


def test_a_call_takes_so_many_rows_of_each_shard_and_says_what_is_left():
    machine = Machine(historyseconds=0, deletes="calls", shards=1)
    machine.step(10, batch(0, 8, 1))
    calls = [call("b", before=2, most=3), call("a", shardrows=6, most=1)]
    (emitted,) = machine.step(11, calls=calls)
    assert emitted.answers == [("a", 1, 1), ("b", 3, 4)]
    assert machine.rows() == [[(n, n, 1) for n in range(4, 8)]]
    assert machine.step(12, calls=[call(shardrows=0)])[0].answers == [("a", 4, 0)]
    assert machine.step(13, calls=[call(shardrows=0)])[0].answers == [("a", 0, 0)]


def test_a_call_does_not_delete_what_is_still_to_come():
    machine = Machine(historyseconds=0, deletes="calls", shards=1)
    machine.step(10, batch(0, 8, 10))
    assert machine.step(11, calls=[call(before=10**9)])[0].rows == 0
    assert machine.step(12, batch(8, 5, 11))[0].rows == 5


def test_a_call_deletes_beside_the_applications_own_deleter():
    machine = Machine(historyseconds=0.1, inline=True, shards=1)
    machine.step(0, batch(0, 8, 0), batch(8, 2, 90))
    (emitted,) = machine.step(150, calls=[call(shardrows=1)])
    assert (emitted.deleted, emitted.rows, emitted.backlog) == (9, 1, 0)


def test_fewer_rows_than_shards_can_be_kept():
    machine = Machine(maxrows=1, historyseconds=0, shards=4)
    assert total(machine.step(1, batch(0, 50, 1)), "rows") == 1


def test_both_limits_hold_together():
    machine = Machine(maxrows=4, historyseconds=0.1)
    machine.step(100, batch(0, 3, 50), batch(3, 3, 100))
    assert machine.times() == [50, 100, 100, 100]
    machine.step(250)
    assert machine.times() == []


def test_inline_deletes_with_inserts_alone():
    machine = Machine(historyseconds=0.1, inline=True, shards=1)
    machine.step(0, batch(0, 8, 0))
    (idle,) = machine.step(500)
    assert (idle.deleted, idle.rows, idle.backlog) == (0, 8, 8)
    (busy,) = machine.step(501, batch(8, 1, 501))
    assert (busy.deleted, busy.rows, busy.backlog) == (8, 1, 0)


def test_inline_an_insert_takes_one_chunk_with_it():
    machine = Machine(historyseconds=0.1, inline=True, shards=1, deletechunksize=3)
    machine.step(0, batch(0, 8, 0))
    assert machine.step(501, batch(8, 2, 501))[0].deleted == 6
    assert machine.rows() == [[(6, 6, 0), (7, 7, 0), (8, 8, 501), (9, 9, 501)]]


def test_the_deleter_goes_on_when_nothing_is_inserted():
    machine = Machine(historyseconds=0.1, shards=1)
    machine.step(0, batch(0, 8, 0))
    (idle,) = machine.step(500)
    assert (idle.deleted, idle.rows) == (8, 0)


def test_the_deleter_yields_when_it_has_caught_up():
    machine = Machine(historyseconds=0.1, deleteyieldtime=200, shards=1)
    machine.step(1000, batch(0, 1, 850), batch(1, 1, 950))
    assert machine.times() == [950]
    (sleeping,) = machine.step(1199)
    assert (sleeping.deleted, sleeping.backlog) == (0, 1)
    (awake,) = machine.step(1200)
    assert (awake.deleted, awake.backlog) == (1, 0)


def test_a_turn_of_the_deleter_is_bounded_and_the_next_comes_at_once():
    machine = Machine(historyseconds=0.1, deletechunksize=1, deleteyieldtime=5000, shards=1)
    machine.step(0, batch(0, 25_000, 0))
    left = [machine.step(6000 + n)[0].backlog for n in range(3)]
    assert left == [15_000, 5_000, 0]


@pytest.mark.parametrize(("chunk", "chunks"), [(1, 10), (3, 4), (10, 1), (100, 1)])
def test_chunks_split_rows_of_one_time(chunk: int, chunks: int):
    machine = Machine(historyseconds=0.1, deletechunksize=chunk, shards=1)
    machine.step(0, batch(0, 10, 0))
    (emitted,) = machine.step(200)
    assert (emitted.deleted, emitted.chunks) == (10, chunks)


def test_averages_know_spans_below_a_second_and_an_upper_bound():
    machine = Machine(averages=(0.01, 0.1, 5), shards=1)
    future = (4, 1_000_000, 1001)
    (emitted,) = machine.step(1000, tuples([(1, 5, 900), (2, 7, 901), (3, 9, 995), future]))
    assert emitted.averages == [(9, 1), (16, 2), (21, 3)]


def test_the_maximum_falls_when_its_row_is_deleted():
    machine = Machine(historyseconds=0.1, shards=1)
    (emitted,) = machine.step(0, tuples([(1, 90, 0), (2, 40, 60)]))
    assert emitted.greatest == 90
    (emitted,) = machine.step(130)
    assert emitted.greatest == 40
    (emitted,) = machine.step(300)
    assert emitted.greatest is None
    assert emitted.averages == [(0, 0)] * 4


def test_a_row_that_is_too_old_is_inserted_and_deleted():
    machine = Machine(historyseconds=0.1, shards=1, deleteyieldtime=0)
    (emitted,) = machine.step(1000, batch(0, 2, 950))
    (emitted,) = machine.step(1001, batch(2, 3, 100))
    assert (emitted.inserted, emitted.deleted, emitted.rows, emitted.totals) == (3, 3, 2, (5, 3))


def test_rows_grow_old_by_event_time_if_asked():
    machine = Machine(historyseconds=1, clock="event", shards=2)
    long_ago = 1_000_000
    wall = 10**12
    assert total(machine.step(wall, batch(0, 10, long_ago)), "rows") == 10
    assert total(machine.step(wall + 10_000), "rows") == 10
    assert total(machine.step(wall + 20_000, batch(10, 1, long_ago + 1000)), "rows") == 1


def test_an_event_from_the_far_future_moves_the_clock_a_day_at_most():
    machine = Machine(historyseconds=172_800, clock="event", shards=1)
    wall = 10**12
    machine.step(wall, batch(0, 5, wall), batch(5, 1, 10**15))
    assert machine.step(wall)[0].clock == wall + 86_400_000
    assert machine.step(wall)[0].rows == 6


def test_state_is_bounded_by_what_is_kept():
    machine = Machine(historyseconds=2, shards=1)
    sizes = []
    for second in range(12):
        machine.step(second * 1000, batch(second * 500, 500, second * 1000))
        sizes.append(len(machine.stores[0].blobs))
    assert max(sizes[4:]) <= max(sizes[:4])
    assert machine.step(60_000)[0].bytes == 0
    assert not machine.stores[0].blobs


def test_a_batch_that_is_repeated_says_the_same():
    machine = Machine(maxrows=30, historyseconds=0.05, shards=2, deletechunksize=7)
    for clock in range(0, 100, 10):
        tasks = [batch(clock * 10, 10, clock), batch(clock * 10 + 10, 3, clock - 5)]
        again = machine.copied()
        assert machine.step(clock, *tasks) == again.step(clock, *tasks)
        assert machine.rows() == again.rows()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"shards": 3}, "2 shards, the options say 3"),
        ({"maxrows": 5}, "the checkpoint's run had no maxrows"),
    ],
)
def test_a_table_is_not_opened_with_options_that_do_not_fit(changed, said):
    machine = Machine(shards=2)
    machine.step(0, batch(0, 5, 0))
    machine.options = dataclasses.replace(machine.options, **changed)
    with pytest.raises(mt.SpecChangedError, match=said):
        machine.opened(0)
