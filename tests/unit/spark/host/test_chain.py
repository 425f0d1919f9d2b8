"""Tests of the output columns that are as far as the watermark, for a second operator."""

from __future__ import annotations

import pytest

from muntin.spark.host.chain import find_end_columns

LAST = "window_end - INTERVAL '0.000001' SECOND"


@pytest.mark.parametrize(
    ("text", "ahead"),
    [
        ("window_end", 1),
        ("`window_end`", 1),
        (LAST, 0),
        (f"({LAST})", 0),
        ("(window_end - INTERVAL '0.001' SECOND)", -999),
        ("window_start", None),
        ("window_end + INTERVAL '1' SECOND", None),
        ("window_end - INTERVAL '1' MINUTE", None),
        ("max(window_end)", None),
    ],
)
def test_columns_that_are_as_far_as_the_watermark(text: str, ahead: int | None) -> None:
    assert find_end_columns([("at", text)], {"window_end": 1}).get("at") == ahead


def test_a_column_that_only_has_the_name() -> None:
    assert find_end_columns([("window_end", "window_start")], {"window_end": 1}) == {}
