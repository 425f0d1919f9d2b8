"""Search for partners in two frames, by a hash join on key and a coarse position.

Positions are divided into buckets as long as the greatest distance of partners, so that the
partners of a row are in at most two buckets. A hash join on key and bucket finds few other rows,
which their exact distance excludes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.dtypes import comparable_type
from muntin.engine.order import Code
from muntin.engine.windows.panes import in_columns, pane_of, window_end
from muntin.model.bounds import Together, Within
from muntin.model.joins import JoinSpec
from muntin.state.rows import filter_rows, stack_rows

RowNumbers = NDArray[np.int64]
AT, ROW, BUCKET = "__at", "__row", "__bucket"


def find_pairs(
    left: pl.DataFrame, right: pl.DataFrame, spec: JoinSpec
) -> tuple[RowNumbers, RowNumbers]:
    """Return the row numbers of all pairs of partners, in any order."""
    no_rows = np.zeros(0, dtype=np.int64)
    if not len(left) or not len(right):
        return no_rows, no_rows
    bound = spec.bound
    assert isinstance(bound, Within | Together)
    back, ahead = _find_distances(bound)
    nulls_equal = spec.nulls == "group"
    names = [f"k{i}" for i in range(len(spec.left.keys))]
    one = _select_search_columns(left, spec.left.keys, bound)
    other = _select_search_columns(right, spec.right.keys, bound)
    if back == ahead == 0:
        pairs = _join_on(one, other, [*names, AT], nulls_equal=nulls_equal)
    else:
        width = back + ahead + 1
        at = one[AT].to_numpy()
        low, high = (at - back) // width, (at + ahead) // width
        early = _add_bucket(one, low)
        late = filter_rows(_add_bucket(one, high), pl.Series(low < high))
        other = _add_bucket(other, other[AT].to_numpy() // width)
        either = stack_rows([early, late])
        pairs = _join_on(either, other, [*names, BUCKET], nulls_equal=nulls_equal)
        distance = pairs[f"{AT}_right"] - pairs[AT]
        pairs = filter_rows(pairs, (distance >= -back) & (distance <= ahead))
    rows = pairs[ROW].to_numpy(), pairs[f"{ROW}_right"].to_numpy()
    if isinstance(bound, Within):
        return rows
    return _keep_pairs_in_one_window(left, right, rows, bound)


def _add_bucket(rows: pl.DataFrame, bucket: NDArray[np.int64]) -> pl.DataFrame:
    return rows.hstack([pl.Series(BUCKET, bucket)])


def _find_distances(bound: Within | Together) -> tuple[int, int]:
    """Return the greatest distances of partners before and after, in the units of the search."""
    if isinstance(bound, Within):
        return bound.before, bound.after
    panes = bound.windows[0].panes_per_window - 1
    return panes, panes


def _select_search_columns(
    frame: pl.DataFrame, keys: Sequence[str], bound: Within | Together
) -> pl.DataFrame:
    """Return the columns of the search: keys, position (or pane) and row number."""
    position = frame[columns.TIME]
    if isinstance(bound, Together):
        panes = pane_of(pl.col(columns.TIME), bound.windows[0])
        position = frame.select(panes).to_series()
    rows = pl.Series(ROW, np.arange(len(frame)))
    return pl.DataFrame([*select_comparable_keys(frame, keys), position.alias(AT), rows])


def select_comparable_keys(frame: pl.DataFrame, keys: Sequence[str]) -> list[pl.Series]:
    """Return the key columns as ``k0…``, with all integers in the width that holds them."""
    return [
        frame[key].cast(comparable_type(frame.schema[key])).alias(f"k{i}")
        for i, key in enumerate(keys)
    ]


def stack_sides(sides: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the rows of both sides with comparable keys, in the wider type of each."""
    return pl.concat(sides, how="vertical_relaxed", rechunk=False)


def _join_on(
    left: pl.DataFrame, right: pl.DataFrame, on: list[str], *, nulls_equal: bool
) -> pl.DataFrame:
    """Join on columns; integer columns are packed into one, which is several times faster."""
    nulls_equal = nulls_equal and any(f[name].null_count() for f in (left, right) for name in on)
    if not nulls_equal and all(f.schema[name] == pl.Int64 for f in (left, right) for name in on):
        bounds = {}
        for name in on:
            ends = [
                f(frame[name]) for frame in (left, right) for f in (pl.Series.min, pl.Series.max)
            ]
            if None in ends:
                return left.clear().join(right, on=on)
            bounds[name] = (min(ends), max(ends))  # type: ignore[type-var]
        code = Code.over(bounds)  # type: ignore[arg-type]
        if code is not None:
            packed = code.expression().alias("__code")
            rest = [AT, ROW]
            return left.select(packed, *rest).join(right.select(packed, *rest), on="__code")
    right = right.with_columns(pl.col(AT).alias(f"{AT}_right")) if AT in on else right
    return left.join(right, on=on, nulls_equal=nulls_equal)


def _keep_pairs_in_one_window(
    left: pl.DataFrame, right: pl.DataFrame, rows: tuple[RowNumbers, RowNumbers], bound: Together
) -> tuple[RowNumbers, RowNumbers]:
    """Return the pairs that share a window of each kind; tumbling windows need no check."""
    if len(bound.windows) == 1 and bound.windows[0].panes_per_window == 1:
        return rows
    times = [f[columns.TIME].to_numpy()[r] for f, r in zip((left, right), rows, strict=True)]
    positions = pl.DataFrame({"low": np.minimum(*times), "high": np.maximum(*times)})
    keep = np.ones(len(positions), dtype=bool)
    for windows in bound.windows:
        # The last of the windows that contain the earlier message also ends last.
        last_of = in_columns(windows.last_window)
        last = positions.select(last_of(pane_of(pl.col("low"), windows))).to_series()
        keep &= window_end(last, windows).to_numpy() > positions["high"].to_numpy()
    return rows[0][keep], rows[1][keep]
