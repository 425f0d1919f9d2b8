"""What is kept of keys that are filled, and what a restart makes of it."""

from __future__ import annotations

import polars as pl
import pytest

from muntin.engine import columns
from muntin.engine.windows.operator import make_combiner, open_shard
from muntin.model.aggregates import count
from muntin.model.errors import OptionError
from muntin.model.spec import WindowSpec
from muntin.standalone import windowed
from muntin.state.blobs import MemoryBlobs
from muntin.state.runs import FrameCache

MINUTES = windowed(key="k", time="t").tumbling("1 minute")
FILLED = MINUTES.fill("zero", up_to="10 minutes").agg(n=count())
PLAIN = MINUTES.agg(n=count())
MINUTE = 60_000_000


def step(spec: WindowSpec, blobs: MemoryBlobs, rows: list[tuple[str, int]]) -> list[tuple]:
    made = make_combiner(spec, pl.Schema({"k": pl.String(), columns.TIME: pl.Int64()}))
    opened = open_shard(made, blobs, FrameCache())
    frame = pl.DataFrame(rows, schema=made.schema, orient="row")
    emitted = opened.step([made.combine(frame, opened.state.watermark, None)], 0)
    return emitted.results.select("k", pl.col("window_start") // MINUTE, "n").rows()


def test_a_query_that_fills_no_more_forgets_whom_it_filled() -> None:
    blobs = MemoryBlobs()
    step(FILLED, blobs, [("a", 0), ("b", MINUTE)])
    assert step(FILLED, blobs, [("b", 3 * MINUTE)]) == [
        ("a", 1, 0),
        ("b", 1, 1),
        ("a", 2, 0),
        ("b", 2, 0),
    ]
    assert step(PLAIN, blobs, [("b", 4 * MINUTE)]) == [("b", 3, 1)]
    # Filled again are the keys that come from then on.
    assert step(FILLED, blobs, [("b", 6 * MINUTE)]) == [("b", 4, 1), ("b", 5, 0)]


def test_a_row_is_kept_of_each_key_that_is_filled() -> None:
    blobs = MemoryBlobs()
    step(FILLED, blobs, [(f"k{i}", 0) for i in range(100)])
    sizes = []
    for minute in range(1, 30):
        step(FILLED, blobs, [("b", minute * MINUTE)])
        opened = open_shard(
            make_combiner(FILLED, pl.Schema({"k": pl.String(), columns.TIME: pl.Int64()})),
            blobs,
            FrameCache(),
        )
        sizes.append(opened.filled.rows)
    assert max(sizes) == 101
    assert sizes[-1] == 1


@pytest.mark.parametrize("kind", ["session", "sliding"])
def test_windows_that_messages_make_are_not_filled(kind: str) -> None:
    said = getattr(windowed(key="k", time="t"), kind)("1 minute").fill("zero", up_to="1 hour")
    with pytest.raises(OptionError, match="are only where there are messages"):
        said.agg(n=count())


def test_what_fills_nothing_is_refused() -> None:
    with pytest.raises(
        OptionError, match="up_to='30 seconds' fills no window; give at least 1 minute"
    ):
        MINUTES.fill("zero", up_to="30 seconds").agg(n=count())
    with pytest.raises(OptionError, match='give "zero"'):
        MINUTES.fill("last", up_to="1 hour")
