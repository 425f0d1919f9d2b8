"""Tests that values which aren't frames are refused, with the accepted types."""

from __future__ import annotations

import pandas as pd
import pytest

import muntin as mt


@pytest.mark.parametrize(
    ("frame", "name"),
    [([("a",)], "list"), ({"k": ["a"]}, "dict")],
)
def test_other_values_are_refused_with_what_is_taken(frame: object, name: str) -> None:
    with pytest.raises(mt.OptionError, match=rf"'{name}'> isn't a frame .*pl\.DataFrame\(rows\)"):
        mt.windowed(frame, key="k", time="at")  # type: ignore[arg-type]


def test_a_value_of_many_lines_is_shown_as_its_type() -> None:
    frame = pd.Series([1, 2, 3])
    with pytest.raises(mt.OptionError, match=r"^a=<pandas\.Series> isn't a name; give one$"):
        raise mt.OptionError("a", frame, "isn't a name", "give one")
