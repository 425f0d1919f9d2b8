"""Tests of the names and types of a join's columns."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from muntin.engine import columns
from muntin.engine.joins.joiner import Joiner
from muntin.engine.joins.shard import JoinShard
from muntin.model.bounds import Bound, SessionBound, SideName, Within
from muntin.model.errors import OptionError
from muntin.model.joins import HOWS, SIDES, How, JoinSpec, Side
from muntin.model.sessions import Sessions
from muntin.state.blobs import MemoryBlobs
from muntin.state.frames import FrameCache

INT, TEXT = pl.Int64(), pl.String()
SIDE = Side(("id",), "time")
FAR = 3_000_000_000


def make_joiner(
    left: dict[str, Any], right: dict[str, Any], how: How = "inner", bound: Bound | None = None
) -> Joiner:
    spec = JoinSpec(SIDE, SIDE, bound or Within(10, 10), how)
    own = {"id": INT, "time": INT, columns.TIME: INT}
    return Joiner(spec, {"left": pl.Schema({**own, **left}), "right": pl.Schema({**own, **right})})


REFUSED: list[tuple[dict[str, Any], dict[str, Any], How, str]] = [
    ({"emission": TEXT}, {}, "inner", "left='emission' is the name of a column of results"),
    ({"emission": TEXT}, {}, "anti", "left='emission' is the name of a column of results"),
    ({}, {"emission": TEXT}, "left", "right='emission' is the name of a column of results"),
    ({"x": INT}, {"x": INT, "x_right": INT}, "inner", "suffix='_right' makes two columns"),
    ({"x": INT, "x_right": INT}, {"x": TEXT}, "semi", "suffix='_right' makes two columns"),
    *[
        ({side: {name: TEXT}}.get("left", {}), {side: {name: TEXT}}.get("right", {}), how,
         f"{side}='{name}' is the name of a column of rejected messages; rename it")
        for side in SIDES for name in ("side", "reason", "watermark") for how in ("full", "semi")
    ],
    ({}, {"reason": INT}, "inner", "right='reason' is the name of a column of rejected messages"),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right", "how", "text"), REFUSED)
def test_columns_with_names_of_output_columns_are_refused(
    left: dict[str, Any], right: dict[str, Any], how: How, text: str
) -> None:
    with pytest.raises(OptionError) as refusal:
        make_joiner(left, right, how)
    assert text in str(refusal.value)
    assert "rename" in refusal.value.hint


def test_columns_of_windows_may_be_joined() -> None:
    window_columns = {
        "window_start": INT,
        "window_end": INT,
        "revision": pl.Int32(),
        "emission_then": TEXT,
    }
    assert make_joiner(window_columns, window_columns).result_types.keys() >= {
        *window_columns,
        "revision_right",
    }
    # No column of the right side of a semi join is emitted.
    assert "emission" not in make_joiner({}, {"emission": TEXT}, "semi").result_types


WIDTHS = [
    (pl.Int64(), pl.Int32(), True),
    (pl.Int32(), pl.Int64(), False),
    (pl.Int16(), pl.UInt8(), True),
    (pl.Int16(), pl.UInt16(), False),
    (pl.UInt32(), pl.Int8(), False),
    (pl.UInt32(), pl.UInt16(), True),
    (pl.Int32(), pl.Int32(), True),
]


@pytest.mark.parametrize(("left_type", "right_type", "is_wide_enough"), WIDTHS)
@pytest.mark.parametrize("how", HOWS)
def test_keys_of_the_right_side_are_emitted_in_the_left_column(
    how: How, left_type: Any, right_type: Any, is_wide_enough: bool
) -> None:
    if is_wide_enough or how not in ("right", "full"):
        make_joiner({"id": left_type}, {"id": right_type}, how)
        return
    with pytest.raises(OptionError, match="too narrow for id") as refusal:
        make_joiner({"id": left_type}, {"id": right_type}, how)
    assert refusal.value.hint == f"cast it to {right_type}"


@pytest.mark.parametrize("bound", [Within(10, 10), SessionBound(Sessions(10))], ids=str)
@pytest.mark.parametrize(("wide", "narrow"), [SIDES, SIDES[::-1]])
def test_a_key_that_does_not_fit_the_other_side_has_no_partner(
    wide: SideName, narrow: SideName, bound: Bound
) -> None:
    types = {wide: {"id": pl.Int64()}, narrow: {"id": pl.Int32()}}
    joiner = make_joiner(types["left"], types["right"], bound=bound)
    shard = JoinShard(joiner, MemoryBlobs(), FrameCache())
    step(shard, narrow, (1, 0), (2, 0))
    assert step(shard, wide, (FAR, 0), (-FAR, 1), (2, 1)) == [2]
    assert step(shard, wide, (FAR, 2)) == []
    assert step(shard, narrow, (2, 2)) == [2]


def step(shard: JoinShard, side: SideName, *messages: tuple[int, int]) -> list[int]:
    """Return the keys of the pairs that messages of one side complete."""
    frames = {name: shard.joiner.no_messages[name] for name in SIDES}
    rows = [(key, time, time) for key, time in messages]
    frames[side] = pl.DataFrame(rows, schema=frames[side].schema, orient="row")
    emitted = shard.step({name: [shard.joiner.arrive(name, frames[name])] for name in SIDES}, 0)
    return emitted.results["id"].to_list()
