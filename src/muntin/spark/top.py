"""Builds queries for the first rows of each window, which an aggregate collects and emits."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from muntin.engine.columns import WINDOW_END, WINDOW_START
from muntin.hosts.ranking import RANK, Ascending, Names, check_bounds, check_names, check_order
from muntin.model.pipeline import FIRST, LAST, ROWS, Ranking, quoted
from muntin.model.ranking import moments, refuse
from muntin.model.spec import WindowSpec
from muntin.spark.host.chain import fed_by
from muntin.spark.session import require
from muntin.spark.sinks.ranked import RankedShape, rows_of
from muntin.spark.sinks.selected import SelectedAggregate
from muntin.spark.sources.inputs import Input
from muntin.spark.window_plan import build


def top_messages(
    given: Input, keys: tuple[Column | str, ...], spec: WindowSpec, n: int, by: Names, up: Ascending
) -> SelectedAggregate:
    """Build a query for the first messages of each window, with a spec without aggregates."""
    require(given.frame.sparkSession)
    ranking = _rank(given.frame, n, by, up, chained=False)
    refuse(spec)
    return _select_rows(given, keys, spec, ranking)


def top_windows(
    frame: DataFrame, n: int, by: Names, per: Names, up: Ascending
) -> SelectedAggregate:
    """Build a query for the first of the windows that have the same bounds."""
    check_bounds(n, frame.columns)
    ranking = _rank(frame, n, by, up, chained=True)
    bounds = F.col(WINDOW_START).alias(FIRST), F.col(WINDOW_END).alias(LAST)
    keys: tuple[Column | str, ...] = (*bounds, *check_names("per", per, frame.columns))
    given = Input(frame, WINDOW_END, fed=fed_by(frame))
    return _select_rows(given, keys, moments(WINDOW_END), ranking)


def _rank(frame: DataFrame, n: int, by: Names, up: Ascending, *, chained: bool) -> Ranking:
    names, directions = check_order(by, up, frame.columns)
    return Ranking(RANK, tuple(map(quoted, names)), directions, n, (), chained)


def _select_rows(
    given: Input, keys: tuple[Column | str, ...], spec: WindowSpec, ranking: Ranking
) -> SelectedAggregate:
    aggregates = {ROWS: rows_of(given.frame, ranking)}
    plan = build(given, keys, replace(spec, aggregates=aggregates))
    return SelectedAggregate(plan, RankedShape.of(ranking, plan.keys or ()))
