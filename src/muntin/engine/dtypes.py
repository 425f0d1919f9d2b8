"""Types of columns: out of the words that a checkpoint has for them, and as aggregates see them."""

from __future__ import annotations

import ast
import re
from typing import Literal, cast

import polars as pl

from muntin.model.shapes import Shape

_PLAIN: dict[str, pl.DataType] = {
    str(dtype): dtype
    for dtype in (
        pl.String(), pl.Binary(), pl.Boolean(), pl.Date(), pl.Time(), pl.Float32(), pl.Float64(),
        pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64(), pl.Int128(), pl.UInt8(), pl.UInt16(),
        pl.UInt32(), pl.UInt64(), pl.UInt128(), pl.Null(),
    )
}  # fmt: skip
_NAME = re.compile(r"\w+")
_MOMENT = re.compile(r"\(time_unit='(us|ns|ms)', time_zone=(?:None|'([^']+)')\)")
_DURATION = re.compile(r"\(time_unit='(us|ns|ms)'\)")
_DECIMAL = re.compile(r"\(precision=(\d+), scale=(\d+)\)")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"", re.DOTALL)
_Unit = Literal["us", "ns", "ms"]

_FAMILIES: dict[type[pl.DataType], str] = {
    pl.Boolean: "boolean", pl.Decimal: "decimal", pl.String: "string", pl.Binary: "binary",
    pl.Categorical: "string", pl.Enum: "string", pl.Date: "date", pl.Time: "time",
    pl.Datetime: "timestamp", pl.Duration: "interval", pl.Null: "void",
}  # fmt: skip


def shape_of(dtype: pl.DataType) -> Shape:
    """A type as aggregates see it.

    Example:
        >>> sorted(shape_of(pl.List(pl.Map(pl.String(), pl.Int64()))).inside)
        ['integer', 'map', 'string']
    """
    text = str(dtype)
    if isinstance(dtype, pl.List | pl.Array):
        return Shape.nested(text, "array", [shape_of(_made(dtype.inner))])
    if isinstance(dtype, pl.Struct):
        return Shape.nested(text, "struct", [shape_of(_made(f.dtype)) for f in dtype.fields])
    if isinstance(dtype, pl.Map):
        return Shape.nested(text, "map", [shape_of(_made(d)) for d in (dtype.key, dtype.value)])
    if dtype.is_integer():
        return Shape(text, "integer")
    if dtype.is_float():
        return Shape(text, "float")
    return Shape(text, _FAMILIES.get(type(dtype), "other"))


def _made(dtype: object) -> pl.DataType:
    return cast(pl.DataType, dtype() if isinstance(dtype, type) else dtype)


def dtype_of(text: str) -> pl.DataType:
    """The type that is written so.

    Raises:
        ValueError: When it is written by no type that columns of messages have.

    Example:
        >>> dtype_of("List(Decimal(precision=10, scale=2))")
        List(Decimal(precision=10, scale=2))
        >>> dtype_of("Struct({'a': Map(String, Int64)})")
        Struct({'a': Map(String, Int64)})
    """
    reader = _Reader(text)
    found = reader.dtype()
    if reader.at != len(text):
        raise reader.unknown
    return found


class _Reader:
    """Reads one type after the other out of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    @property
    def unknown(self) -> ValueError:
        return ValueError(f"no type: {self.text}")

    def dtype(self) -> pl.DataType:
        """The type that begins here."""
        name = self._match(_NAME)[0]
        if name in _PLAIN:
            return _PLAIN[name]
        if name == "Datetime":
            found = self._match(_MOMENT)
            return pl.Datetime(cast(_Unit, found[1]), found[2])
        if name == "Duration":
            return pl.Duration(cast(_Unit, self._match(_DURATION)[1]))
        if name == "Decimal":
            found = self._match(_DECIMAL)
            return pl.Decimal(int(found[1]), int(found[2]))
        return self._nested(name)

    def _nested(self, name: str) -> pl.DataType:
        self._skip("(")
        found: pl.DataType
        if name == "List":
            found = pl.List(self.dtype())
        elif name == "Map":
            key = self.dtype()
            self._skip(", ")
            found = pl.Map(key, self.dtype())
        elif name == "Struct":
            found = pl.Struct(self._fields())
        else:
            raise self.unknown
        self._skip(")")
        return found

    def _fields(self) -> dict[str, pl.DataType]:
        """Fields as Python writes a dictionary."""
        found: dict[str, pl.DataType] = {}
        self._skip("{")
        while not self._has("}"):
            if found:
                self._skip(", ")
            name = self._match(_QUOTED)[0]
            self._skip(": ")
            found[ast.literal_eval(name)] = self.dtype()
        return found

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self.unknown
        self.at = found.end()
        return found

    def _has(self, text: str) -> bool:
        if not self.text.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def _skip(self, text: str) -> None:
        if not self._has(text):
            raise self.unknown
