"""Tests of the state of filled keys, and of filling after a restart."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from muntin.engine import columns
from muntin.engine.fills import interpolate
from muntin.engine.windows.operator import make_combiner, open_shard
from muntin.hosts.chain import change_grace
from muntin.model.aggregates import collect_list, count, last
from muntin.model.errors import OptionError, SpecChangedError
from muntin.model.ranking import refuse_delayed
from muntin.model.spec import WindowSpec
from muntin.standalone import windowed
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache

MINUTES = windowed(key="k", time="t").tumbling("1 minute")
FILLED = MINUTES.fill("zero", up_to="10 minutes").agg(n=count())
PLAIN = MINUTES.agg(n=count())
MINUTE = 60_000_000


def step(spec: WindowSpec, blobs: MemoryBlobs, rows: list[tuple[str, int]]) -> list[tuple]:
    combiner = make_combiner(spec, pl.Schema({"k": pl.String(), columns.TIME: pl.Int64()}))
    shard = open_shard(combiner, blobs, FrameCache())
    frame = pl.DataFrame(rows, schema=combiner.schema, orient="row")
    emitted = shard.step([combiner.combine(frame, shard.state.watermark, None)], 0)
    return emitted.results.select("k", pl.col("window_start") // MINUTE, "n").rows()


def test_a_query_that_no_longer_fills_forgets_the_filled_keys() -> None:
    blobs = MemoryBlobs()
    step(FILLED, blobs, [("a", 0), ("b", MINUTE)])
    assert step(FILLED, blobs, [("b", 3 * MINUTE)]) == [
        ("a", 1, 0),
        ("b", 1, 1),
        ("a", 2, 0),
        ("b", 2, 0),
    ]
    assert step(PLAIN, blobs, [("b", 4 * MINUTE)]) == [("b", 3, 1)]
    # Only keys of later messages are filled again.
    assert step(FILLED, blobs, [("b", 6 * MINUTE)]) == [("b", 4, 1), ("b", 5, 0)]


def test_one_row_is_stored_for_each_filled_key() -> None:
    blobs = MemoryBlobs()
    step(FILLED, blobs, [(f"k{i}", 0) for i in range(100)])
    sizes = []
    for minute in range(1, 30):
        step(FILLED, blobs, [("b", minute * MINUTE)])
        shard = open_shard(
            make_combiner(FILLED, pl.Schema({"k": pl.String(), columns.TIME: pl.Int64()})),
            blobs,
            FrameCache(),
        )
        sizes.append(shard.filled.rows)
    assert max(sizes) == 101
    assert sizes[-1] == 1


@pytest.mark.parametrize("kind", ["session", "sliding"])
def test_windows_that_start_at_messages_are_not_filled(kind: str) -> None:
    filled = getattr(windowed(key="k", time="t"), kind)("1 minute").fill("zero", up_to="1 hour")
    with pytest.raises(OptionError, match="are only where there are messages"):
        filled.agg(n=count())


def test_fills_without_effect_are_refused() -> None:
    with pytest.raises(
        OptionError, match="up_to='30 seconds' fills no window; give at least 1 minute"
    ):
        MINUTES.fill("zero", up_to="30 seconds").agg(n=count())
    with pytest.raises(OptionError, match='write "previous"'):
        MINUTES.fill("last", up_to="1 hour")
    with pytest.raises(OptionError, match="doesn't say with what"):
        MINUTES.fill(up_to="1 hour")
    with pytest.raises(OptionError, match="names m, which is no aggregate; give some of n"):
        MINUTES.fill(m=0, up_to="1 hour").agg(n=count())
    with pytest.raises(OptionError, match="give a number, a text"):
        MINUTES.fill(n=[0], up_to="1 hour")
    with pytest.raises(OptionError, match=r"repeats results, and deltas\(\) emits only"):
        MINUTES.fill(n="previous", up_to="1 hour").deltas().agg(n=count())


@pytest.mark.parametrize(
    ("fills", "problem"),
    [
        ({"city": "linear"}, "city=linear.* has values of type String, between which"),
        ({"cities": "linear"}, "has values of type List"),
        ({"n": "none"}, "n='none'.* is no value of type Int64; give a value of that type"),
        ({"n": 0.5}, "n=0.5.* is no value of type Int64"),
        ({"n": 2**63}, "is no value of type Int64"),
        ({"n": True}, "n=true.* is no value of type Int64"),
        ({"city": 0}, "city=0.* is no value of type String"),
        ({"cities": "Rome"}, "is no value of type List"),
    ],
)
def test_a_constant_fits_its_aggregate(fills: dict[str, Any], problem: str) -> None:
    filled = MINUTES.fill(up_to="1 hour", **fills)
    spec = filled.agg(n=count(), city=last("city"), cities=collect_list("city"))
    schema = pl.Schema({"k": pl.String(), "city": pl.String(), columns.TIME: pl.Int64()})
    with pytest.raises(OptionError, match=problem):
        make_combiner(spec, schema)


def test_values_before_a_restart_are_repeated_after_it() -> None:
    blobs = MemoryBlobs()
    spec = MINUTES.fill("previous", up_to="10 minutes").agg(n=count())
    step(spec, blobs, [("a", 0), ("a", 1), ("b", MINUTE)])
    assert step(spec, blobs, [("b", 4 * MINUTE)]) == [
        ("a", 1, 2),
        ("b", 1, 1),
        ("a", 2, 2),
        ("b", 2, 1),
        ("a", 3, 2),
        ("b", 3, 1),
    ]


def test_a_query_that_begins_to_repeat_has_no_earlier_values() -> None:
    blobs = MemoryBlobs()
    step(FILLED, blobs, [("a", 0), ("b", MINUTE)])
    repeats = MINUTES.fill("previous", up_to="10 minutes").agg(n=count())
    assert step(repeats, blobs, [("b", 3 * MINUTE)]) == [
        ("a", 1, None),
        ("b", 1, 1),
        ("a", 2, None),
        ("b", 2, 1),
    ]


def test_a_restart_cannot_begin_or_end_interpolation() -> None:
    blobs = MemoryBlobs()
    step(FILLED, blobs, [("a", 0)])
    lines = MINUTES.fill("linear", up_to="10 minutes").agg(n=count())
    with pytest.raises(SpecChangedError, match="fill: was zero up to 10 minutes"):
        step(lines, blobs, [("b", 3 * MINUTE)])


@pytest.mark.parametrize(
    ("dtype", "left", "right", "middle"),
    [
        (pl.Int64(), 2**63 - 1, -(2**63), 0),
        (pl.UInt64(), 2**64 - 1, 2**64 - 4, 2**64 - 2),
        (pl.Int8(), -128, 127, 0),
        (pl.Decimal(38, 2), Decimal(9 * 10**35 + 1), Decimal(-9 * 10**35), Decimal("0.5")),
        (pl.Decimal(10, 2), Decimal("1.25"), Decimal("1.26"), Decimal("1.26")),
        (pl.Float32(), 1.5, 2.5, 2.0),
        (pl.Float64(), 1.5, None, None),
    ],
    ids=str,
)
def test_interpolated_values_have_the_type_of_their_ends(
    dtype: pl.DataType, left: Any, right: Any, middle: Any
) -> None:
    low, high = (pl.Series([value], dtype=dtype) for value in (left, right))
    line = interpolate(low, high, pl.Series([10 * MINUTE]), pl.Series([20 * MINUTE]))
    assert line.dtype == dtype
    assert line.to_list() == [middle]


def test_interpolated_windows_are_emitted_within_the_stated_lag() -> None:
    blobs = MemoryBlobs()
    spec = MINUTES.fill("linear", up_to="3 minutes").late(grace="90 seconds").agg(n=count())
    newest, delays = 0, []
    for minute in (0, 1, 2, 3, 4, 5, 6, 6.5, 7, 12, 13, 14):
        rows = [("b", int(minute * MINUTE))] + [("a", 0)] * (minute == 0)
        starts = [start for _, start, _ in step(spec, blobs, rows)]
        delays += [newest - start for start in starts]
        newest = max([newest, *starts])
    assert max(delays) == 4
    assert spec.lag == 4.5 * MINUTE


def test_windows_with_one_end_that_are_emitted_apart_are_not_ranked() -> None:
    lines = MINUTES.fill("previous", n="linear", up_to="3 minutes").agg(n=count())
    with pytest.raises(OptionError, match="n=linear up to 3 minutes' emits windows with"):
        refuse_delayed(lines)
    refuse_delayed(FILLED)


def test_a_join_of_changes_waits_for_interpolated_windows() -> None:
    keys = ("k", "window_start", "window_end")
    lines = MINUTES.fill("linear", up_to="3 minutes").late(grace="1 minute").agg(n=count())
    for spec, graces in ((lines, (4, 4)), (PLAIN, (0, 0))):
        actual = [change_grace(spec, keys, full=full, keeps_windows=True) for full in (True, False)]
        assert actual == [grace * MINUTE for grace in graces]
