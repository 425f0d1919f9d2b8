"""Changes frames without a plan of Polars, which costs more than a few rows do.

Most batches of a quiet stream have a few messages. Each plan that Polars makes for them is also
handed to its threads, and a busy machine lets those wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import polars as pl


def drop_columns(frame: pl.DataFrame, *names: str) -> pl.DataFrame:
    """Return a frame without some columns, as far as it has them.

    Example:
        >>> drop_columns(pl.DataFrame({"k0": [1], "n": [2]}), "n", "fired").columns
        ['k0']
    """
    rest = frame.clone()
    for name in {*names}.intersection(frame.columns):
        rest.drop_in_place(name)
    return rest


def stack_rows(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the rows of frames with the same columns, of which there is at least one.

    Example:
        >>> stack_rows(pl.DataFrame({"n": [n]}) for n in (1, 2))["n"].to_list()
        [1, 2]
    """
    return reduce(pl.DataFrame.vstack, frames)


def fill_nulls(column: pl.Series, value: float | bytes) -> pl.Series:
    """Return a column with a value for nulls; most have none.

    Example:
        >>> fill_nulls(pl.Series([1, None]), 0).to_list()
        [1, 0]
    """
    return column.fill_null(value) if column.null_count() else column
