"""Plans queries that emit rows of windows: each message, or the first ones in an order."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from muntin.engine.columns import EMISSION, REVISION, WINDOW_END, WINDOW_START
from muntin.hosts.ranking import (
    Ascending,
    Names,
    check_bounds,
    check_column_names,
    rank_first,
)
from muntin.model.pipeline import FIRST, LAST, NUMBER, ROW, ROW_INDEX, ROWS, Ranking, quote_name
from muntin.model.pipeline import Column as Selected
from muntin.model.ranking import (
    make_windows_by_end,
    order_by_arrival,
    refuse_delayed,
    refuse_unrankable,
)
from muntin.model.rolling import add_messages, message_columns
from muntin.model.spec import WindowSpec
from muntin.spark.host.chain import find_upstream
from muntin.spark.host.plan import Plan
from muntin.spark.session import require
from muntin.spark.sinks.ranked import RankedShape, rows_of
from muntin.spark.sinks.selected import EachShape, PlainShape
from muntin.spark.sources.inputs import Input
from muntin.spark.window_plan import build_windows


def build_rolling_rows(
    input_: Input,
    keys: tuple[Column | str, ...],
    spec: WindowSpec,
    shards: int | None = None,
) -> tuple[Plan, EachShape]:
    """Plan a query that emits each message as a row; see `build_windows`."""
    names = message_columns(spec, input_.frame.columns, chained=input_.upstream is not None)
    bare = [key for key in keys if isinstance(key, str)]
    names = [name for name in names if name not in bare]
    fields = [F.col(quote_name(name)) for name in names] or [F.lit(0).alias("__muntin_none")]
    spec = replace(spec, aggregates=add_messages(spec, F.struct(*fields)))
    plan = build_windows(input_, keys, spec, shards)
    own = plan.keys or ()
    whole = (*own, WINDOW_START, WINDOW_END)
    computed = [name for name in spec.aggregates if name != ROWS]
    shown = [
        *(Selected(name, quote_name(name)) for name in whole),
        *(Selected(name, f"{ROW}.{quote_name(name)}") for name in names if name not in own),
        *(Selected(name, quote_name(name)) for name in (*computed, EMISSION, REVISION)),
        Selected(NUMBER, f"{ROW_INDEX} + 1"),
    ]
    return plan, EachShape(tuple(shown), None, (*own, NUMBER))


def build_plain_rows(
    input_: Input,
    spec: WindowSpec,
    columns: tuple[Selected, ...] | None,
    shards: int | None = None,
) -> tuple[Plan, PlainShape]:
    """Plan a query without windows: each message is a row with the selected columns."""
    row = F.struct(*(F.col(quote_name(name)) for name in input_.frame.columns))
    spec = replace(spec, aggregates=add_messages(spec, row))
    return build_windows(input_, (), spec, shards), PlainShape(columns)


def top_messages(
    input_: Input,
    keys: tuple[Column | str, ...],
    spec: WindowSpec,
    n: int,
    by: Names,
    up: Ascending,
) -> tuple[Plan, RankedShape]:
    """Plan a query for the first messages of each window, with a spec without aggregates."""
    require(input_.frame.sparkSession)
    ranking = order_by_arrival(rank_first(n, by, up, input_.frame.columns, chained=False), spec)
    refuse_unrankable(spec)
    return _select_rows(input_, keys, spec, ranking)


def top_windows(
    frame: DataFrame, n: int, by: Names, per: Names, up: Ascending
) -> tuple[Plan, RankedShape]:
    """Plan a query for the first of the windows that have the same bounds."""
    check_bounds(n, frame.columns)
    ranking = rank_first(n, by, up, frame.columns, chained=True)
    bounds = F.col(WINDOW_START).alias(FIRST), F.col(WINDOW_END).alias(LAST)
    keys: tuple[Column | str, ...] = (*bounds, *check_column_names("per", per, frame.columns))
    upstream = find_upstream(frame)
    refuse_delayed(None if upstream is None else upstream.plan.spec)
    input_ = Input(frame, WINDOW_END, upstream=upstream)
    return _select_rows(input_, keys, make_windows_by_end(WINDOW_END), ranking)


def _select_rows(
    input_: Input, keys: tuple[Column | str, ...], spec: WindowSpec, ranking: Ranking
) -> tuple[Plan, RankedShape]:
    aggregates = {ROWS: rows_of(input_.frame, ranking)}
    plan = build_windows(input_, keys, replace(spec, aggregates=aggregates))
    return plan, RankedShape.of(ranking, plan.keys or ())
