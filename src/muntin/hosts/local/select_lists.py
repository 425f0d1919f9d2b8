"""Applies select lists to windows and pairs in this process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import polars as pl

from muntin.engine import columns
from muntin.hosts.local.expressions import parse_sql_expression, resolve_condition
from muntin.hosts.local.plan import LocalPlan
from muntin.hosts.pair_columns import PairColumns
from muntin.model.pipeline import SIDE_COLUMNS, Column, JoinRelation, WindowRelation
from muntin.model.spec import WindowSpec

_HOLDS = "__muntin_holds"
_EMISSION = pl.col(columns.EMISSION)
_ALWAYS = (columns.WINDOW_START, columns.WINDOW_END, columns.EMISSION)
MakeRows = Callable[[pl.DataFrame], pl.DataFrame]


def show_windows(plan: LocalPlan, windowing: WindowRelation) -> LocalPlan:
    """Return the plan with the selected columns, and the windows that meet `HAVING`.

    A revision that doesn't meet `HAVING` becomes a retraction, since an earlier one of its window
    may have met it.
    """
    if windowing.columns is None:
        return plan
    has_end = any(one.bare and one.name == columns.WINDOW_END for one in windowing.columns)
    apply = _make_window_select(plan.results, windowing)
    return plan.select(apply, plan.keys, by_window=True, has_end=has_end)


def show_pairs(plan: LocalPlan, joining: JoinRelation, names: PairColumns) -> LocalPlan:
    """Return the plan with the selected pairs and columns."""
    name_columns = _name_pairs(plan.results, names)
    schema = name_columns(pl.DataFrame(schema=plan.results)).schema
    holds = None if joining.where is None else resolve_condition(schema, "WHERE", joining.where)
    shown: list[pl.Expr] | None = None
    if joining.columns is not None:
        shown = [_make_pair_column(schema, one, names) for one in names.select(joining.columns)]
        shown += [pl.col(name) for name in names.emission_columns]

    def apply(results: pl.DataFrame) -> pl.DataFrame:
        rows = name_columns(results)
        rows = rows if holds is None else rows.filter(holds)
        if shown is None:
            return rows.drop(*SIDE_COLUMNS, *names.payloads, strict=False)
        return rows.select(shown)

    return plan.select(apply, plan.keys)


def _make_window_select(schema: pl.Schema, windowing: WindowRelation) -> MakeRows:
    """Return the function that applies a select list to windows."""
    spec, shown = windowing.spec, windowing.columns or ()
    never_zero = _list_never_zero(spec)
    having: pl.Expr | None = None
    if windowing.having is not None:
        having = resolve_condition(schema, "HAVING", windowing.having, never_zero)
    retracted = _EMISSION == "retract"
    alive = pl.col(_HOLDS) if having is not None else None
    if having is None and spec.windows.retracts:
        alive = ~retracted
    identity = (*spec.keys, columns.WINDOW_START, columns.WINDOW_END, columns.REVISION)
    parse = partial(parse_sql_expression, schema, "SELECT", never_zero=never_zero)
    selected = [_make_window_column(one, parse(one.text), alive, identity, having) for one in shown]
    stays = pl.col(_HOLDS) | retracted
    if spec.firing.accumulate:
        stays = stays | (pl.col(columns.REVISION) > 0)

    def apply(results: pl.DataFrame) -> pl.DataFrame:
        if having is not None:
            holds = having.fill_null(False).alias(_HOLDS)
            results = results.with_columns(holds).filter(stays)
        return results.select(selected)

    return apply


def _list_never_zero(spec: WindowSpec) -> frozenset[str]:
    """Return the counts of messages, if no window emits without messages."""
    if spec.firing.fill is not None or not spec.firing.accumulate:
        return frozenset()
    aggregates = spec.aggregates.items()
    return frozenset(
        n for n, one in aggregates if one.kind == "count" and one.column is one.frame is None
    )


def _make_window_column(
    column: Column,
    value: pl.Expr,
    alive: pl.Expr | None,
    identity: tuple[str, ...],
    having: pl.Expr | None,
) -> pl.Expr:
    value = value.alias(column.name)
    if alive is None or (column.bare and column.name in identity):
        return value
    if column.text == columns.EMISSION and having is not None:
        return pl.when(alive).then(_EMISSION).otherwise(pl.lit("retract")).alias(column.name)
    if column.text in _ALWAYS:
        return value
    return pl.when(alive).then(value).alias(column.name)


def _name_pairs(schema: pl.Schema, names: PairColumns) -> MakeRows:
    """Return the function that adds to pairs every name that expressions may use."""
    plain = [
        pl.col(name) if other is None else pl.coalesce(name, other).alias(name)
        for name, other in names.list_unqualified(schema)
    ]
    for side, shown in names.list_sides(schema):
        plain.append(pl.struct(pl.col(two).alias(one) for one, two in shown.items()).alias(side))
    return lambda rows: rows.select(plain)


def _make_pair_column(schema: pl.Schema, column: Column, names: PairColumns) -> pl.Expr:
    value = parse_sql_expression(schema, "SELECT", column.text)
    if names.is_null_in_retractions(column):
        value = pl.when(_EMISSION != "retract").then(value)
    return value.alias(column.name)
