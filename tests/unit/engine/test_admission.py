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
    columns.LIMIT_FLAGS["future"]: pl.Boolean,
}
GOOD = ("a", 5, True, False, False)


def messages(*rows: tuple[Any, ...]) -> pl.DataFrame:
    return pl.DataFrame([(n, *row) for n, row in enumerate(rows)], schema=KINDS, orient="row")


def admit_ids(
    frame: pl.DataFrame, edge: int | None = None
) -> tuple[list[int], dict[str, list[int]]]:
    admitted, rejected = admit(frame, ["key"], edge)
    reasons = {f[columns.REASON][0]: f["id"].to_list() for f in rejected}
    assert all(f[columns.REASON].n_unique() == 1 for f in rejected)
    return admitted["id"].to_list(), reasons


def test_each_message_is_counted_under_one_outcome() -> None:
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
    admitted, reasons = admit_ids(frame, edge=4)
    assert admitted == [0, 8]
    assert reasons == {
        "malformed": [3], "null_time": [4], "null_key": [5], "future": [6], "late": [7]
    }  # fmt: skip
    counts = admission.count_messages(frame, *admit(frame, ["key"], 4))
    assert counts == {
        "seen": 9, "counted": 2, "filtered": 2,
        "malformed": 1, "null_time": 1, "null_key": 1, "future": 1, "late": 1,
    }  # fmt: skip


def test_nothing_is_late_before_there_is_a_watermark() -> None:
    assert admit_ids(messages(GOOD, ("a", -(10**17), True, False, False)))[1] == {}


def test_flags_may_be_missing() -> None:
    frame = messages(GOOD, ("a", 1, True, False, False)).select("id", "key", columns.TIME)
    assert admit_ids(frame, edge=2) == ([0], {"late": [1]})
    admitted, rejected = admit(frame, ["key"], 2)
    assert admission.count_messages(frame, admitted, rejected) == {
        "seen": 2,
        "counted": 1,
        "late": 1,
    }


def test_an_unknown_flag_rejects() -> None:
    assert admit_ids(messages(("a", 5, True, None, False)))[1] == {"malformed": [0]}


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
    arrivals = pl.Series(columns.CLOCK, [3, None, 7], dtype=pl.Int64)
    assert admission.find_latest_arrival(frame.with_columns(arrivals)) == 7
    assert admission.find_latest_arrival(frame.clear().with_columns(arrivals.clear())) is None


@pytest.mark.parametrize("malformed", [True, False])
def test_a_message_without_its_source_offset_is_malformed(malformed: bool) -> None:
    frame = pl.DataFrame(
        {
            "partition": [0, None, 0, 0],
            "offset": [7, 7, None, 8],
            columns.MALFORMED: [False, False, False, True],
        }
    )
    messages = frame if malformed else frame.drop(columns.MALFORMED)
    malformed_flags = flag_missing_offsets(messages, "partition", "offset")[
        columns.MALFORMED
    ].to_list()
    assert malformed_flags == [False, True, True, malformed]
