"""Complete windows and joins on Spark: to be looked at, explained or started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from muntin.engine.operator import REJECTED, RESULTS
from muntin.hosts.definition import Definition, StartOptions
from muntin.model.errors import OptionError
from muntin.model.pipeline import Order, SortOrder
from muntin.spark.host.chain import SparkUpstream, mark_results
from muntin.spark.host.internals.plans import remember
from muntin.spark.host.plan import Plan
from muntin.spark.sinks.selected import AnyShape, wrap_sink

if TYPE_CHECKING:
    from muntin.spark.query import WindowedQuery


class QueryDefinition(Definition[Plan, "WindowedQuery"]):
    """A complete query on Spark, with a select list over its results if it has a shape."""

    def __init__(self, plan: Plan, shape: AnyShape | None = None) -> None:
        super().__init__(plan)
        self.shape = shape
        self._order: Order | None = None

    def _columns(self) -> list[tuple[str, str]]:
        return [(f.name, f.dataType.simpleString()) for f in self.results.schema.fields]

    @cached_property
    def results(self) -> DataFrame:
        """The results as a DataFrame."""
        rows = self._select_rows()
        if self._order is not None:
            return _apply_order(rows, self._order)
        return self._hint_at_start(mark_results(rows, self._upstream()))

    def sort_results(self, order: Order) -> None:
        """Sort the results of a batch DataFrame, and limit their number if the order does.

        Raises:
            OptionError: When the input is a stream, whose results can't be sorted.
        """
        self._require_finite()
        self._order = order
        self.__dict__.pop("results", None)
        _ = self.results.schema  # Have Spark check the order now, not when the results are read.

    def _upstream(self) -> SparkUpstream:
        """Return the query as an upstream operator of another one."""
        upstream = SparkUpstream(self.plan.feeding())
        return upstream if self.shape is None else upstream.then(self.shape)

    def _select_rows(self) -> DataFrame:
        rows = self.plan.unpack_kind(RESULTS)
        return rows if self.shape is None else self.shape.of_frame(rows)

    @cached_property
    def rejected(self) -> DataFrame:
        """The rejected messages, unchanged, with ``reason`` and ``watermark``.

        Reasons: ``late``, ``future`` (beyond ``max_ahead``), ``null_key``, ``null_time``,
        ``malformed`` (can't be parsed). For windows also ``overflow``, whose row isn't a message,
        but the key and start of a window whose integer sum exceeded 64 bits. A join adds ``side``,
        and a right column whose type differs from that of the left one has the suffix.
        """
        return self._hint_at_start(self.plan.unpack_kind(REJECTED))

    def _hint_at_start(self, frame: DataFrame) -> DataFrame:
        return hint_at_start(frame) if self.plan.reads_streams else frame

    def _start(self, options: StartOptions) -> WindowedQuery:
        from muntin.spark.starting import start_spark_query

        if self.shape is not None:
            sink = wrap_sink(options.results, self.shape, self.results.schema)
            options = replace(options, results=sink)
        return start_spark_query(self.plan, options)


_ACTIONS = (
    "show", "collect", "toPandas", "toArrow", "count", "take", "head", "first", "tail", "isEmpty",
    "toLocalIterator",
)  # fmt: skip
# Methods that return another DataFrame of the stream, or groups of its rows.
_TRANSFORMATIONS = (
    "where", "filter", "select", "selectExpr", "withColumn", "withColumns", "withColumnRenamed",
    "drop", "orderBy", "sort", "limit", "distinct", "dropDuplicates", "groupBy", "agg", "alias",
    "join", "union", "unionByName", "fillna", "dropna", "toDF",
)  # fmt: skip
_SUMMARIES = ("agg", "count", "sum", "avg", "mean", "min", "max")


def hint_at_start(frame: DataFrame) -> DataFrame:
    """Let the actions of a stream's DataFrame, and of those made of it, say how to start it.

    Spark refuses them, too, in words about `writeStream`.
    """
    for name in _ACTIONS:
        remember(frame, name, partial(_refuse_action, name))
    for name in _TRANSFORMATIONS:
        remember(frame, name, partial(_transform, getattr(frame, name)))
    return frame


def _transform(method: Callable[..., Any], *args: object, **options: object) -> Any:
    result = method(*args, **options)
    if isinstance(result, DataFrame):
        return hint_at_start(result)
    for name in _SUMMARIES:
        vars(result)[name] = partial(_transform, getattr(result, name))
    return result


def _refuse_action(name: str, *_: object, **__: object) -> NoReturn:
    hint = (
        'write .start(checkpoint="checkpoints/views", results=muntin.to_print()), or '
        "results=muntin.to_memory() and query.frame()"
    )
    raise OptionError("results", f".{name}()", "needs all rows, and a stream has no end", hint)


def _apply_order(frame: DataFrame, order: Order) -> DataFrame:
    """Return the rows of a batch DataFrame in an order, up to its limit."""
    frame = frame.orderBy(*map(_sort_expression, order.by)) if order.by else frame
    return frame if order.limit is None else frame.limit(order.limit)


def _sort_expression(one: SortOrder) -> Column:
    way = {
        (False, None): Column.asc,
        (False, "first"): Column.asc_nulls_first,
        (False, "last"): Column.asc_nulls_last,
        (True, None): Column.desc,
        (True, "first"): Column.desc_nulls_first,
        (True, "last"): Column.desc_nulls_last,
    }
    return way[one.descends, one.nulls](F.expr(one.text))
