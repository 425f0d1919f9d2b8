"""The table of durations: folders in order of their time, each test counted once."""

from __future__ import annotations

from tests.durations import format_durations


def test_durations_are_summed_by_folder() -> None:
    lines = format_durations(
        [
            ("tests/unit/engine/windows/test_a.py::test_one", 1.0),
            ("tests/unit/engine/test_b.py::test_two[x/y]", 0.5),
            ("tests/spark/test_c.py::test_three", 2.0),
            ("tests/spark/test_c.py::test_three", 3.0),
            ("tests/unit/test_names.py::test_four", 0.25),
        ]
    )
    assert [line.split() for line in lines] == [
        ["5.0", "s", "1", "tests", "tests/spark"],
        ["1.5", "s", "2", "tests", "tests/unit/engine"],
        ["0.2", "s", "1", "tests", "tests/unit"],
    ]


def test_one_folder_needs_no_table() -> None:
    assert format_durations([("tests/spark/test_c.py::test_three", 2.0)]) == []
