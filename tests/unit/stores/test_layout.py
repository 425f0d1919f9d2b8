from __future__ import annotations

from typing import Any

import pytest

from muntin.model.errors import OptionError
from muntin.stores.layout import Layout, message_layout

# The ten rows of the matrix: axis, use, equal fields, time range, window, key.
MATRIX = [
    ("rows", "aggregate", False, False, None, "offset"),
    ("rows", "join", False, False, None, "offset"),
    ("rows", "join", True, False, "small", "offset"),
    ("rows", "join", True, False, "large", "equal_offset"),
    ("time", "aggregate", False, False, None, "time_offset"),
    ("time", "join", False, False, None, "time_offset"),
    ("time", "join", False, True, None, "time_offset"),
    ("time", "join", True, False, None, "equal_time_offset"),
    ("time", "join", True, True, "small", "time_equal_offset"),
    ("time", "join", True, True, "large", "equal_time_offset"),
]


@pytest.mark.parametrize(("axis", "use", "equal", "ranged", "window", "key"), MATRIX)
def test_the_matrix(axis: Any, use: Any, equal: bool, ranged: bool, window: Any, key: str) -> None:
    layout = message_layout(axis, use, equal_fields=equal, time_range=ranged, window=window)
    assert str(layout) == key
    if not (equal and (axis == "rows" or ranged)):  # elsewhere the size of the window decides
        for size in ("small", "large"):
            layout_with_size = message_layout(
                axis, use, equal_fields=equal, time_range=ranged, window=size
            )
            assert layout_with_size == layout


def test_the_default_is_the_position() -> None:
    assert str(message_layout()) == "time_offset"
    assert str(message_layout("rows", "join", equal_fields=True)) == "offset"
    unsized = message_layout("time", "join", equal_fields=True, time_range=True)
    assert str(unsized) == "time_offset"


def test_a_session_comes_before_everything() -> None:
    layout = message_layout("time", "join", equal_fields=True, session=True)
    assert str(layout) == "session_equal_time_offset"
    assert not layout.along_axis


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"axis": "tuple"}, "axis='tuple' isn't known"),
        ({"use": "union"}, "use='union' isn't known"),
        ({"window": "huge"}, "window='huge' isn't known"),
        ({"equal_fields": True}, 'equal_fields=True is a condition of joins; give use="join"'),
        ({"time_range": True}, "time_range=True is a condition of joins"),
        (
            {"axis": "rows", "use": "join", "time_range": True},
            'time_range=True needs windows on the time axis; give axis="time"',
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        message_layout(**options)


LAYOUTS = {
    str(layout): layout
    for layout in (
        message_layout("rows"),
        message_layout("rows", "join", equal_fields=True, window="large"),
        message_layout(),
        message_layout(use="join", equal_fields=True),
        message_layout(use="join", equal_fields=True, time_range=True, window="small"),
        message_layout(session=True),
        message_layout(use="join", equal_fields=True, session=True),
    )
}
MESSAGES = [
    {"session": session, "equal": equal, "time": time, "offset": offset}
    for session in ("s", "t")
    for equal in ("a", "b")
    for time in (-1, 0, 10, 300)
    for offset in (0, 7, 500)
]
QUERIES: list[dict[str, Any]] = [
    {"start": None, "end": None},
    {"start": 0, "end": 10},
    {"start": 5, "end": None, "equal": "a"},
    {"start": None, "end": 7, "session": "s"},
    {"start": 0, "end": 10, "equal": "b", "session": "t"},
    {"start": 10, "end": 0},
]
FINE: list[dict[str, Any]] = [
    {"start": (0, 7), "end": (10, 7)},
    {"start": (0, 1), "end": None, "equal": "a", "session": "s"},
]


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_key_is_read_back(name: str) -> None:
    layout = LAYOUTS[name]
    for message in MESSAGES:
        position = layout.read(layout.key(**message))
        assert {part: getattr(position, part) for part in layout.parts} == {
            part: message[part] for part in layout.parts
        }


LAYOUT_QUERIES = [
    (name, query)
    for name, layout in LAYOUTS.items()
    for query in (QUERIES if layout.axis == "rows" else [*QUERIES, *FINE])
]


@pytest.mark.parametrize(("name", "query"), LAYOUT_QUERIES, ids=str)
def test_bounds_cover_the_window_and_say_whether_exactly(name: str, query: dict[str, Any]) -> None:
    layout = LAYOUTS[name]
    low, high, exact = layout.in_window(**query)
    for message in MESSAGES:
        key = layout.key(**message)
        is_in_window = layout.holds(layout.read(key), query["start"], query["end"]) and all(
            query.get(part) in (None, message[part]) for part in ("equal", "session")
        )
        assert low <= key < high or not is_in_window
        if exact:
            assert is_in_window is (low <= key < high)


@pytest.mark.parametrize(
    ("name", "query", "exact"),
    [
        ("time_offset", {"start": (0, 7), "end": (10, 7)}, True),
        ("time_offset", {"start": 0, "end": 10, "equal": "a"}, False),
        ("time_equal_offset", {"start": 0, "end": 10}, True),
        ("time_equal_offset", {"start": (0, 7), "end": 10}, False),
        ("equal_time_offset", {"start": 0, "end": 10}, False),
        ("equal_time_offset", {"start": (0, 7), "end": (10, 7), "equal": "a"}, True),
        ("equal_time_offset", {"start": None, "end": None}, True),
        ("session_equal_time_offset", {"start": None, "end": None, "session": "s"}, True),
        ("session_equal_time_offset", {"start": 0, "end": None, "session": "s"}, False),
        ("session_equal_time_offset", {"start": 0, "end": 9, "session": "s", "equal": "a"}, True),
        ("offset", {"start": 3, "end": 4}, True),
        ("equal_offset", {"start": 3, "end": 4, "equal": "a"}, True),
    ],
)
def test_which_windows_are_one_range_of_keys(name: str, query: dict[str, Any], exact: bool) -> None:
    assert LAYOUTS[name].in_window(**query).exact is exact


def test_messages_with_equal_fields_share_a_prefix() -> None:
    layout = LAYOUTS["equal_time_offset"]
    low, high, exact = layout.in_window(None, None, equal="a")
    selected = [m for m in MESSAGES if low <= layout.key(**m) < high]
    assert exact
    assert selected == [m for m in MESSAGES if m["equal"] == "a"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_expired_messages_are_one_range_only_along_the_axis(name: str) -> None:
    layout: Layout = LAYOUTS[name]
    assert layout.along_axis is name.startswith(("time", "offset"))
    assert layout.in_window(None, 10).exact is layout.along_axis
    low, high, _ = layout.in_window(
        None, 10, equal="a" if "equal" in layout.parts else None, session="s"
    )
    for message in MESSAGES:
        key = layout.key(**{**message, "session": "s", "equal": "a"})
        assert (low <= key < high) is (layout.position(layout.read(key)) <= 10)
