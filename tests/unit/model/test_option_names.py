"""Tests of the errors of calls with unknown options or without required ones."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

import muntin as mt

CLICKS = pl.DataFrame({"page": ["home"], "at": ["2026-01-01 09:00:00"]})
WINDOWS = mt.windowed(CLICKS, key="page", time="at")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mt.windowed(CLICKS, by="page"), r"windowed\(\) has no option by=; write key="),
        (lambda: mt.windowed(CLICKS, latenes="1 s"), "latenes=; did you mean lateness="),
        (lambda: WINDOWS.tumbling("1 hour", tz="UTC"), "tz=; write zone="),
        (lambda: WINDOWS.rolling("1 hour", min_periods=1), "it has size=, closed="),
        (lambda: WINDOWS.tumbling("1 hour", "5 min"), r"overlap are \.hopping\(size, slide\)"),
        (lambda: mt.windowed(CLICKS, delayThreshold="1 s"), "delayThreshold=; write lateness="),
        (lambda: WINDOWS.fill("zero"), r"fill\(\) needs up_to=; say for how long"),
        (lambda: WINDOWS.late(), r"late\(\) needs grace=; as in"),
        (lambda: mt.join(WINDOWS, WINDOWS, on="id", time="at"), r"time=; it belongs to the input"),
        (lambda: WINDOWS.late(lateness="1 s"), "lateness=; write grace="),
        (lambda: mt.join(WINDOWS, WINDOWS), r"join\(\) needs on="),
        (lambda: mt.kafka("host:9092", "t", group_id="g"), "group_id=; write group="),
        (
            lambda: WINDOWS.tumbling("1 hour").agg(n=mt.count()).start(),
            r"start\(\) needs checkpoint=; give a folder",
        ),
    ],
)
def test_an_error_names_what_to_write(call: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()
