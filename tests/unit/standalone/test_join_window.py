"""Tests of standalone joins: their state, refusals, flushes and outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import muntin as mt
from muntin.engine.joins.shard import JoinShard
from muntin.model.errors import OptionError, RefusedError, SelectorDisabledError, SpecChangedError
from muntin.standalone import JoinWindow, SessionJoinWindow, join, windowed
from muntin.stores import Image, memory, rocks

SECOND = 1_000_000
WITH_OFFSETS = windowed(time="at", offset=("partition", "offset"))
NEAR = join(WITH_OFFSETS.tumbling("10 s"), WITH_OFFSETS, on="id", within="20 s", how="full")
TYPES: Any = {
    "left": {"id": int, "at": int, "partition": int, "offset": int, "price": int},
    "right": {"id": int, "at": int, "partition": int, "offset": int, "cost": int},
}
COUNTED: Any = {side: {"id": int} for side in ("left", "right")}
ORDERS = [(1, 5, 0), (2, 5, 1), (1, 12, 2), (3, 21, 3)]
SHIPMENTS = [(1, 6, 70), (3, 22, 71)]


def add_rows(op: Any, side: Any, rows: list[tuple[int, int, int]]) -> None:
    field = "price" if side == "left" else "cost"
    for number, at, offset in rows:
        op.add_message(side, key=number, value={field: at}, time=at * SECOND, offset=offset)


def make_filled_join(**options: Any) -> JoinWindow:
    op = JoinWindow(NEAR, schema=TYPES, **options)
    add_rows(op, "left", ORDERS)
    add_rows(op, "right", SHIPMENTS)
    return op


def list_offsets(op: JoinWindow, *position: Any, **keys: Any) -> list[int]:
    return op.get_messages("left", *position, **keys)["offset"].to_list()


def test_messages_are_found_by_time_offset_and_key() -> None:
    op = make_filled_join()
    assert list_offsets(op) == [0, 1, 2, 3]
    assert list_offsets(op, 5 * SECOND, None, 12 * SECOND) == [0, 1, 2]
    assert list_offsets(op, 5 * SECOND, 1, 21 * SECOND, 2) == [1, 2]
    assert list_offsets(op, 5 * SECOND, 1, 21 * SECOND, 3) == [1, 2, 3]
    assert list_offsets(op, 6 * SECOND, 1) == [2, 3]
    assert list_offsets(op, join_keys=1) == [0, 2]
    assert list_offsets(op, 6 * SECOND, join_keys=1) == [2]
    assert op.get_messages("right")["cost"].to_list() == [6, 22]
    assert op.get_messages("right").columns == list(TYPES["right"])


def test_windows_are_found_by_what_they_cover() -> None:
    op = make_filled_join()
    emitted = op.get_windows("left")
    names = ["partition", "window_start", "window_end", "start_offset", "last_offset", "messages"]
    assert emitted.columns == names
    windows = [(start // SECOND, *rest) for _, start, _, *rest in emitted.rows()]
    assert windows == [(0, 0, 1, 2), (10, 2, 2, 1), (20, 3, 3, 1)]
    starts = op.get_windows("left", 9 * SECOND, 10 * SECOND)["window_start"].to_list()
    assert starts == [0, 10 * SECOND]
    assert op.get_windows("left", 10 * SECOND, 11 * SECOND, join_keys=1)["messages"].to_list() == [
        1
    ]
    assert op.get_windows("left", join_keys=2)["messages"].to_list() == [1]


def test_windows_in_rows_lie_on_the_offsets_of_a_partition() -> None:
    counted = windowed(offset=("partition", "offset"))
    op = JoinWindow(join(counted.tumbling(mt.rows(2)), counted, on="id"))
    for number, offset in [(7, 100), (8, 101), (7, 102)]:
        op.add_message("left", key=number, value={"price": 1}, offset=offset, partition=4)
    op.add_message("right", key=7, value={"cost": 1}, offset=1000, partition=4)
    assert op.get_result()["offset"].to_list() == [100]
    assert op.get_windows("left").rows() == [(4, 100, 102, 100, 101, 2), (4, 102, 104, 102, 102, 1)]
    assert op.get_windows("left", 101, 101)["window_start"].to_list() == [100]
    assert list_offsets(op, None, 101, None, 102) == [101, 102]
    assert list_offsets(op, join_keys=8) == [101]
    with pytest.raises(OptionError, match="start_time"):
        op.get_messages("left", 5)


def test_rows_tell_from_where_to_replay() -> None:
    counted, image = windowed(offset=("partition", "offset")), Image()
    rows = join(counted, counted, on="id", within=mt.rows(2))
    with JoinWindow(rows, memory(image), schema=COUNTED) as op:
        for number, offset, partition in [(7, 100, 4), (8, 101, 4), (7, 5, 1)]:
            op.add_message("left", key=number, offset=offset, partition=partition)
        assert op.flush().results.rows() == []
        op.add_message("right", key=7, offset=1000, partition=4)
        assert op.offsets == {"left": {4: 102, 1: 6}, "right": {}}
        assert op.get_result()["offset"].to_list() == [100]
        op.flush()
        assert op.offsets["right"] == {4: 1001}
    with JoinWindow(rows, memory(image)) as op:
        assert op.offsets == {"left": {4: 102, 1: 6}, "right": {4: 1001}}
        # One at a time, since messages of one batch aren't late by each other.
        for offset in (1003, 1001, 1002):
            op.add_message("right", key=8, offset=offset, partition=4)
        assert op.get_result()["offset_right"].to_list() == [1003]
        assert op.rejected["reason"].to_list() == ["late", "late"]


def test_sessions_are_found_by_stretch_and_key() -> None:
    visits = windowed(time="at").session("10 s")
    op = SessionJoinWindow(join(visits, visits, on=[("user", "who")], how="left"))
    for user, at in [("ann", 0), ("ann", 8), ("bob", 9)]:
        op.add_message("left", key=user, value={"page": at}, time=at * SECOND)
    for user, at in [("ann", 12), ("bob", 30)]:
        op.add_message("right", key=user, value={"sale": at}, time=at * SECOND)
    rows = op.get_windows().rows()
    emitted = [(user, start // SECOND, end // SECOND, *n) for user, start, end, *n in rows]
    assert emitted == [("ann", 0, 22, 2, 1), ("bob", 9, 19, 1, 0), ("bob", 30, 40, 0, 1)]
    assert op.get_windows(20 * SECOND, 29 * SECOND)["user"].to_list() == ["ann"]
    assert op.get_windows(session_key="bob")["left"].to_list() == [1, 0]
    assert op.get_messages("left", session_key="ann")["page"].to_list() == [0, 8]
    assert op.get_messages("left", 1, session_key="ann", join_keys="ann")["page"].to_list() == [8]
    assert len(op.get_messages("left", session_key="ann", join_keys="bob")) == 0
    assert op.get_messages("right", session_key="bob")["sale"].to_list() == [30]


def test_what_was_flushed_is_there_after_a_crash_and_the_rest_is_replayed(tmp_path: Path) -> None:
    uninterrupted = make_filled_join()
    expected = sorted(uninterrupted.get_result().rows(), key=repr)
    op = JoinWindow(NEAR, rocks(tmp_path / "state"), schema=TYPES)
    add_rows(op, "left", ORDERS)
    emitted = op.flush().results.rows()
    add_rows(op, "right", SHIPMENTS)
    assert len(op.get_result()) > 0
    assert op.offsets == {"left": {0: 4}, "right": {}}
    op.close()  # without a flush, as in a crash
    op = JoinWindow(NEAR, rocks(tmp_path / "state"))  # the columns are remembered
    assert op.offsets == {"left": {0: 4}, "right": {}}
    assert len(op.get_result()) == 0
    add_rows(op, "left", ORDERS)
    assert len(op.get_result()) == 0
    assert op.counts["duplicates"] == len(ORDERS)
    add_rows(op, "right", SHIPMENTS)
    emitted += op.flush().results.rows()
    assert sorted(emitted, key=repr) == expected
    assert list_offsets(op) == list_offsets(uninterrupted)
    op.close()


def test_another_join_is_refused_by_the_store() -> None:
    image = Image()
    with JoinWindow(NEAR, memory(image), schema=TYPES) as op:
        op.flush()
        add_rows(op, "left", ORDERS)
        op.flush()
    wider = join(WITH_OFFSETS, WITH_OFFSETS, on="id", within="30 s", how="full")
    with pytest.raises(SpecChangedError, match="partners"):
        JoinWindow(wider, memory(image))


def test_refused_outputs_wait_in_their_order_and_shut_the_selector() -> None:
    taken: list[Any] = []
    moods = iter(["take", "refuse", "raise", "take", "take", "take"])

    def downstream(row: dict[str, Any]) -> bool:
        mood = next(moods)
        if mood == "raise":
            raise RefusedError
        if mood == "take":
            taken.append((row["price"], row["cost"]))
        return mood == "take"

    op = JoinWindow(NEAR, schema=TYPES, downstream=downstream)
    add_rows(op, "left", ORDERS)
    add_rows(op, "right", SHIPMENTS[:1])
    assert taken == [(5, 6)]
    assert len(op.get_result()) == 1
    with pytest.raises(SelectorDisabledError):
        add_rows(op, "right", SHIPMENTS[1:])
    assert not op.timeout(0)
    assert op.timeout(0)
    add_rows(op, "right", SHIPMENTS[1:])
    assert taken == [(5, 6), (12, 6), (21, 22)]
    assert op.offsets == {"left": {0: 4}, "right": {0: 72}}


def test_messages_wait_until_both_sides_have_shown_their_columns() -> None:
    op = JoinWindow(join(windowed(time="at"), windowed(time="at"), on="id", within="20 s"))
    op.add_message("left", key=1, value={"price": 5}, time=0)
    op.add_messages(left=[{"id": 2, "at": SECOND, "price": 6}])
    assert len(op.get_result()) == 0
    assert op.counts == {}
    assert op.offsets == {}
    op.add_message("right", key=2, value={"cost": 7}, time=0)
    assert op.get_result().select("id", "price", "cost").rows() == [(2, 6, 7)]
    assert op.counts["counted"] == 3


def test_an_end_before_a_side_has_shown_its_columns_is_refused() -> None:
    op = JoinWindow(join(windowed(time="at"), windowed(time="at"), on="id", within="20 s"))
    with pytest.raises(OptionError, match="schema='right' has shown no message"):
        op.add_messages(left=[{"id": 2, "at": 0}], final=True)


def test_a_side_may_wait_for_the_clock() -> None:
    slow = windowed(time="at").early(every="10 s")
    op = JoinWindow(join(slow, windowed(time="at"), on="id", within="20 s"))
    op.timeout(0)
    op.add_message("left", key=1, value={"price": 5}, time=0)
    op.add_message("right", key=1, value={"cost": 7}, time=0)
    assert len(op.get_result()) == 0
    assert op.get_messages("left")["price"].to_list() == [5]
    op.timeout(10 * SECOND)
    assert op.get_result()["cost"].to_list() == [7]


def test_rejected_messages_tell_side_reason_and_watermark() -> None:
    op = JoinWindow(join(windowed(time="at"), windowed(time="at"), on="id", within="1 s"))
    for at in (10 * SECOND, 20 * SECOND, 5 * SECOND):
        op.add_message("left", key=1, value={"price": at}, time=at)
    op.add_message("right", key=None, value={"cost": 1}, time=0)
    op.add_message("right", key=2, value={"cost": "much"}, time="soon")
    emitted = op.rejected.select("side", "reason", "watermark", "unread").rows()
    assert sorted(emitted) == [
        ("left", "late", 20 * SECOND, None),
        # A message without a key moves its side's watermark too.
        ("right", "malformed", 0, "cost='much'; at='soon'"),
        ("right", "null_key", None, None),
    ]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda op: op.add_message("up", key=1, time=0), "isn't a side"),
        (lambda op: op.get_messages("left", "soon"), "no position"),
        (lambda op: op.get_messages("left", None, 5), "start_offset"),
        (lambda op: op.get_messages("left", join_keys=(1, 2)), "isn't"),
        (lambda op: op.get_windows("right"), "has no windows"),
    ],
)
def test_what_means_nothing_is_refused(call: Any, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        call(make_filled_join())


def test_each_operator_refuses_the_joins_of_the_other() -> None:
    visits = windowed(time="at").session("10 s")
    with pytest.raises(OptionError, match="SessionJoinWindow"):
        JoinWindow(join(visits, visits, on="user"))
    with pytest.raises(OptionError, match="JoinWindow"):
        SessionJoinWindow(NEAR)


def test_a_duplicate_moves_no_watermark_that_rejected_messages_show() -> None:
    op = JoinWindow(NEAR, schema=TYPES)
    for number, at in ((None, 5), (1, 9)):  # the second is the first one's redelivery
        op.add_message("right", key=number, value={}, time=at * SECOND, offset=7)
    op.add_message("right", key=2, value={}, time=6 * SECOND, partition=None, offset=8)
    assert set(op.rejected.select("reason", "watermark").rows()) == {
        ("null_key", None),
        ("malformed", 5 * SECOND),
    }


def test_messages_that_wait_for_the_clock_are_taken_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[int] = []
    step = JoinShard.step
    monkeypatch.setattr(JoinShard, "step", lambda *a, **k: steps.append(1) or step(*a, **k))
    side = windowed(time="at", lateness="1 s").early(every="1 s")
    op = JoinWindow(join(side, side, on="id", within="1 s"), schema=COUNTED)
    for number in range(100):
        op.add_message(("left", "right")[number % 2], key=0, value={}, time=number * 10_000)
    op.timeout(SECOND)
    op.timeout(2 * SECOND)
    assert len(op.get_result()) == 50 * 50
    assert len(steps) < 10
