"""Builds queries that emit a row for each message, on Spark."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from muntin.engine.columns import EMISSION, REVISION, WINDOW_END, WINDOW_START
from muntin.model.pipeline import NUMBER, PLACE, ROW, ROWS, Column, quote_name
from muntin.model.rolling import add_messages, message_columns
from muntin.model.spec import WindowSpec
from muntin.spark.sinks.selected import EachShape, SelectedAggregate
from muntin.spark.sources.inputs import Input
from muntin.spark.window_plan import build


def build_rolling_rows(
    given: Input,
    keys: tuple[SparkColumn | str, ...],
    spec: WindowSpec,
    shards: int | None = None,
) -> SelectedAggregate:
    """Build a query that emits each message as a row.

    Args:
        given: The input.
        keys: Key columns, by name or as expressions.
        spec: The query, without keys and columns, which are added here.
        shards: The number of shards; `None` is one for each core.

    Raises:
        OptionError: When a column, a type or a policy can't work; the error names it.
    """
    names = message_columns(spec, given.frame.columns, chained=given.fed is not None)
    bare = [key for key in keys if isinstance(key, str)]
    names = [name for name in names if name not in bare]
    fields = [F.col(quote_name(name)) for name in names] or [F.lit(0).alias("__muntin_none")]
    spec = replace(spec, aggregates=add_messages(spec, F.struct(*fields)))
    plan = build(given, keys, spec, shards)
    own = plan.keys or ()
    whole = (*own, WINDOW_START, WINDOW_END)
    computed = [name for name in spec.aggregates if name != ROWS]
    shown = [
        *(Column(name, quote_name(name)) for name in whole),
        *(Column(name, f"{ROW}.{quote_name(name)}") for name in names if name not in own),
        *(Column(name, quote_name(name)) for name in (*computed, EMISSION, REVISION)),
        Column(NUMBER, f"{PLACE} + 1"),
    ]
    return SelectedAggregate(plan, EachShape(tuple(shown), None, (*own, NUMBER)))
