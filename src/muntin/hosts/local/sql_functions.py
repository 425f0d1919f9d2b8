"""The SQL functions that have the same meaning in Polars and in Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from functools import partial

import polars as pl

from muntin.hosts.local.sql_text_functions import TEXT_FUNCTIONS
from muntin.hosts.local.sql_time_functions import TIME_FUNCTIONS
from muntin.hosts.local.sql_values import (
    WIDE,
    Arity,
    Unportable,
    Value,
    choose,
    coalesce,
    compare,
    compute_remainder,
    divide_exactly,
    make_column_value,
    make_condition_value,
    require_condition,
    unify,
)
from muntin.model.aggregates.entry import ENTRIES
from muntin.model.close_names import find_close_name

# Below this number of units there are several doubles for each. From the other on, a double written
# in decimals has no digits behind a unit.
_SHORT, _LONG = 2.0**48, 1e17
# How much a name is like the one that was meant.
_ALIKE = 0.8
# The most decimals that a number is rounded to; their power of ten is exact in a double.
_MOST_DECIMALS = 15


def find_function(name: str) -> Arity:
    """Return the function with a name.

    Raises:
        Unportable: When there is none; it may name the function that was meant.
    """
    entry = FUNCTIONS.get(name.lower())
    if entry is None:
        names = {*FUNCTIONS, *(word.lower() for one in ENTRIES.values() for word in one.sql.names)}
        close = find_close_name(name, names, _ALIKE)
        is_meant = close is not None and close[0] == name[0].lower()
        raise Unportable(f"{name}()" + (f" (did you mean {close}()?)" if is_meant else ""))
    return entry


def call_function(name: str, values: Sequence[Value]) -> Value:
    """Call a function on values.

    Raises:
        Unportable: When the function isn't supported, or not for these values.
    """
    least, most, function = find_function(name)
    if not least <= len(values) <= most:
        raise Unportable(f"{name}() of {len(values)} values")
    return function(values)


def _abs(values: Sequence[Value]) -> Value:
    (value,) = values
    if value.family == "integer":
        return replace(value, expression=value.cast(WIDE).abs(), literal=None)
    if value.family != "float":
        raise Unportable(f"abs() of {value.family}")
    return replace(value, expression=value.expression.abs())


def _read_double(value: Value, name: str) -> pl.Expr:
    if value.dtype != pl.Float64():
        raise Unportable(f"{name}() of {value.dtype}")
    return value.expression


def _round(values: Sequence[Value]) -> Value:
    """Round a number as it is written in decimals: a half goes away from zero."""
    value, *rest = values
    decimals = rest[0].literal if rest else 0
    if not isinstance(decimals, int) or not 0 <= decimals <= _MOST_DECIMALS:
        raise Unportable(f"round() to other than 0 to {_MOST_DECIMALS} decimals")
    if value.family == "integer":
        return replace(value, literal=None)
    number, power = _read_double(value, "round"), 10.0**decimals
    size = number.abs()
    # The product may be off by its last bit. The quotients are the doubles next to the bounds, as
    # they are written in decimals, so that they decide.
    units, divisor = (size * power + 0.5).floor(), pl.lit(power)
    is_less = size < divide_exactly(units - 0.5, divisor)
    units = pl.when(is_less).then(units - 1).otherwise(units)
    is_more = size >= divide_exactly(units + 0.5, divisor)
    units = pl.when(is_more).then(units + 1).otherwise(units)
    rounded = divide_exactly(units, divisor)
    signed = pl.when(number < 0).then(0.0 - rounded).otherwise(rounded)
    is_short, is_long = size * power < _SHORT, size * power < _LONG
    by_digits = pl.when(is_long & ~is_short).then(number).map_batches(
        partial(_round_digits, decimals=decimals), return_dtype=pl.Float64(), is_elementwise=True
    )  # fmt: skip
    chosen = pl.when(is_short).then(signed).when(is_long).then(by_digits).otherwise(number)
    return Value(chosen, pl.Float64(), "float")


def _round_digits(numbers: pl.Series, decimals: int) -> pl.Series:
    """Round the few numbers whose bounds have the same nearest double."""
    if numbers.null_count() == len(numbers):
        return numbers
    last = Decimal(1).scaleb(-decimals)
    values = [
        None if number is None else float(Decimal(repr(number)).quantize(last, ROUND_HALF_UP))
        for number in numbers
    ]
    return pl.Series(numbers.name, values, pl.Float64())


def _round_whole(name: str, *, up: bool) -> Arity:
    """Return a function that rounds up or down to a whole number."""

    def function(values: Sequence[Value]) -> Value:
        (value,) = values
        if value.family == "integer":
            return Value(value.cast(WIDE), pl.Int64(), "integer", value.bits)
        number = _read_double(value, name)
        whole = number.ceil() if up else number.floor()
        # As on Spark, NaN is 0, and what doesn't fit ends the query.
        return make_column_value(whole.fill_nan(0).cast(pl.Int64()), pl.Int64())

    return 1, 1, function


def _sqrt(values: Sequence[Value]) -> Value:
    (value,) = values
    if value.family not in ("integer", "float"):
        raise Unportable(f"sqrt() of {value.family}")
    return Value(value.finish().cast(pl.Float64()).sqrt(), pl.Float64(), "float")


def _remainder(values: Sequence[Value]) -> Value:
    return compute_remainder(*values)


def _positive_remainder(values: Sequence[Value]) -> Value:
    value, divisor = values
    if not isinstance(divisor.literal, int) or divisor.literal < 1:
        raise Unportable("pmod() by other than a whole number from 1")
    rest = compute_remainder(value, divisor)
    positive = pl.when(rest.expression < 0).then(rest.expression + divisor.literal)
    return replace(rest, expression=positive.otherwise(rest.expression))


def _extreme(name: str, *, greatest: bool) -> Arity:
    """Return a function that chooses the greatest or the least value that isn't NULL."""

    def function(values: Sequence[Value]) -> Value:
        unified = unify(name, values)
        if {value.family for value in unified} & {"boolean", "other", "null", "decimal"}:
            raise Unportable(f"{name}() of {unified[0].family}")
        chosen, sign = unified[0].expression, ">" if greatest else "<"
        for value in unified[1:]:
            holds = compare(sign, value, replace(unified[0], expression=chosen)).expression
            better = holds | chosen.is_null()
            chosen = pl.when(better).then(value.expression).otherwise(chosen)
        return replace(unified[0], expression=chosen, literal=None, never_zero=False)

    return 2, 99, function


def _is_null(values: Sequence[Value]) -> Value:
    return make_condition_value(values[0].expression.is_null())


def _is_not_null(values: Sequence[Value]) -> Value:
    return make_condition_value(values[0].expression.is_not_null())


def _is_nan(values: Sequence[Value]) -> Value:
    (value,) = values
    if value.family != "float":
        raise Unportable(f"isnan() of {value.family}")
    return make_condition_value(value.expression.is_nan().fill_null(value=False))


def _if(values: Sequence[Value]) -> Value:
    holds, then, otherwise = values
    return choose([(require_condition("if", holds), then)], otherwise)


def _if_null(values: Sequence[Value]) -> Value:
    tested, then, otherwise = values
    return choose([(tested.expression.is_not_null(), then)], otherwise)


def _nullif(values: Sequence[Value]) -> Value:
    value, other = values
    equal = compare("=", value, other).expression
    chosen = pl.when(equal).then(None).otherwise(value.expression)
    return replace(value, expression=chosen, literal=None, never_zero=other.literal == 0)


def _build_struct(values: Sequence[Value]) -> Value:
    names, fields = values[::2], values[1::2]
    texts = [name.literal for name in names]
    if len(names) != len(fields) or not all(isinstance(text, str) for text in texts):
        raise Unportable("named_struct() of other than names and values")
    shown = [field.finish().alias(str(text)) for text, field in zip(texts, fields, strict=True)]
    kinds = {str(text): field.dtype for text, field in zip(texts, fields, strict=True)}
    return Value(pl.struct(shown), pl.Struct(kinds), "other")


_CEIL = _round_whole("ceil", up=True)

FUNCTIONS: Mapping[str, Arity] = {
    **TEXT_FUNCTIONS,
    **TIME_FUNCTIONS,
    "abs": (1, 1, _abs),
    "ceil": _CEIL,
    "ceiling": _CEIL,
    "coalesce": (1, 99, coalesce),
    "floor": _round_whole("floor", up=False),
    "greatest": _extreme("greatest", greatest=True),
    "if": (3, 3, _if),
    "ifnull": (2, 2, coalesce),
    "isnan": (1, 1, _is_nan),
    "isnotnull": (1, 1, _is_not_null),
    "isnull": (1, 1, _is_null),
    "least": _extreme("least", greatest=False),
    "mod": (2, 2, _remainder),
    "named_struct": (2, 999, _build_struct),
    "nullif": (2, 2, _nullif),
    "nvl": (2, 2, coalesce),
    "nvl2": (3, 3, _if_null),
    "pmod": (2, 2, _positive_remainder),
    "round": (1, 2, _round),
    "sqrt": (1, 1, _sqrt),
}
"""Functions by name, with the smallest and the largest number of their arguments."""
