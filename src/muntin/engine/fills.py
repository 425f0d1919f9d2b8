"""The values of windows without messages, in columns."""

from __future__ import annotations

from typing import Any

import polars as pl

from muntin.engine.aggregates.wide import read_decimals
from muntin.engine.windows.combine import Combiner
from muntin.model.aggregates import Aggregate
from muntin.model.errors import OptionError
from muntin.model.fill import LINEAR, PREVIOUS, Fill, read_constant, write_constant

_WIDE = pl.Int128()


def value_column(index: int) -> str:
    """Return the column of the filled values of the aggregate with an index."""
    return f"__muntin_filled_{index}"


def list_followed(combiner: Combiner) -> list[int]:
    """Return the indexes of the aggregates that are filled with the values of other windows."""
    fill = combiner.spec.firing.fill
    assert isinstance(fill, Fill)
    ways = map(fill.way_of, combiner.spec.aggregates)
    return [index for index, way in enumerate(ways) if way in (PREVIOUS, LINEAR)]


def check_fills(combiner: Combiner) -> None:
    """Refuse constants that don't fit their aggregates, and lines between what isn't a number."""
    fill = combiner.spec.firing.fill
    if fill is None:
        return
    pairs = zip(combiner.algebras, combiner.spec.aggregates.items(), strict=True)
    for algebra, (name, aggregate) in pairs:
        way, dtype = fill.way_of(name), algebra.lower(combiner.no_cells).dtype
        if way == LINEAR and not dtype.is_numeric():
            hint = f'give {name}="previous", or {name}="null"'
            problem = f"has values of type {dtype}, between which there is no line"
            raise OptionError("fill", f"{name}={LINEAR}", problem, hint)
        if way in (PREVIOUS, LINEAR):
            continue
        try:
            make_constants(aggregate, way, dtype, 1)
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
            hint = f'give a value of that type, or {name}="previous" or "null"'
            problem = f"is no value of type {dtype}"
            raise OptionError("fill", f"{name}={write_constant(way)}", problem, hint) from error


def make_constants(aggregate: Aggregate, way: Any, dtype: pl.DataType, length: int) -> pl.Series:
    """Return a column of the value that a word or a constant stands for.

    Raises ``TypeError`` for a constant of another family of types, ``PolarsError`` for one that
    doesn't fit.
    """
    if way in ("zero", "null"):
        filled = pl.Series([aggregate.entry.fill_without_values(way)]).cast(dtype)
        return filled.new_from_index(0, length)
    value = read_constant(way)
    fits = {
        bool: dtype == pl.Boolean,
        int: dtype.is_numeric(),
        float: dtype.is_float() or dtype.is_decimal(),
        str: dtype == pl.String,
        type(None): True,
    }
    if not fits[type(value)]:
        raise TypeError(f"{value!r} isn't of type {dtype}")
    constant = pl.Series([value]).cast(dtype)
    return constant.new_from_index(0, length)


def interpolate(
    left: pl.Series, right: pl.Series, passed: pl.Series, distance: pl.Series
) -> pl.Series:
    """Return values on the lines between two, ``passed`` of the ``distance`` from the left."""
    dtype = left.dtype
    if dtype.is_float():
        low, high = left.cast(pl.Float64), right.cast(pl.Float64)
        return (low + (high - low) * (passed / distance)).cast(dtype)
    if not dtype.is_decimal():
        return _draw_whole_lines(left, right, passed, distance).cast(dtype)
    whole = (values.cast(dtype).to_physical() for values in (left, right))
    return _scale_decimals(_draw_whole_lines(*whole, passed, distance), dtype)


def _draw_whole_lines(*line: pl.Series) -> pl.Series:
    """Return whole numbers, rounded half up.

    Both values are divided by the distance first, so that no product exceeds 128 bits.
    """
    names = ("low", "high", "passed", "distance")
    wide = pl.DataFrame([s.cast(_WIDE).alias(n) for s, n in zip(line, names, strict=True)])
    low, high, passed, distance = map(pl.col, names)
    two = pl.lit(2, _WIDE)
    rest = (high % distance - low % distance) * passed
    rounded = (rest * two + distance) // (distance * two)
    return wide.select(low + (high // distance - low // distance) * passed + rounded).to_series()


def _scale_decimals(unscaled: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Return decimals of a type from their digits as whole numbers."""
    assert isinstance(dtype, pl.Decimal)
    digits = unscaled.cast(pl.Decimal(38, 0)).rechunk().to_arrow()
    return read_decimals(dtype, len(digits), digits.buffers(), digits.offset)
