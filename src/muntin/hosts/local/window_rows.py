"""Plans queries that emit rows of windows: each message, or the first ones in an order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.hosts.local.plan import Input, Plan, Upstream
from muntin.hosts.local.window_plan import build_windows
from muntin.hosts.ranking import (
    RANK,
    SORT_KEY,
    WINDOW_BOUNDS,
    Ascending,
    Names,
    check_bounds,
    check_order,
    list_columns,
    ranked_columns,
)
from muntin.model.aggregates import Aggregate, top_k
from muntin.model.pipeline import FIRST, LAST, NUMBER, ROWS
from muntin.model.ranking import moments, refuse
from muntin.model.rolling import add_messages, message_columns
from muntin.model.spec import WindowSpec

_OWN = (columns.EMISSION, columns.REVISION)
# A field for structs of messages that have no column to show, since a struct needs a field.
_NOTHING = pl.lit(0, dtype=pl.Int8).alias("__muntin_none")


def plan_rolling_rows(
    given: Input, keys: tuple[Any, ...], spec: WindowSpec, shards: int | None = None
) -> Plan:
    """Plan a query that emits each message as a row.

    Args:
        given: The input.
        keys: Key columns, by name or as expressions.
        spec: The query, without keys and columns, which are added here.
        shards: The number of shards; `None` is the default.

    Raises:
        OptionError: When a column, a type or a policy can't work; the error names it.
    """
    names = message_columns(spec, list(given.schema), chained=given.fed is not None)
    bare = [key for key in keys if isinstance(key, str)]
    names = [name for name in names if name not in bare]
    row = pl.struct(*map(pl.col, names)) if names else pl.struct(_NOTHING)
    spec = replace(spec, aggregates=add_messages(spec, row))
    plan = build_windows(given, keys, spec, shards)
    own = plan.keys or ()
    selected = [
        *map(pl.col, (*own, *WINDOW_BOUNDS)),
        *_fields(name for name in names if name not in own),
        *map(pl.col, (*(name for name in spec.aggregates if name != ROWS), *_OWN, NUMBER)),
    ]
    return _show_rows(plan, NUMBER, selected, (*own, NUMBER), has_end=True)


def rank_messages(
    given: Input, keys: tuple[Any, ...], spec: WindowSpec, n: int, by: Names, up: Ascending
) -> Plan:
    """Plan a query for the first messages of each window, with a spec without aggregates.

    Raises:
        OptionError: When an option can't work; the error names it.
    """
    refuse(spec)
    ranked = _rank(given.schema, n, by, up, chained=False)
    plan = build_windows(given, keys, replace(spec, aggregates={ROWS: ranked}))
    return _show_ranked(plan, WINDOW_BOUNDS)


def rank_windows(upstream: Upstream, n: int, by: Names, per: Names, up: Ascending) -> Plan:
    """Plan a query for the first of the windows that have the same bounds.

    Raises:
        OptionError: When an option can't work; the error names it.
    """
    schema = upstream.plan.shown
    check_bounds(n, [*schema])
    ranked = _rank(schema, n, by, up, chained=True)
    bounds = pl.col(WINDOW_BOUNDS[0]).alias(FIRST), pl.col(WINDOW_BOUNDS[1]).alias(LAST)
    given = Input(upstream, columns.WINDOW_END)
    keys = (*bounds, *list_columns("per", per, [*schema]))
    spec = replace(moments(columns.WINDOW_END), aggregates={ROWS: ranked})
    return _show_ranked(build_windows(given, keys, spec), (FIRST, LAST))


def _rank(schema: pl.Schema, n: int, by: Names, up: Ascending, *, chained: bool) -> Aggregate:
    """Return the aggregate that collects the first rows of a window."""
    names, directions = check_order(by, up, [*schema])
    shown = ranked_columns([*schema], RANK, chained=chained)
    keys = [pl.col(name).alias(f"{SORT_KEY}{place}") for place, name in enumerate(names)]
    return top_k(pl.struct(*keys, *map(pl.col, shown)), n, directions)


def _show_ranked(plan: Plan, bounds: tuple[str, str]) -> Plan:
    """Return the plan with each of a window's ranked rows as a row of its own."""
    kind = plan.results[ROWS]
    assert isinstance(kind, pl.List)
    assert isinstance(kind.inner, pl.Struct)
    per = tuple(key for key in plan.keys or () if key not in (FIRST, LAST))
    names = (field.name for field in kind.inner.fields)
    selected = [
        *map(pl.col, per),
        *(pl.col(bound).alias(name) for name, bound in zip(WINDOW_BOUNDS, bounds, strict=True)),
        *_fields(name for name in names if not name.startswith(SORT_KEY) and name not in per),
        *map(pl.col, (RANK, *_OWN)),
    ]
    return _show_rows(plan, RANK, selected, (*per, RANK), has_end=False)


def _fields(names: Iterable[str]) -> list[pl.Expr]:
    return [pl.col(ROWS).struct.field(name).alias(name) for name in names]


def _show_rows(
    plan: Plan, number: str, selected: list[pl.Expr], keys: tuple[str, ...], *, has_end: bool
) -> Plan:
    """Return the plan with each row that a window has collected as a row of its own.

    Args:
        plan: The plan of the windows.
        number: The column of a row's number, from 1.
        selected: The selected columns.
        keys: The columns that identify a row together with its window.
        has_end: Whether `window_end` is unchanged.
    """
    numbers = pl.int_ranges(1, pl.col(ROWS).list.len() + 1, dtype=pl.Int32())

    def apply(results: pl.DataFrame) -> pl.DataFrame:
        numbered = results.filter(pl.col(ROWS).list.len() > 0).with_columns(numbers.alias(number))
        return numbered.explode(ROWS, number).select(selected)

    return plan.select(apply, keys, has_end=has_end)
