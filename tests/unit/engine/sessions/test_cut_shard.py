from __future__ import annotations

from typing import Any
from unittest import mock

import polars as pl
import pytest

from muntin.engine import columns
from muntin.engine.output import ShardOutput
from muntin.engine.sessions import cut_shard
from muntin.engine.sessions.combine import SessionCombiner
from muntin.engine.sessions.cut_shard import CutSessionShard
from muntin.model import aggregates
from muntin.model.policies import Each, Firing
from muntin.model.sessions import Sessions
from muntin.model.spec import WindowSpec
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache

SCHEMA = pl.Schema(
    {"key": pl.String(), "leaves": pl.Boolean(), "opens": pl.Boolean(), columns.TIME: pl.Int64()}
)


class Run:
    """A shard that is opened again for each step, as on Spark."""

    def __init__(self, windows: Sessions, **firing: Any) -> None:
        spec = WindowSpec(
            ("key",), "time", windows, {"n": aggregates.count()}, firing=Firing(**firing)
        )
        self.combiner = SessionCombiner(spec, SCHEMA)
        self.store = MemoryBlobs()
        self.shard = self.open_shard()

    def open_shard(self) -> CutSessionShard:
        return CutSessionShard(self.combiner, self.store, FrameCache())

    def step(self, *rows: tuple[Any, ...], final: bool = False) -> ShardOutput:
        self.shard = self.open_shard()
        names = ["key", columns.TIME, "leaves", "opens"]
        padded = [(*row, *[False] * (4 - len(row))) for row in rows]
        frame = pl.DataFrame(padded, schema=names, orient="row").select(
            pl.col(name).cast(dtype) for name, dtype in SCHEMA.items()
        )
        combined = self.combiner.combine(frame, self.shard.state.watermark)
        return self.shard.step([combined], 0, final=final)


@pytest.fixture
def early_garbage_collection() -> Any:
    with mock.patch.object(cut_shard, "MIN_GARBAGE", 8):
        yield


@pytest.mark.usefixtures("early_garbage_collection")
def test_cells_of_closed_sessions_are_dropped_while_one_stays_open() -> None:
    run = Run(Sessions(10, end="leaves"))
    stored = []
    for n in range(60):
        # One key never pauses for long; the others' sessions end at once.
        rows = [("long", 5 * n), *((f"k{n}-{i}", 5 * n, True) for i in range(5))]
        run.step(*rows)
        stored.append(run.shard.cells.rows)
    assert max(stored) < 5 * 60 / 2
    emitted = run.step(final=True).results
    assert emitted.filter(key="long")["n"].to_list() == [60]


def test_messages_are_stored_until_their_session_is_certain() -> None:
    run = Run(Sessions(10, start="opens"), grace=5, retention=5)
    run.step(("a", 0), ("a", 3), ("b", 4))
    assert run.shard.messages.rows == 3
    assert run.shard.state.counts["undecided"] == 3
    output = run.step(("a", 2, False, True), ("c", 8))
    # The watermark has passed the first of ``a``. The other is in a session that begins before it.
    assert output.rejected.select("key", columns.TIME, columns.REASON).rows() == [
        ("a", 0, "outside")
    ]
    output = run.step(("c", 12))
    assert output.rejected.select("key", columns.REASON).rows() == [("b", "outside")]
    counts = run.shard.state.counts
    assert {name: counts[name] for name in ("seen", "counted", "outside", "undecided")} == {
        "seen": 6, "counted": 2, "outside": 2, "undecided": 2,
    }  # fmt: skip
    run.step(final=True)
    assert run.shard.state.counts["undecided"] == 0
    assert run.shard.state.counts["outside"] == 4


def test_a_session_that_shrinks_hides_its_earlier_version() -> None:
    run = Run(Sessions(10, end="leaves"), early=Each(), late=Each(), grace=50, retention=50)
    run.step(("a", 0), ("a", 8), ("b", 40))
    shrunk = run.step(("a", 5, True)).results
    assert shrunk.select("window_start", "window_end", "n", "emission").rows() == [
        (0, 18, None, "retract"), (0, 5, 2, "late"), (8, 18, 1, "late"),
    ]  # fmt: skip
    # The watermark passes the earlier end of the first session again and again.
    for at in (60, 70, 80, 200):
        assert run.step(("b", at)).results.filter(key="a").is_empty()
    final = run.step(final=True).results
    assert final.filter(key="a").is_empty()
