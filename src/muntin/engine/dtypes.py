"""Types of columns out of the words that a checkpoint has for them."""

from __future__ import annotations

import re
from typing import Literal, cast

import polars as pl

_PLAIN: dict[str, pl.DataType] = {
    str(dtype): dtype
    for dtype in (
        pl.String(), pl.Binary(), pl.Boolean(), pl.Date(), pl.Float32(), pl.Float64(),
        pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64(), pl.Null(),
    )
}  # fmt: skip
_MOMENT = re.compile(r"Datetime\(time_unit='(us|ns|ms)', time_zone=(?:None|'([^']+)')\)")
_DURATION = re.compile(r"Duration\(time_unit='(us|ns|ms)'\)")
_DECIMAL = re.compile(r"Decimal\(precision=(\d+), scale=(\d+)\)")
_LIST = re.compile(r"List\((.+)\)")
_Unit = Literal["us", "ns", "ms"]


def dtype_of(text: str) -> pl.DataType:
    """The type that is written so.

    Args:
        text: ``str`` of a type.

    Raises:
        ValueError: When it is written by no type that columns of messages have.

    Example:
        >>> dtype_of("List(Decimal(precision=10, scale=2))")
        List(Decimal(precision=10, scale=2))
    """
    if text in _PLAIN:
        return _PLAIN[text]
    if found := _MOMENT.fullmatch(text):
        return pl.Datetime(cast(_Unit, found[1]), found[2])
    if found := _DURATION.fullmatch(text):
        return pl.Duration(cast(_Unit, found[1]))
    if found := _DECIMAL.fullmatch(text):
        return pl.Decimal(int(found[1]), int(found[2]))
    if found := _LIST.fullmatch(text):
        return pl.List(dtype_of(found[1]))
    raise ValueError(f"no type: {text}")
