"""Search for partners in two frames, by a hash join on key and a coarse position.

Partners lie at most a reach apart. Positions are divided into buckets of the length of the reach,
so that the partners of a row are in at most two buckets. One hash join on key and bucket finds few
other rows, and these are removed by their exact distance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.order import Code
from muntin.engine.windows.panes import in_columns, pane_of, window_end
from muntin.model.joins import JoinSpec, Together, Within

RowNumbers = NDArray[np.int64]
AT, ROW, BUCKET = "__at", "__row", "__bucket"


def pairs(left: pl.DataFrame, right: pl.DataFrame, spec: JoinSpec) -> tuple[RowNumbers, RowNumbers]:
    """Return the row numbers of all pairs of partners, in any order."""
    nothing = np.zeros(0, dtype=np.int64)
    if not len(left) or not len(right):
        return nothing, nothing
    bound = spec.bound
    assert isinstance(bound, Within | Together)
    back, ahead = _reach(bound)
    names = [f"k{i}" for i in range(len(spec.left.keys))]
    one = _slim(left, spec.left.keys, bound)
    other = _slim(right, spec.right.keys, bound)
    if back == ahead == 0:
        found = _joined(one, other, [*names, AT])
    else:
        width = back + ahead + 1
        low, high = ((pl.col(AT) + by).floordiv(width) for by in (-back, ahead))
        early = one.with_columns(low.alias(BUCKET))
        late = one.filter(low < high).with_columns(high.alias(BUCKET))
        other = other.with_columns(pl.col(AT).floordiv(width).alias(BUCKET))
        found = _joined(pl.concat([early, late]), other, [*names, BUCKET])
        apart = pl.col(f"{AT}_right") - pl.col(AT)
        found = found.filter(apart.is_between(-back, ahead))
    rows = found[ROW].to_numpy(), found[f"{ROW}_right"].to_numpy()
    return rows if isinstance(bound, Within) else _in_one_window(left, right, rows, bound)


def _reach(bound: Within | Together) -> tuple[int, int]:
    """Return the greatest distances of partners before and after, in the units of ``_slim``."""
    if isinstance(bound, Within):
        return bound.before, bound.after
    panes = bound.windows[0].panes_per_window - 1
    return panes, panes


def _slim(frame: pl.DataFrame, keys: Sequence[str], bound: Within | Together) -> pl.DataFrame:
    """Return the columns of the search: keys, position (or pane) and row number."""
    place = pl.col(columns.TIME)
    if isinstance(bound, Together):
        place = pane_of(place, bound.windows[0])
    rows = pl.int_range(pl.len(), dtype=pl.Int64).alias(ROW)
    return frame.select(*compared(frame, keys), place.alias(AT), rows)


def compared(frame: pl.DataFrame, keys: Sequence[str]) -> list[pl.Expr]:
    """Return the key columns as ``k0…``, with all integers in one width."""
    found = []
    for i, key in enumerate(keys):
        whole = frame.schema[key].is_integer()
        found.append((pl.col(key).cast(pl.Int64) if whole else pl.col(key)).alias(f"k{i}"))
    return found


def _joined(left: pl.DataFrame, right: pl.DataFrame, on: list[str]) -> pl.DataFrame:
    """Join on columns; integer columns are packed into one, which is several times faster."""
    if all(left.schema[name].is_integer() for name in on):
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
    return left.join(right, on=on)


def _in_one_window(
    left: pl.DataFrame, right: pl.DataFrame, rows: tuple[RowNumbers, RowNumbers], bound: Together
) -> tuple[RowNumbers, RowNumbers]:
    """Return the pairs that share a window of each kind; tumbling windows need no check."""
    if len(bound.windows) == 1 and bound.windows[0].panes_per_window == 1:
        return rows
    times = [f[columns.TIME].to_numpy()[r] for f, r in zip((left, right), rows, strict=True)]
    places = pl.DataFrame({"low": np.minimum(*times), "high": np.maximum(*times)})
    keep = np.ones(len(places), dtype=bool)
    for windows in bound.windows:
        # Of the windows that contain the earlier message, the last one ends last.
        last_of = in_columns(windows.last_window)
        last = places.select(last_of(pane_of(pl.col("low"), windows))).to_series()
        keep &= window_end(last, windows).to_numpy() > places["high"].to_numpy()
    return rows[0][keep], rows[1][keep]
