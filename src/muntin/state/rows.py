"""Changes frames without a plan of Polars, which costs more than a few rows do.

Most batches of a quiet stream have a few messages. Each plan that Polars makes for them is also
handed to its threads, and a busy machine lets those wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

import polars as pl

# Where there are plans, so few rows are done sooner than other threads wake up; Polars' methods
# that end with `_seq` wake none.
FEW_ROWS = 1_000


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


def rename_column(frame: pl.DataFrame, name: str, new_name: str) -> pl.DataFrame:
    """Return a frame with another name of a column.

    Example:
        >>> rename_column(pl.DataFrame({"pane": [1], "n": [2]}), "pane", "window").columns
        ['window', 'n']
    """
    renamed = frame.clone()
    renamed.columns = [new_name if column == name else column for column in frame.columns]
    return renamed


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


def add_constants(frame: pl.DataFrame, values: Mapping[str, int | str | bool]) -> pl.DataFrame:
    """Return a frame with a column for each value, in place of one of that name.

    Example:
        >>> add_constants(pl.DataFrame({"k0": [1, 2]}), {"fired": 0}).rows()
        [(1, 0), (2, 0)]
    """
    constants = [pl.Series(name, [value]) for name, value in values.items()]
    return drop_columns(frame, *values).hstack(
        [constant.new_from_index(0, len(frame)) for constant in constants]
    )


def filter_rows(frame: pl.DataFrame, mask: pl.Series) -> pl.DataFrame:
    """Return the rows for which a mask is true; often these are all, or none.

    Example:
        >>> filter_rows(pl.DataFrame({"n": [1, 2]}), pl.Series([False, True])).rows()
        [(2,)]
    """
    if mask.all(ignore_nulls=False):
        return frame
    return frame.filter(mask) if mask.any() else frame.clear()


def split_rows(frame: pl.DataFrame, mask: pl.Series) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows for which a mask is true, and those for which it is false.

    Example:
        >>> [len(part) for part in split_rows(pl.DataFrame({"n": [1, 2]}), pl.Series([True, True]))]
        [2, 0]
    """
    return filter_rows(frame, mask), filter_rows(frame, ~mask)
