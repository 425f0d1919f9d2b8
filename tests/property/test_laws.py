"""Laws between runs of one query; see ``laws``. More examples are tried by the slow tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.local_runner import Run, rows_of, window_plan
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


def counted(stream: Stream, where: pl.Expr | None) -> tuple[dict[Any, int], int]:
    """The messages of each window that a condition holds for, and how many were counted."""
    plan, frames = window_plan(stream.spec, stream.steps, 2, where)
    rows, figures = [], []
    with Run(plan) as run:
        for step, frame in zip(stream.steps, frames, strict=True):
            emitted = run.step([frame], step.wall, final=step.final)
            rows += rows_of(emitted.results)
            figures = emitted.progress
    taken = sum(shard["counts"].get("counted", 0) for shard in figures)
    return dict(laws.count_by_window(rows)), taken


def check_filters(stream: Stream) -> list[str]:
    """Messages with p, without p, and with p unknown add up: all of them move the watermark."""
    firing = replace(stream.spec.firing, accumulate=True, fill=None, repeat=True)
    spec = replace(stream.spec, firing=firing, aggregates={"n": stream.spec.aggregates["n"]})
    # Late windows whose messages are too few for a condition on them say less.
    spec = replace(spec, firing=replace(firing, early=None, late=laws.Each()))
    stream = Stream(spec, stream.steps)
    (whole, total), *parts = (counted(stream, where) for where in _PARTS.values())
    texts = []
    if total != sum(taken for _, taken in parts):
        texts.append(f"{total} messages were counted, and of the parts {[n for _, n in parts]}")
    for at, n in whole.items():
        apart = sum(windows.get(at, 0) for windows, _ in parts)
        if apart != n:
            texts.append(f"{at} has {n} messages, and in parts {apart}")
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
