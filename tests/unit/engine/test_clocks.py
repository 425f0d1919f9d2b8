"""Tests of the clocks of an input: how many are stored, and which one holds the watermark back."""

from __future__ import annotations

import polars as pl

from muntin.engine import columns
from muntin.engine.clocks import MOST_CLOCKS, ClockTime, InputClocks, clock_times, merge_times


def test_the_longest_silent_clock_is_forgotten() -> None:
    stored: dict[str, list[object]] = {}
    clocks = InputClocks(stored)
    clocks.take([ClockTime(f"d{n}", 10 + n) for n in range(MOST_CLOCKS)], 1)
    assert (clocks.holder(None, 1), clocks.find_slowest_time(None, 1)) == ("d0", 10)
    clocks.take([ClockTime("d0", 11), ClockTime("new", 12)], 2)
    assert len(stored) == MOST_CLOCKS
    assert {"d0", "new"} <= stored.keys()
    # Among those of one batch the latest was removed first, since it held nothing back.
    assert f"d{MOST_CLOCKS - 1}" not in stored


def test_of_too_many_clocks_in_a_batch_the_slowest_stay() -> None:
    times = merge_times([[(f"d{n}", n, None) for n in range(MOST_CLOCKS + 5)]])
    assert [clock.latest for clock in times] == [*range(MOST_CLOCKS)]


def test_parts_of_a_partition_are_one_clock() -> None:
    merged = merge_times(
        [[("p", 3, None)], [("p", 9, None), ("q", 4, None)]], {"p": True, "r": False}
    )
    assert merged == [("r", None, False), ("q", 4, None), ("p", 9, True)]


def test_clocks_of_columns_are_ignored_while_the_source_has_its_own() -> None:
    clocks = InputClocks({})
    clocks.take([ClockTime("device", 5)], 1)
    clocks.take([ClockTime("p0", 90, True), ClockTime("p1", 70, False)], 2)
    assert (clocks.holder(None, 2), clocks.find_slowest_time(None, 2)) == ("p0", 90)
    clocks.take([ClockTime("device", 100)], 3)
    assert clocks.holder(None, 3) == "device"


def test_partitions_in_long_runs_and_in_turns_have_the_same_times() -> None:
    names, times = ["p0", "p0", "p1", "p0", "p2"], [3, 9, 4, 7, None]
    in_runs = pl.DataFrame({columns.PARTITION: names, columns.TIME: times})
    in_turns = pl.concat([in_runs] * 100)
    expected = [ClockTime("p1", 4), ClockTime("p0", 9)]
    for messages in (in_runs, in_turns):
        assert clock_times(messages, (columns.PARTITION,)) == expected
    assert clock_times(in_runs.clear(), (columns.PARTITION,)) == []
