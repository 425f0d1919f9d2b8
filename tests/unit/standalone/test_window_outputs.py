"""Tests of the outputs of the windows of one side of a join."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import muntin as mt
from muntin.model.errors import OptionError
from muntin.standalone import JoinWindow, SessionJoinWindow, join, windowed
from muntin.stores import Image, memory

SECOND = 1_000_000
MINUTE = 60 * SECOND
TIMED = windowed(time="at")
# The other side has no messages.
SILENT: Any = {"right": {"id": int, "at": int}}


def make_join(spec: Any, **options: Any) -> JoinWindow:
    return JoinWindow(spec, window_outputs=True, **{"schema": SILENT, **options})


def read_outputs(op: JoinWindow, *names: str) -> list[tuple[Any, ...]]:
    """Return the outputs of the left windows: bounds in seconds, some fields, and the emission."""
    outputs = op.get_result("left")
    bounds = [pl.col(name) // SECOND for name in ("window_start", "window_end")]
    return outputs.select(*bounds, *names, "emission").rows()


def test_the_window_of_three_orders_of_the_design() -> None:
    numbered = windowed(offset=("partition", "offset"))
    orders = numbered.tumbling(mt.rows(3)).early(every="1 minute")
    other = {"right": {"id": int, "partition": int, "offset": int}}
    op = make_join(join(orders, numbered, on="id"), schema=other)
    op.timeout(0)
    for number, offset, value in ((1, 1, 0), (3, 2, 5)):
        op.add_message("left", key=number, value={"value": value}, offset=offset)
    assert op.get_result("left").is_empty()
    op.timeout(MINUTE)
    names = ["window_start", "window_end", "value", "emission"]
    assert op.get_result("left").select(names).rows() == [(1, 4, 0, "early"), (1, 4, 5, "early")]
    op.flush()
    op.add_message("left", key=9, value={"value": 9}, offset=3)
    assert op.get_result("left").select(names).rows() == [(1, 4, 9, "full")]
    assert op.get_result().is_empty()


def test_the_window_of_two_minutes_of_the_design() -> None:
    orders = TIMED.tumbling("2 minutes", origin="2026-01-01T08:59").late(
        each=True, grace="10 minutes"
    )
    op = make_join(join(orders, TIMED, on="id", within="2 minutes"))
    for number, clock in ((1, "08:59:10"), (3, "09:00:00"), (9, "08:59:30")):
        op.add_message("left", key=number, value={}, time=f"2026-01-01T{clock}")
    outputs = op.get_result("left")
    assert outputs.select("id", "emission").rows() == [(1, "early"), (3, "early"), (9, "late")]
    assert outputs.columns == ["window_start", "window_end", "id", "at", "emission"]
    assert len(outputs.select("window_start", "window_end").unique()) == 1


def test_a_message_is_sent_on_by_the_first_window_that_includes_it() -> None:
    op = make_join(join(TIMED.hopping("10 s", "5 s"), TIMED, on="id", within="20 s"))
    for number, at in ((1, 7), (2, 12), (1, 15)):
        op.add_message("left", key=number, value={}, time=at * SECOND)
    op.add_message("right", key=1, value={}, time=8 * SECOND)
    assert read_outputs(op, "id") == [
        (0, 10, 1, "early"),
        (5, 15, 2, "early"),
        (10, 20, 1, "early"),
    ]
    assert len(op.get_result()) == 2  # the pairs are a separate output
    assert op.get_result("right").select("id", "emission").rows() == [(1, "early")]
    op.flush()
    assert op.get_result("left").is_empty()
    assert op.get_result("left").columns == ["window_start", "window_end", "id", "at", "emission"]


def test_messages_that_wait_are_sent_on_by_their_policy_or_when_their_window_is_full() -> None:
    side, image = TIMED.tumbling("10 s").early(every="1 minute"), Image()
    spec = join(side, TIMED, on="id", within="1 hour")
    with make_join(spec, store=memory(image)) as op:
        op.timeout(0)
        for number, at in ((1, 3), (2, 12)):
            op.add_message("left", key=number, value={}, time=at * SECOND)
        assert read_outputs(op, "id") == [(0, 10, 1, "full")]
        op.flush()
    with make_join(spec, store=memory(image)) as op:
        assert read_outputs(op, "id") == []
        op.timeout(MINUTE)
        assert read_outputs(op, "id") == [(10, 20, 2, "early")]


def test_a_late_message_is_late_also_where_others_wait() -> None:
    side = TIMED.tumbling("10 s").early(every="1 minute").late(each=True, grace="1 hour")
    op = make_join(join(side, TIMED, on="id", within="1 hour"))
    for number, at in ((1, 3), (2, 25), (3, 12)):
        op.add_message("left", key=number, value={}, time=at * SECOND)
    assert sorted(read_outputs(op, "id")) == [(0, 10, 1, "full"), (10, 20, 3, "late")]


def test_windows_that_both_sides_share() -> None:
    op = make_join(join(TIMED.tumbling("10 s"), TIMED.tumbling("10 s"), on="id"))
    op.add_message("left", key=1, value={}, time=3 * SECOND)
    op.add_messages(left=[{"id": 2, "at": 14 * SECOND}], final=True)
    assert read_outputs(op, "id") == [(0, 10, 1, "early"), (10, 20, 2, "full")]


def test_a_side_without_windows_and_one_with_sessions() -> None:
    op = make_join(join(TIMED, TIMED, on="id", within="1 s"))
    op.add_message("left", key=1, value={}, time=3)
    assert op.get_result("left").rows() == [(1, 3, "early")]
    visits = TIMED.session("10 s")
    sessions = SessionJoinWindow(join(visits, visits, on="id"), schema=SILENT, window_outputs=True)
    sessions.add_message("left", key=1, value={}, time=3)
    assert sessions.get_result("left").rows() == [(1, 3, "early")]


def test_partitions_are_counted_from_their_own_starts() -> None:
    numbered = windowed(offset=("partition", "offset"))
    op = JoinWindow(join(numbered.tumbling(mt.rows(2)), numbered, on="id"), window_outputs=True)
    for partition, offset in ((4, 100), (4, 101), (7, 5), (4, 102)):
        for side in ("left", "right"):
            op.add_message(side, key=1, offset=offset, partition=partition)  # type: ignore[arg-type]
    for side in ("left", "right"):
        outputs = op.get_result(side)  # type: ignore[arg-type]
        assert sorted(outputs.select("partition", "offset").rows()) == [
            (4, 100), (4, 101), (4, 102), (7, 5),
        ]  # fmt: skip
    bounds = op.get_result("left").select("offset", "window_start", "window_end")
    assert sorted(bounds.rows()) == [(5, 5, 7), (100, 100, 102), (101, 100, 102), (102, 102, 104)]


def test_what_is_not_kept_or_not_sent_by_itself_is_refused() -> None:
    near = join(TIMED.tumbling("10 s"), TIMED, on="id", within="1 s")
    with pytest.raises(OptionError, match=r"side='left' has no output by itself; .*window_outputs"):
        JoinWindow(near).get_result("left")
    with pytest.raises(OptionError, match="isn't a side"):
        make_join(near).get_result("up")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="window_outputs=True is read by get_result"):
        make_join(near, downstream=print)
    with pytest.raises(
        OptionError, match="left='window_end' is the name of a column of window outputs"
    ):
        make_join(near, schema={"left": {"id": int, "at": int, "window_end": int}, **SILENT})
