"""Drops columns and stacks rows without a plan of Polars, which costs more than a few rows do.

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
    return frame[[name for name in frame.columns if name not in names]]


def stack_rows(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the rows of frames with the same columns, of which there is at least one.

    Example:
        >>> stack_rows(pl.DataFrame({"n": [n]}) for n in (1, 2))["n"].to_list()
        [1, 2]
    """
    return reduce(pl.DataFrame.vstack, frames)
