"""Builds queries for the first rows of each window, which an aggregate collects and emits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from muntin.engine.columns import WINDOW_END, WINDOW_START
from muntin.model.errors import OptionError
from muntin.model.pipeline import FIRST, LAST, ROWS, Ranking
from muntin.model.ranking import moments, refuse
from muntin.model.spec import WindowSpec
from muntin.spark.host.chain import fed_by
from muntin.spark.session import require
from muntin.spark.sinks.ranked import RankedShape, ranking_of, rows_of
from muntin.spark.sinks.selected import SelectedAggregate
from muntin.spark.sources.inputs import Input
from muntin.spark.window_plan import build

Names = str | Sequence[str]
Order = bool | Sequence[bool]


def top_messages(
    given: Input, keys: tuple[Column | str, ...], spec: WindowSpec, n: int, by: Names, up: Order
) -> SelectedAggregate:
    """Build a query for the first messages of each window, with a spec without aggregates."""
    require(given.frame.sparkSession)
    ranking = ranking_of(n, _names("by", by, given.frame), up, "rank", chained=False)
    refuse(spec)
    return _shown(given, keys, spec, ranking)


def top_windows(frame: DataFrame, n: int, by: Names, per: Names, up: Order) -> SelectedAggregate:
    """Build a query for the first of the windows that have the same bounds."""
    if not {WINDOW_START, WINDOW_END} <= set(frame.columns):
        raise OptionError("top", n, "needs windows with their bounds", "select them")
    ranking = ranking_of(n, _names("by", by, frame), up, "rank", chained=True)
    bounds = F.col(WINDOW_START).alias(FIRST), F.col(WINDOW_END).alias(LAST)
    keys: tuple[Column | str, ...] = (*bounds, *_names("per", per, frame))
    given = Input(frame, WINDOW_END, fed=fed_by(frame))
    return _shown(given, keys, moments(WINDOW_END), ranking)


def _shown(
    given: Input, keys: tuple[Column | str, ...], spec: WindowSpec, ranking: Ranking
) -> SelectedAggregate:
    aggregates = {ROWS: rows_of(given.frame, ranking)}
    plan = build(given, keys, replace(spec, aggregates=aggregates))
    return SelectedAggregate(plan, RankedShape.of(ranking, plan.keys or ()))


def _names(option: str, given: Names, frame: DataFrame) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not isinstance(name, str) or name not in frame.columns:
            hint = f"give some of {', '.join(frame.columns)}"
            raise OptionError(option, name, "isn't the name of a column", hint)
    return names
