"""Tests the laws of ``tests.property.laws``; the slow tests try more examples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.local_runner import Run, convert_rows, window_plan
from tests.property import laws
from tests.property.streams import EVERYTHING, Range, Stream, Twins, any_streams, twins_in_time

FEW = settings(max_examples=max(1, settings.default.max_examples // 5))
FIXED = Range(("fixed", "cumulating", "days"))
BY_TIME = Range(EVERYTHING.kinds, full_state=True, keyless=True)
_TWINS = twins_in_time(EVERYTHING)
_PARTS = {
    "all": None,
    "true": pl.col("flag"),
    "false": ~pl.col("flag"),
    "null": pl.col("flag").is_null(),
}


def count_messages(stream: Stream, where: pl.Expr | None) -> tuple[dict[Any, int], int]:
    """Return the number of messages by window that match a condition, and their total."""
    plan, frames = window_plan(stream.spec, stream.steps, 2, where)
    rows, figures = [], []
    with Run(plan) as run:
        for step, frame in zip(stream.steps, frames, strict=True):
            output = run.step([frame], step.wall, final=step.final)
            rows += convert_rows(output.results)
            figures = output.progress
    total = sum(shard["counts"].get("counted", 0) for shard in figures)
    return dict(laws.count_by_window(rows)), total


def check_filters(stream: Stream) -> list[str]:
    """Check that messages for which p is true, false and null add up to all messages."""
    firing = replace(stream.spec.firing, accumulate=True, fill=None, repeat=True)
    spec = replace(stream.spec, firing=firing, aggregates={"n": stream.spec.aggregates["n"]})
    # A condition on late windows would suppress those with too few messages.
    spec = replace(spec, firing=replace(firing, early=None, late=laws.Each()))
    stream = Stream(spec, stream.steps)
    (counts, total), *parts = (count_messages(stream, where) for where in _PARTS.values())
    texts = []
    if total != sum(count for _, count in parts):
        texts.append(f"{total} messages were counted, and of the parts {[n for _, n in parts]}")
    for window, n in counts.items():
        sum_of_parts = sum(windows.get(window, 0) for windows, _ in parts)
        if sum_of_parts != n:
            texts.append(f"{window} has {n} messages, and in parts {sum_of_parts}")
    return texts


@pytest.mark.parametrize("law", laws.ON_TWINS)
@FEW
@given(twins=_TWINS)
def test_law(law: str, twins: Twins) -> None:
    assert laws.ON_TWINS[law](twins) == []


@FEW
@given(stream=any_streams(FIXED))
def test_more_grace_takes_more(stream: Stream) -> None:
    assert laws.check_grace(stream) == []


@FEW
@given(stream=any_streams(FIXED))
def test_filtered_messages_add_up(stream: Stream) -> None:
    assert check_filters(stream) == []


@pytest.mark.slow
@pytest.mark.parametrize("law", laws.ON_TWINS)
@given(data=st.data())
def test_law_at_length(law: str, data: st.DataObject) -> None:
    assert laws.ON_TWINS[law](data.draw(_TWINS)) == []


@pytest.mark.slow
@given(stream=any_streams(FIXED))
def test_grace_and_filters_at_length(stream: Stream) -> None:
    assert laws.check_grace(stream) == check_filters(stream) == []
