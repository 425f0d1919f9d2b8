"""Types of columns: their shapes for aggregates, and reading them from a checkpoint's text."""

from __future__ import annotations

import ast
from typing import cast

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
_WIDE_INTEGERS = (pl.UInt64, pl.Int128, pl.UInt128)
_FAMILIES: dict[type[pl.DataType], str] = {
    pl.Boolean: "boolean", pl.Decimal: "decimal", pl.String: "string", pl.Binary: "binary",
    pl.Categorical: "string", pl.Enum: "string", pl.Date: "date", pl.Time: "time",
    pl.Datetime: "timestamp", pl.Duration: "interval", pl.Null: "void",
}  # fmt: skip


def find_shape(dtype: pl.DataType) -> Shape:
    """Return a type as aggregates see it.

    Example:
        >>> sorted(find_shape(pl.List(pl.Map(pl.String(), pl.Int64()))).inside)
        ['integer', 'map', 'string']
    """
    text = str(dtype)
    if isinstance(dtype, pl.List | pl.Array):
        return Shape.make_nested(text, "array", [find_shape(_instantiate(dtype.inner))])
    if isinstance(dtype, pl.Struct):
        return Shape.make_nested(
            text, "struct", [find_shape(_instantiate(f.dtype)) for f in dtype.fields]
        )
    if isinstance(dtype, pl.Map):
        return Shape.make_nested(
            text, "map", [find_shape(_instantiate(d)) for d in (dtype.key, dtype.value)]
        )
    if dtype.is_integer():
        return Shape(text, "integer")
    if dtype.is_float():
        return Shape(text, "float")
    return Shape(text, _FAMILIES.get(type(dtype), "other"))


def fits_in_64_bits(dtype: pl.DataType) -> bool:
    """Return whether a type has integers of which each fits in a signed number of 64 bits.

    Example:
        >>> [fits_in_64_bits(kind()) for kind in (pl.Int64, pl.UInt32, pl.UInt64, pl.Int128)]
        [True, True, False, False]
    """
    return dtype.is_integer() and dtype not in _WIDE_INTEGERS


def comparable_type(dtype: pl.DataType) -> pl.DataType:
    """Return the type in which a key is compared: integers of different width are equal.

    Example:
        >>> comparable_type(pl.UInt8()), comparable_type(pl.UInt64()), comparable_type(pl.Date())
        (Int64, Int128, Date)
    """
    if fits_in_64_bits(dtype):
        return pl.Int64()
    return pl.Int128() if dtype == pl.UInt64 else dtype


def are_comparable(one: pl.DataType, other: pl.DataType) -> bool:
    """Return whether keys of two types can be equal: both have one type, or 64 bits at most.

    Example:
        >>> are_comparable(pl.UInt64(), pl.Int8()), are_comparable(pl.Int128(), pl.Int64())
        (True, False)
    """
    return one == other or all(fits_in_64_bits(kind) or kind == pl.UInt64 for kind in (one, other))


def instant_type(dtype: pl.DataType) -> pl.DataType:
    """Return the type of points in time for messages whose time column has a given type."""
    if dtype.is_integer():
        return pl.Int64()
    return pl.Datetime("us", dtype.time_zone if isinstance(dtype, pl.Datetime) else "UTC")


def _instantiate(dtype: object) -> pl.DataType:
    return cast(pl.DataType, dtype() if isinstance(dtype, type) else dtype)


def dtype_of(text: str) -> pl.DataType:
    """Parse a type from its text.

    Raises:
        ValueError: When the text isn't that of a supported type.

    Example:
        >>> dtype_of("List(Decimal(precision=10, scale=2))")
        List(Decimal(precision=10, scale=2))
        >>> dtype_of("Struct({'a': Map(String, Int64)})")
        Struct({'a': Map(String, Int64)})
    """
    try:
        return _read(ast.parse(text, mode="eval").body)
    except (SyntaxError, TypeError, ValueError) as error:
        raise ValueError(f"no type: {text}") from error


def _read(node: ast.expr | None) -> pl.DataType:
    """Build a type from the Python expression in its text."""
    match node:
        case ast.Name(name) if name in _PLAIN:
            return _PLAIN[name]
        case ast.Call(ast.Name("Datetime" | "Duration" | "Decimal" as name), [], options):
            arguments = {str(option.arg): ast.literal_eval(option.value) for option in options}
            return cast(pl.DataType, getattr(pl, name)(**arguments))
        case ast.Call(ast.Name("List"), [inner], []):
            return pl.List(_read(inner))
        case ast.Call(ast.Name("Map"), [key, value], []):
            return pl.Map(_read(key), _read(value))
        case ast.Call(ast.Name("Struct"), [ast.Dict(names, kinds)], []):
            fields = zip(names, kinds, strict=True)
            return pl.Struct({ast.literal_eval(name or ""): _read(kind) for name, kind in fields})
    raise ValueError("not a type")
