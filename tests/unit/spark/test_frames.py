"""What isn't a DataFrame of Spark's is refused, and it is said how to make one of it."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pytest

import muntin as mt


@pytest.mark.parametrize(
    ("frame", "hint"),
    [
        (pd.DataFrame({"k": ["a"]}), r"pandas.*give spark\.createDataFrame\(frame\)$"),
        (pl.DataFrame({"k": ["a"]}), r"polars.*give spark\.createDataFrame\(frame\.to_arrow\(\)\)"),
        ([("a",)], r"'list'.*give spark\.createDataFrame\(rows\), a stream"),
    ],
)
def test_other_frames_are_refused_with_the_way(frame: object, hint: str) -> None:
    with pytest.raises(mt.OptionError, match=hint):
        mt.windowed(frame, key="k", time="at")  # type: ignore[arg-type]


def test_a_value_of_many_lines_is_shown_as_its_type() -> None:
    frame = pd.Series([1, 2, 3])
    with pytest.raises(mt.OptionError, match=r"^a=<pandas\.Series> isn't a name; give one$"):
        raise mt.OptionError("a", frame, "isn't a name", "give one")
