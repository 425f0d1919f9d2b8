"""Builds columns of structs and lists from their parts, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa


def list_of(items: pl.Series, sizes: Any, missing: Any = None) -> pl.Series:
    """Return lists of the given sizes over consecutive items; missing lists are null.

    Example:
        >>> list_of(pl.Series([1, 2, 3]), np.array([2, 0, 1])).to_list()
        [[1, 2], [], [3]]
    """
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
    mask = None if missing is None else pa.array(np.asarray(missing))
    lists = pa.LargeListArray.from_arrays(offsets, items.rechunk().to_arrow(), mask=mask)
    return pl.Series(lists)


def struct_of(fields: Iterable[pl.Series], missing: Any) -> pl.Series:
    """Return structs of the given fields; missing structs are null.

    Example:
        >>> struct_of([pl.Series("n", [1, 2])], np.array([False, True])).to_list()
        [{'n': 1}, None]
    """
    whole = pl.DataFrame({"": pl.DataFrame(fields).to_struct(), "missing": pl.Series(missing)})
    return whole.select(pl.when(~pl.col("missing")).then(pl.col(""))).to_series()


def mark_lists(mask: Any, sizes: Any) -> Any:
    """Return which lists have a marked item, from the marks of all items and the lists' sizes."""
    owners = np.repeat(np.arange(len(sizes)), sizes)
    return np.bincount(owners[mask], minlength=len(sizes)) > 0


def items_of(lists: pl.Series) -> tuple[pl.Series, Any]:
    """Return all items of lists, or entries of maps, in order, and the size of each list.

    Example:
        >>> items, sizes = items_of(pl.Series([[1, 2], None, [], [3]]))
        >>> items.to_list(), sizes.tolist()
        ([1, 2, 3], [2, 0, 0, 1])
    """
    if isinstance(lists.dtype, pl.Map):
        kind = lists.dtype
        lists = lists.cast(pl.List(pl.Struct({"key": kind.key, "value": kind.value})))
    sizes = lists.list.len().fill_null(0).to_numpy().astype(np.int64)
    inner = lists.dtype.inner  # type: ignore[attr-defined]
    return pl.Series(lists.rechunk().to_arrow().flatten(), dtype=inner), sizes


def drop_repeated_keys(maps: pl.Series) -> pl.Series:
    """Return maps, as lists of entries, with only the last value of each key.

    Example:
        >>> pairs = [{"key": "a", "value": 1}, {"key": "a", "value": 2}]
        >>> drop_repeated_keys(pl.Series([pairs, []])).to_list()
        [[{'key': 'a', 'value': 2}], []]
    """
    items, sizes = items_of(maps)
    frame = pl.DataFrame({"of": np.repeat(np.arange(len(sizes)), sizes), "item": items})
    frame = frame.with_columns(key=pl.col("item").struct.field("key"))
    unique = frame.unique(["of", "key"], keep="last", maintain_order=True)
    if len(unique) == len(frame):
        return maps
    return list_of(unique["item"], np.bincount(unique["of"].to_numpy(), minlength=len(sizes)))
