"""Every column type: its names in Spark and Polars, and test values.

``usual`` values include nulls, empty values and repetitions. Each of ``extremes`` is a group of its
own, since sums over it may overflow.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import polars as pl

from muntin.model import aggregates as mt
from muntin.model.aggregates import Aggregate

NAN, INF = math.nan, math.inf
UTC = dt.UTC


@dataclass(frozen=True)
class Typed:
    """A type with its test values.

    Attributes:
        name: Name of the type in tests.
        spark: Type in Spark's DDL.
        polars: Type in the engine.
        usual: Values of one group.
        extremes: Values of further groups.
    """

    name: str
    spark: str
    polars: pl.DataType
    usual: list[Any]
    extremes: list[list[Any]] = field(default_factory=list)

    @property
    def groups(self) -> dict[str, list[Any]]:
        """The values by key; one key has only nulls."""
        more = {f"x{i}": values for i, values in enumerate(self.extremes)}
        return {"usual": self.usual, "nulls": [None, None], "one": [self.usual[0]], **more}


def _integer(name: str, bits: int, dtype: pl.DataType) -> Typed:
    least, greatest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    extremes = [[greatest, greatest, None], [least, least], [greatest, -greatest]]
    return Typed(name, name, dtype, [3, None, -2, 0, 3, 7, -2], extremes)


def _float(name: str, dtype: pl.DataType, greatest: float) -> Typed:
    usual = [1.5, None, -2.25, 0.0, -0.0, 1.5, 8.0]
    extremes = [[NAN, 1.5, None], [greatest], [-greatest, -0.0], [INF, 1.0], [NAN], [-0.0, 0.0]]
    return Typed(name, name, dtype, usual, extremes)


def _decimal(precision: int, scale: int) -> Typed:
    def of(unscaled: int) -> Decimal:
        return Decimal(unscaled).scaleb(-scale, context=_WIDE)

    text = f"decimal({precision},{scale})"
    most = 10**precision - 1
    usual = [of(150), None, of(-33), of(0), of(150), of(1), of(10 ** (precision - 5) + 7)]
    extremes = [[of(most)] * 3, [of(-most), of(-most), of(1)], [of(most), of(-most), of(1)]]
    return Typed(text, text, pl.Decimal(precision, scale), usual, extremes)


_WIDE = Context(prec=100)
_AT = dt.datetime(2026, 1, 1, 12, 30, 0, 123456)
_LEAST, _GREATEST = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
_POINT = pl.Struct({"a": pl.Int64(), "b": pl.String()})


def _points(*pairs: tuple[Any, Any] | None) -> list[Any]:
    return [None if pair is None else {"a": pair[0], "b": pair[1]} for pair in pairs]


TYPES = [
    Typed("boolean", "boolean", pl.Boolean(), [True, None, False, True], [[False], [True, None]]),
    _integer("tinyint", 8, pl.Int8()),
    _integer("smallint", 16, pl.Int16()),
    _integer("int", 32, pl.Int32()),
    _integer("bigint", 64, pl.Int64()),
    _float("float", pl.Float32(), 3.4028234663852886e38),
    _float("double", pl.Float64(), 1.7976931348623157e308),
    _decimal(10, 2),
    _decimal(38, 18),
    _decimal(38, 36),
    Typed(
        "string", "string", pl.String(), ["b", None, "", "é", "b", "a\0b", "\U0001f600"],
        [["", ""], ["z" * 1000, "z" * 1001]],
    ),
    Typed(
        "binary", "binary", pl.Binary(), [b"b", None, b"", b"\xff\0", b"b", b"\x80"],
        [[b"", b""], [b"\0" * 1000, b"\0" * 1001]],
    ),
    Typed(
        "date", "date", pl.Date(), [dt.date(2026, 1, 1), None, dt.date(1969, 12, 31)] * 2,
        [[dt.date(1, 1, 1), dt.date(9999, 12, 31)]],
    ),
    Typed(
        "timestamp", "timestamp", pl.Datetime("us", "UTC"),
        [_AT.replace(tzinfo=UTC), None, dt.datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC)] * 2,
        [[_LEAST.replace(tzinfo=UTC), _GREATEST.replace(tzinfo=UTC)]],
    ),
    Typed(
        "timestamp_ntz", "timestamp_ntz", pl.Datetime("us"),
        [_AT, None, dt.datetime(1969, 12, 31, 23, 59, 59, 1)] * 2, [[_LEAST, _GREATEST]],
    ),
    Typed(
        "interval", "interval day to second", pl.Duration("us"),
        [dt.timedelta(1, 2, 3), None, dt.timedelta(-1), dt.timedelta(0), dt.timedelta(1, 2, 3)],
        [[dt.timedelta(microseconds=1), dt.timedelta(microseconds=-1)]],
    ),
    Typed(
        "array", "array<bigint>", pl.List(pl.Int64()),
        [[1, 2], None, [], [1], [None, 5], [1, 2], [None], [3]], [[[]], [[None], []]],
    ),
    Typed(
        "array of doubles", "array<double>", pl.List(pl.Float64()),
        [[1.5, NAN], None, [], [1.5], [NAN], [None, 5.0], [-0.0]], [[[0.0], [-0.0]], [[INF]]],
    ),
    Typed(
        "struct", "struct<a: bigint, b: string>", _POINT,
        _points((1, "x"), None, (1, None), (None, "z"), (1, "x"), (None, None), (-1, "")),
        [_points((None, None)), _points((2**63 - 1, ""), (-(2**63), ""))],
    ),
    Typed(
        "map", "map<string, bigint>", pl.Map(pl.String(), pl.Int64()),
        [{"a": 1, "b": 2}, None, {}, {"a": None}, {"a": 1, "b": 2}], [[{}], [{"a": 1}, {"b": 0}]],
    ),
    Typed(
        "array of structs", "array<struct<a: bigint, b: string>>", pl.List(_POINT),
        [
            _points((1, "x"), (2, None)), None, [], _points(None), _points((None, None)),
            _points((1, "x")), _points((1, "x"), (2, None)),
        ],
        [[[]]],
    ),
    Typed(
        "struct of arrays", "struct<a: array<double>, d: decimal(10,2)>",
        pl.Struct({"a": pl.List(pl.Float64()), "d": pl.Decimal(10, 2)}),
        [
            {"a": [1.5, NAN], "d": Decimal("1.50")}, None, {"a": [], "d": None},
            {"a": None, "d": Decimal("-1.00")}, {"a": [1.5], "d": None},
        ],
    ),
    Typed(
        "map of arrays", "map<string, array<int>>", pl.Map(pl.String(), pl.List(pl.Int32())),
        [{"a": [1, None]}, None, {}, {"a": None}, {"a": []}],
    ),
    Typed(
        "array of maps", "array<map<string, bigint>>", pl.List(pl.Map(pl.String(), pl.Int64())),
        [[{"a": 1}], None, [], [{}], [None], [{"a": None}, {"b": 1}]],
    ),
]  # fmt: skip

COUNTED = mt.aggregate(
    "v",
    initializer=lambda: 0,
    aggregator=lambda state, _: state + 1,
    merger=lambda one, other: one + other,
    state_type="long",
)
AGGREGATES: dict[str, Aggregate] = {
    "count": mt.count("v"),
    "count_if": mt.count_if("v"),
    "sum": mt.sum("v"),
    "min": mt.min("v"),
    "max": mt.max("v"),
    "mean": mt.mean("v"),
    "variance": mt.variance("v"),
    "stddev": mt.stddev("v"),
    "first": mt.first("v"),
    "last": mt.last("v"),
    "arg_min": mt.arg_min("v", "w"),
    "arg_max": mt.arg_max("v", "w"),
    "arg_min_by": mt.arg_min("w", "v"),
    "arg_max_by": mt.arg_max("w", "v"),
    "bool_and": mt.bool_and("v"),
    "bool_or": mt.bool_or("v"),
    "approx_distinct": mt.approx_distinct("v"),
    "quantile": mt.quantile("v", 0.5),
    "median": mt.median("v"),
    "exact_quantile": mt.exact_quantile("v", 0.5),
    "top_k": mt.top_k("v", 3),
    "collect_list": mt.collect_list("v"),
    "last_values": mt.last_values("v"),
    "distinct": mt.distinct("v"),
    "mode": mt.mode("v"),
    "count_distinct": mt.count_distinct("v"),
    "sum_distinct": mt.sum_distinct("v"),
    "user": COUNTED,
    "apply": mt.apply(len, "v", result_type="long"),
}

# Each aggregate in Spark SQL; those of ranks ignore NaN, as in the model.
SPARK = {
    "count": "count({v})",
    "count_if": "count_if({v})",
    "sum": "try_sum({v})",
    "min": "min({v})",
    "max": "max({v})",
    "mean": "try_avg({v})",
    "variance": "var_samp({v})",
    "stddev": "stddev_samp({v})",
    "first": "min(struct(t, {v} IS NULL, {v} AS v)).v",
    "last": "max(struct(t, {v} IS NOT NULL, {v} AS v)).v",
    "arg_min": "(min(struct(w, {v} IS NULL, {v} AS v)) FILTER (WHERE w IS NOT NULL)).v",
    "arg_max": "(max(struct(w, {v} IS NOT NULL, {v} AS v)) FILTER (WHERE w IS NOT NULL)).v",
    "arg_min_by": "(min(struct({v}, w IS NULL, w)) FILTER (WHERE {v} IS NOT NULL)).w",
    "arg_max_by": "(max(struct({v}, w IS NOT NULL, w)) FILTER (WHERE {v} IS NOT NULL)).w",
    "bool_and": "bool_and({v})",
    "bool_or": "bool_or({v})",
    "approx_distinct": "count(DISTINCT {v})",
    "quantile": "percentile_disc(0.5) WITHIN GROUP (ORDER BY CAST({v} AS double)) {number}",
    "median": "median({v}) {number}",
    "exact_quantile": "get(sort_array(collect_list({v}) {number}), "
    "CAST(ceil(0.5 * count({v}) {number}) AS int) - 1)",
    "top_k": "slice(sort_array(collect_list({v}) {number}, false), 1, 3)",
    "collect_list": "transform(sort_array(collect_list(struct(t, {v} AS v)) "
    "FILTER (WHERE {v} IS NOT NULL)), x -> x.v)",
    "last_values": "transform(array(struct(sort_array(collect_list(struct(t, {v} AS v)) "
    "FILTER (WHERE {v} IS NOT NULL)) AS vs, max(t) AS latest)), "
    "g -> transform(filter(g.vs, x -> x.t = g.latest), x -> x.v))[0]",
    "distinct": "sort_array(collect_list(DISTINCT {v}))",
    "mode": "mode({v}, true)",
    "count_distinct": "count(DISTINCT {v})",
    "sum_distinct": "try_sum(DISTINCT {v})",
}
# Spark has no order of maps, so it can't choose one of several.
UNORDERED = ("first", "last", "arg_min", "arg_max", "collect_list", "last_values")
SQL = {
    **{
        kind: f"{aggregate.entry.sql.names[0]}({{v}})"
        for kind, aggregate in AGGREGATES.items()
        if aggregate.entry.sql.names
    },
    "arg_min": "MIN_BY({v}, w)",
    "arg_max": "MAX_BY({v}, w)",
    "arg_min_by": "MIN_BY(w, {v})",
    "arg_max_by": "MAX_BY(w, {v})",
    "quantile": "QUANTILE({v}, 0.5)",
    "exact_quantile": "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY {v})",
    "top_k": "TOP_K({v}, 3)",
    "count_distinct": "COUNT(DISTINCT {v})",
    "sum_distinct": "SUM(DISTINCT {v})",
}

# The number of digits by which the result of an aggregate exceeds a decimal.
GROWS = {"sum": 10, "sum_distinct": 10}


def apply_to(agg: Aggregate, column: str) -> Aggregate:
    """Return the same aggregate of another column."""
    renamed = {part: column for part in ("column", "by") if getattr(agg, part) == "v"}
    rows = agg.rows and replace(agg.rows, columns=(column,))
    return replace(agg, rows=rows, **renamed)


def fit_mean(value: Decimal, dtype: pl.Decimal) -> Decimal | None:
    """Return a mean rounded to its type; at 38 digits, the scale shrinks."""
    precision = min(38, dtype.precision + 4)
    scale = min(dtype.scale + 4, precision - min(dtype.precision - dtype.scale, 16))
    fitted = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, Context(prec=120))
    return fitted if len(fitted.as_tuple().digits) <= precision else None


_NUMBERS = ("sum", "mean", "variance", "stddev", "quantile", "median", "sum_distinct")
_TRUTHS = ("count_if", "bool_and", "bool_or")
_ORDERED = (
    "min", "max", "arg_min_by", "arg_max_by", "approx_distinct", "exact_quantile", "top_k",
    "distinct", "mode", "count_distinct",
)  # fmt: skip


def list_unsupported_aggregates(typed: Typed) -> set[str]:
    """Return the aggregates that a type doesn't support, independently of the code's table."""
    names: set[str] = set()
    if not typed.name.startswith(
        ("tinyint", "smallint", "int", "bigint", "float", "double", "dec")
    ):
        names.update(_NUMBERS)
    if typed.name == "interval":
        names.update(_NUMBERS)
    if typed.name != "boolean":
        names.update(_TRUTHS)
    if "map" in typed.spark:
        names.update(_ORDERED)
    return names


def messages(typed: Typed, moment: Callable[[int], Any]) -> list[dict[str, Any]]:
    """Return messages of every group of values; some share a time, and some lack ``w``."""
    return [
        {"k": key, "t": moment(7 * (i // 2)), "v": value, "w": None if i % 5 == 4 else i // 3}
        for key, values in typed.groups.items()
        for i, value in enumerate(values)
    ]
