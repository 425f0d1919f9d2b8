from __future__ import annotations

import math

from tests.unit.testing.oracle.queries import build_arrival_spec, build_offset_spec, build_time_spec

from muntin.model.windows import Windows
from muntin.testing.oracle.marks import Watermarks

ROWS = Windows(3, 3, axis="rows")


def test_on_the_time_axis_all_keys_have_one_watermark() -> None:
    watermarks = Watermarks(build_time_spec(Windows(10, 10), lateness=4))
    assert watermarks.of(("a",)) == -math.inf
    assert watermarks.common_watermark is None
    assert watermarks.locate({"key": "a", "time": 9}).position == 9
    watermarks.locate({"key": "a", "time": 3})
    assert watermarks.of(("a",)) == watermarks.of(("b",)) == watermarks.common_watermark == 5


def test_by_arrival_a_position_is_the_number_of_earlier_messages_of_the_key() -> None:
    watermarks = Watermarks(build_arrival_spec(ROWS))
    assert [watermarks.locate({"key": key}).position for key in "abaa"] == [0, 0, 1, 2]
    assert (watermarks.of(("a",)), watermarks.of(("b",)), watermarks.common_watermark) == (
        3,
        1,
        None,
    )


def test_by_offset_each_partition_has_a_watermark() -> None:
    watermarks = Watermarks(build_offset_spec(ROWS))
    watermarks.pass_offset({"partition": 0, "offset": 7, "key": None})
    watermarks.pass_offset({"partition": 0, "offset": 5, "key": "a"})
    watermarks.pass_offset({"partition": None, "offset": 99, "key": "a"})
    watermarks.pass_offset({"partition": 1, "offset": None, "key": "a"})
    assert watermarks.locate({"partition": 0, "offset": 5, "key": "a"}).position == 5
    assert watermarks.of((0, "a")) == watermarks.of((0, "b")) == 8
    assert watermarks.of((1, "a")) == -math.inf


def test_at_the_end_every_watermark_is_infinite() -> None:
    for spec in (
        build_time_spec(Windows(10, 10)),
        build_arrival_spec(ROWS),
        build_offset_spec(ROWS),
    ):
        watermarks = Watermarks(spec, final=True)
        assert watermarks.of((0, "a")) == math.inf
        assert watermarks.common_watermark == (math.inf if spec.axis == "time" else None)


def test_a_copy_advances_on_its_own() -> None:
    watermarks = Watermarks(build_arrival_spec(ROWS))
    watermarks_copy = watermarks.copy()
    watermarks_copy.locate({"key": "a"})
    assert watermarks.of(("a",)) == -math.inf
