from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from muntin.engine import admission, columns
from muntin.engine.admission import admit, flag_missing_offsets
from muntin.model.axis import MAX_TIME_DISTANCE

KINDS: dict[str, Any] = {
    "id": pl.Int64,
    "key": pl.String,
    columns.TIME: pl.Int64,
    columns.KEEP: pl.Boolean,
    columns.MALFORMED: pl.Boolean,
    columns.FUTURE: pl.Boolean,
}
GOOD = ("a", 5, True, False, False)


def messages(*emitted: tuple[Any, ...]) -> pl.DataFrame:
    return pl.DataFrame([(n, *row) for n, row in enumerate(emitted)], schema=KINDS, orient="row")


def admitted(
    frame: pl.DataFrame, edge: int | None = None
) -> tuple[list[int], dict[str, list[int]]]:
    taken, rejected = admit(frame, ["key"], edge)
    reasons = {f[columns.REASON][0]: f["id"].to_list() for f in rejected}
    assert all(f[columns.REASON].n_unique() == 1 for f in rejected)
    return taken["id"].to_list(), reasons


def test_each_message_has_one_fate() -> None:
    frame = messages(
        GOOD,
        ("a", 5, False, True, True),  # filtered, whatever else it is
        ("a", 5, None, False, False),  # as SQL has it, unknown isn't true
        (None, None, True, True, True),
        (None, None, True, False, True),
        (None, 5, True, False, True),
        ("a", 3, True, False, True),
        ("a", 3, True, False, False),
        ("a", 4, True, False, False),
    )
    taken, reasons = admitted(frame, edge=4)
    assert taken == [0, 8]
    assert reasons == {
        "malformed": [3], "null_time": [4], "null_key": [5], "future": [6], "late": [7]
    }  # fmt: skip
    found = admission.count_messages(frame, *admit(frame, ["key"], 4))
    assert found == {
        "seen": 9, "counted": 2, "filtered": 2,
        "malformed": 1, "null_time": 1, "null_key": 1, "future": 1, "late": 1,
    }  # fmt: skip


def test_nothing_is_late_before_there_is_a_watermark() -> None:
    assert admitted(messages(GOOD, ("a", -(10**17), True, False, False)))[1] == {}


def test_flags_may_be_missing() -> None:
    bare = messages(GOOD, ("a", 1, True, False, False)).select("id", "key", columns.TIME)
    assert admitted(bare, edge=2) == ([0], {"late": [1]})
    taken, rejected = admit(bare, ["key"], 2)
    assert admission.count_messages(bare, taken, rejected) == {"seen": 2, "counted": 1, "late": 1}


def test_an_unknown_flag_rejects() -> None:
    assert admitted(messages(("a", 5, True, None, False)))[1] == {"malformed": [0]}


def test_filtered_and_keyless_messages_move_the_watermark_and_others_do_not() -> None:
    frame = messages(
        ("a", 30, True, False, False),
        ("a", 40, False, False, False),
        (None, 50, True, False, False),
        ("a", 70, True, False, True),
        ("a", 80, True, True, False),
        ("a", 90, True, None, False),
        ("a", MAX_TIME_DISTANCE, True, False, False),
    )
    assert [admission.find_latest_time(frame.head(n)) for n in range(8)] == [
        None,
        30,
        40,
        *[50] * 5,
    ]


def test_the_clock_is_the_greatest_arrival() -> None:
    frame = messages(GOOD, GOOD, GOOD)
    assert admission.find_latest_arrival(frame) is None
    arrived = pl.Series(columns.CLOCK, [3, None, 7], dtype=pl.Int64)
    assert admission.find_latest_arrival(frame.with_columns(arrived)) == 7
    assert admission.find_latest_arrival(frame.clear().with_columns(arrived.clear())) is None


@pytest.mark.parametrize("malformed", [True, False])
def test_a_message_without_its_place_is_malformed(malformed: bool) -> None:
    frame = pl.DataFrame(
        {
            "partition": [0, None, 0, 0],
            "offset": [7, 7, None, 8],
            columns.MALFORMED: [False, False, False, True],
        }
    )
    given = frame if malformed else frame.drop(columns.MALFORMED)
    found = flag_missing_offsets(given, "partition", "offset")[columns.MALFORMED].to_list()
    assert found == [False, True, True, malformed]
