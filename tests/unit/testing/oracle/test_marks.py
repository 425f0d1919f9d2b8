from __future__ import annotations

import math

from tests.unit.testing.oracle.queries import by_arrival, by_offset, by_time

from muntin.model.windows import Windows
from muntin.testing.oracle.marks import Watermarks

ROWS = Windows(3, 3, axis="rows")


def test_the_watermark_is_the_mark_of_all_keys() -> None:
    marks = Watermarks(by_time(Windows(10, 10), lateness=4))
    assert marks.of(("a",)) == -math.inf
    assert marks.common_watermark is None
    assert marks.locate({"key": "a", "time": 9}).position == 9
    marks.locate({"key": "a", "time": 3})
    assert marks.of(("a",)) == marks.of(("b",)) == marks.common_watermark == 5


def test_by_arrival_a_place_is_the_number_of_messages_of_the_key_before() -> None:
    marks = Watermarks(by_arrival(ROWS))
    assert [marks.locate({"key": key}).position for key in "abaa"] == [0, 0, 1, 2]
    assert (marks.of(("a",)), marks.of(("b",)), marks.common_watermark) == (3, 1, None)


def test_by_offset_a_mark_is_that_of_the_partition() -> None:
    marks = Watermarks(by_offset(ROWS))
    marks.pass_offset({"partition": 0, "offset": 7, "key": None})
    marks.pass_offset({"partition": 0, "offset": 5, "key": "a"})
    marks.pass_offset({"partition": None, "offset": 99, "key": "a"})
    marks.pass_offset({"partition": 1, "offset": None, "key": "a"})
    assert marks.locate({"partition": 0, "offset": 5, "key": "a"}).position == 5
    assert marks.of((0, "a")) == marks.of((0, "b")) == 8
    assert marks.of((1, "a")) == -math.inf


def test_at_the_end_every_mark_is_at_infinity() -> None:
    for spec in (by_time(Windows(10, 10)), by_arrival(ROWS), by_offset(ROWS)):
        marks = Watermarks(spec, final=True)
        assert marks.of((0, "a")) == math.inf
        assert marks.common_watermark == (math.inf if spec.axis == "time" else None)


def test_a_copy_moves_on_its_own() -> None:
    marks = Watermarks(by_arrival(ROWS))
    other = marks.copy()
    other.locate({"key": "a"})
    assert marks.of(("a",)) == -math.inf
