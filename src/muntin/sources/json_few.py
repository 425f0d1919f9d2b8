"""Reads a few plain JSON objects one by one.

Reading lines in columns costs the same for one message as for hundreds, most of it for waking
another thread. Plain objects leave no doubt about their values: their members are texts without
escapes, whole numbers of few digits, booleans and nulls, of their columns' types, and no name comes
twice. Any other message is left to the reader of lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import polars as pl

# So many messages take less time here than by lines.
FEW = 100
# A number of so many digits fits into 64 bits, and one of the others into the bits of a fraction.
_WHOLE_DIGITS, _REAL_DIGITS = 18, 15
_MOST_REAL = 10**_REAL_DIGITS


class _NotPlainError(ValueError):
    """A message isn't a plain object."""


def read_few(values: Sequence[bytes | None], schema: pl.Schema) -> pl.DataFrame | None:
    """Read plain objects in the types that Polars reads; ``None`` if one of them isn't plain.

    Example:
        >>> schema = pl.Schema({"k": pl.Int64()})
        >>> read_few([b'{"k":1}', b'{"n":"x"}'], schema)["k"].to_list()
        [1, None]
        >>> read_few([b'{"k":1.5}'], schema) is None
        True
    """
    try:
        rows = [_read_object(value) for value in values]
        columns = {name: _make_column(rows, name, dtype) for name, dtype in schema.items()}
    except (ValueError, RecursionError):
        return None
    # One of the columns may have an empty name, which a list of columns doesn't keep.
    return pl.DataFrame(columns)


def _read_object(value: bytes | None) -> Mapping[str, Any]:
    if value is None or b"\\" in value:
        raise _NotPlainError
    row = _DECODER.decode(str(value, "utf-8"))
    if type(row) is not dict or not _SCALARS.issuperset(map(type, row.values())):
        raise _NotPlainError
    return row


def _make_column(rows: Iterable[Mapping[str, Any]], name: str, dtype: pl.DataType) -> pl.Series:
    values = [row.get(name) for row in rows]
    expected = _EXPECTED.get(type(dtype))
    if expected is None or not expected.issuperset(map(type, values)):
        raise _NotPlainError
    if isinstance(dtype, pl.Float64):
        values = [None if value is None else _to_real(value) for value in values]
    return pl.Series(name, values, dtype)


def _to_real(value: int) -> float:
    if not -_MOST_REAL < value < _MOST_REAL:
        raise _NotPlainError
    return float(value)


def _parse_whole(text: str) -> int:
    # As a fraction, the negative zero is another number.
    if len(text) > _WHOLE_DIGITS or text == "-0":
        raise _NotPlainError
    return int(text)


def _refuse(text: str) -> NoReturn:
    raise _NotPlainError(text)


def _pair(members: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(members)
    if len(row) < len(members):
        raise _NotPlainError
    return row


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pair, parse_float=_refuse, parse_int=_parse_whole, parse_constant=_refuse
)
_SCALARS = frozenset((str, int, bool, type(None)))
_EXPECTED: Mapping[type[pl.DataType], frozenset[type]] = {
    pl.Int64: frozenset((int, type(None))),
    pl.Float64: frozenset((int, type(None))),
    pl.Boolean: frozenset((bool, type(None))),
    pl.String: frozenset((str, type(None))),
}
