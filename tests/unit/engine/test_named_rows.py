"""Tests of reading rows of a frame as Python's values."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import polars as pl
import pytest

from muntin.engine.named_rows import iter_named_rows

AT = pl.Datetime("us")
LAST = 2**63 - 1


def read_value(item: Any, dtype: Any) -> Any:
    (row,) = iter_named_rows(pl.DataFrame({"at": pl.Series([item]).cast(dtype)}))
    return row["at"]


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, datetime(1970, 1, 1)),
        (2**60, "+38504-08-17 21:30:06.846976"),
        (LAST, "9223372036854775807"),
        (-LAST, "-9223372036854775807"),
    ],
)
def test_a_time_is_shown_however_far_it_is(number: int, shown: Any) -> None:
    assert read_value(number, AT) == shown
    assert read_value([number], pl.List(AT)) == [shown]
    assert read_value({"t": number, "n": 1}, pl.Struct({"t": AT, "n": pl.Int64()})) == {
        "t": shown,
        "n": 1,
    }


def test_rows_beside_a_far_time_keep_theirs() -> None:
    frame = pl.DataFrame({"at": pl.Series([LAST, 1]).cast(AT), "n": [1, 2]})
    assert list(iter_named_rows(frame)) == [
        {"at": str(LAST), "n": 1},
        {"at": datetime(1970, 1, 1, 0, 0, 0, 1), "n": 2},
    ]
