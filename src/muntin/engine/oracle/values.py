"""What an aggregate comes to, computed from all messages of a window."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import reduce
from typing import Any

from muntin.engine.oracle.window import Placed
from muntin.model.aggregates import Aggregate

_LONG_LEAST, _LONG_GREATEST = -(2**63), 2**63 - 1
# Enough to add, multiply and divide decimals of 38 without rounding anything away.
_DIGITS = 120


def value(agg: Aggregate, messages: Sequence[Placed]) -> Any:
    """The value of an aggregate; where it goes by time, the rows axis has positions instead."""
    if agg.kind == "count" and agg.column is None:
        return len(messages)
    if agg.kind in ("first", "last"):
        return _at_the_end(agg, [(m.position, m.message[agg.column]) for m in messages])
    if agg.kind in ("arg_min", "arg_max"):
        rows = [(m.message[agg.by], m.message[agg.column]) for m in messages]
        return _at_the_end(agg, [(by, value) for by, value in rows if by is not None])
    if agg.kind == "apply":
        return _applied(agg, messages)
    in_order = sorted(messages, key=lambda placed: placed.position)
    if agg.kind == "collect_list":
        return _collected(agg, in_order)
    values = [m.message[agg.column] for m in in_order if m.message[agg.column] is not None]
    if agg.kind in _OF_NOTHING_TOO:
        return _OF_NOTHING_TOO[agg.kind](values, agg)
    return _VALUES[agg.kind](values, agg) if values else None


def overflows(value: Any) -> bool:
    """Whether a whole number has left 64 bits."""
    return type(value) is int and not _LONG_LEAST <= value <= _LONG_GREATEST


def _at_the_end(agg: Aggregate, rows: list[tuple[Any, Any]]) -> Any:
    """The value where the other column is least or greatest; of several, the least or greatest."""
    if not rows:
        return None
    pick: Callable[..., Any] = min if agg.kind in ("first", "arg_min") else max
    best = pick(_rank(at) for at, _ in rows)
    tied = [value for at, value in rows if _rank(at) == best and value is not None]
    return pick(tied, key=_rank) if tied else None


def _applied(agg: Aggregate, messages: Sequence[Placed]) -> Any:
    """The user's function over the rows by time; of one time, the least row first, nulls last."""
    assert agg.rows is not None
    columns = agg.rows.columns
    rows = [(m.position, {column: m.message[column] for column in columns}) for m in messages]
    rows.sort(key=lambda row: (row[0], [_rank_of_any(row[1][column]) for column in columns]))
    return agg.rows.function([row for _, row in rows])


def _collected(agg: Aggregate, messages: Sequence[Placed]) -> list[Any]:
    rows = [(m.position, m.message[agg.column]) for m in messages]
    known = [(position, value) for position, value in rows if value is not None]
    return [value for _, value in sorted(known, key=lambda row: (row[0], _rank(row[1])))]


def _rank(value: Any) -> tuple[bool, Any]:
    """Orders values as Spark does: NaN equals itself and is greater than every number.

    Of arrays the first element that differs decides, of structs the first field; a null among
    them is less than every value.
    """
    if isinstance(value, list):
        return (False, tuple(_rank_inside(one) for one in value))
    if isinstance(value, dict):
        return (False, tuple((_rank(name), _rank_inside(one)) for name, one in value.items()))
    return (True, 0) if _is_nan(value) else (False, value)


def _rank_inside(value: Any) -> tuple[bool, Any]:
    return (False, 0) if value is None else (True, _rank(value))


def _rank_of_any(value: Any) -> tuple[bool, Any]:
    """Orders values and nulls, the nulls last."""
    return (True, 0) if value is None else (False, _rank(value))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _numbers(values: list[Any]) -> list[Any]:
    """In ascending order, without NaN."""
    return sorted((value for value in values if not _is_nan(value)), key=_rank)


def _sum(values: list[Any], agg: Aggregate) -> Any:
    with localcontext(prec=_DIGITS):
        return sum(values)


def _mean(values: list[Any], agg: Aggregate) -> Any:
    if not isinstance(values[0], Decimal):
        return sum(values) / len(values)
    # Spark divides to 39 digits behind the point, and then rounds to four more than there were.
    with localcontext(prec=_DIGITS, rounding=ROUND_HALF_UP):
        scale = min(38, 4 - int(values[0].as_tuple().exponent))
        mean = sum(values) / len(values)
        return mean.quantize(Decimal(1).scaleb(-39)).quantize(Decimal(1).scaleb(-scale))


def _variance(values: list[Any], agg: Aggregate) -> float | None:
    if len(values) < 2:
        return None
    values = [float(value) if isinstance(value, Decimal) else value for value in values]
    mean = sum(values) / len(values)
    squares: float = sum((value - mean) * (value - mean) for value in values)
    return squares / (len(values) - 1)


def _stddev(values: list[Any], agg: Aggregate) -> float | None:
    variance = _variance(values, agg)
    return None if variance is None else math.sqrt(variance)


def _quantile(values: list[Any], agg: Aggregate) -> Any:
    numbers = _numbers(values)
    place = max(1, math.ceil(agg.option("q") * len(numbers)))
    return numbers[place - 1] if numbers else None


def _median(values: list[Any], agg: Aggregate) -> float | None:
    numbers = [float(number) for number in _numbers(values)]
    if not numbers:
        return None
    half = len(numbers) // 2
    if len(numbers) % 2:
        return numbers[half]
    return (numbers[half - 1] + numbers[half]) / 2


def _top(values: list[Any], agg: Aggregate) -> list[Any]:
    return _numbers(values)[::-1][: agg.option("k")]


def _distinct(values: list[Any], agg: Aggregate) -> list[Any]:
    """One of each; NaN is one value."""
    return [value for _, value in sorted({_rank(value): value for value in values}.items())]


def _fold(values: Iterable[Any], agg: Aggregate) -> Any:
    assert agg.functions is not None
    lifted = [agg.functions.aggregator(agg.functions.initializer(), value) for value in values]
    return agg.functions.finisher(reduce(agg.functions.merger, lifted))


_OF_NOTHING_TOO: dict[str, Callable[[list[Any], Aggregate], Any]] = {
    "count": lambda values, _: len(values),
    "count_if": lambda values, _: values.count(True),
    "approx_distinct": lambda values, _: len({_rank(value) for value in values}),
    "distinct": _distinct,
    "top_k": _top,
}
_VALUES: dict[str, Callable[[list[Any], Aggregate], Any]] = {
    "sum": _sum,
    "min": lambda values, _: min(values, key=_rank),
    "max": lambda values, _: max(values, key=_rank),
    "mean": _mean,
    "variance": _variance,
    "stddev": _stddev,
    "quantile": lambda values, agg: _quantile([float(value) for value in values], agg),
    "exact_quantile": _quantile,
    "median": _median,
    "bool_and": lambda values, _: all(values),
    "bool_or": lambda values, _: any(values),
    "user": _fold,
}
