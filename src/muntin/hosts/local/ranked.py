"""Plans queries for the first rows of each window: an aggregate collects and emits them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.hosts.local.plan import Input, Plan, Shape, Upstream
from muntin.hosts.local.window_plan import build_windows
from muntin.hosts.ranking import (
    BOUNDS,
    RANK,
    SORT_KEY,
    Ascending,
    Names,
    check_bounds,
    check_names,
    check_order,
    ranked_columns,
)
from muntin.model.aggregates import Aggregate, top_k
from muntin.model.pipeline import FIRST, LAST, ROWS
from muntin.model.ranking import moments, refuse
from muntin.model.spec import WindowSpec

_OWN = (columns.EMISSION, columns.REVISION)


def rank_messages(
    given: Input, keys: tuple[Any, ...], spec: WindowSpec, n: int, by: Names, up: Ascending
) -> Plan:
    """Plan a query for the first messages of each window, with a spec without aggregates.

    Raises:
        OptionError: When an option can't work; the error names it.
    """
    refuse(spec)
    ranked = _ranked(given.schema, n, by, up, chained=False)
    plan = build_windows(given, keys, replace(spec, aggregates={ROWS: ranked}))
    return _explode(plan, dict(zip(BOUNDS, BOUNDS, strict=True)))


def rank_windows(upstream: Upstream, n: int, by: Names, per: Names, up: Ascending) -> Plan:
    """Plan a query for the first of the windows that have the same bounds.

    Raises:
        OptionError: When an option can't work; the error names it.
    """
    schema = upstream.plan.shown
    check_bounds(n, [*schema])
    ranked = _ranked(schema, n, by, up, chained=True)
    bounds = pl.col(BOUNDS[0]).alias(FIRST), pl.col(BOUNDS[1]).alias(LAST)
    given = Input(upstream, columns.WINDOW_END)
    keys = (*bounds, *check_names("per", per, [*schema]))
    spec = replace(moments(columns.WINDOW_END), aggregates={ROWS: ranked})
    return _explode(build_windows(given, keys, spec), {BOUNDS[0]: FIRST, BOUNDS[1]: LAST})


def _ranked(schema: pl.Schema, n: int, by: Names, up: Ascending, *, chained: bool) -> Aggregate:
    """Return the aggregate that collects the first rows of a window."""
    names, directions = check_order(by, up, [*schema])
    shown = ranked_columns([*schema], RANK, chained=chained)
    keys = [pl.col(name).alias(f"{SORT_KEY}{place}") for place, name in enumerate(names)]
    return top_k(pl.struct(*keys, *map(pl.col, shown)), n, directions)


def _explode(plan: Plan, bounds: Mapping[str, str]) -> Plan:
    """Return the plan with each of a window's rows as a row of its own."""
    kind = plan.results[ROWS]
    assert isinstance(kind, pl.List)
    assert isinstance(kind.inner, pl.Struct)
    per = tuple(key for key in plan.keys or () if key not in (FIRST, LAST))
    fields = {
        one.name: pl.col(ROWS).struct.field(one.name)
        for one in kind.inner.fields
        if not one.name.startswith(SORT_KEY) and one.name not in per
    }
    places = pl.int_ranges(1, pl.col(ROWS).list.len() + 1, dtype=pl.Int32())
    selected = [
        *map(pl.col, per),
        *(pl.col(bound).alias(name) for name, bound in bounds.items()),
        *(field.alias(name) for name, field in fields.items()),
        RANK,
        *_OWN,
    ]

    def apply(results: pl.DataFrame) -> pl.DataFrame:
        ranked = results.filter(pl.col(ROWS).list.len() > 0).with_columns(places.alias(RANK))
        return ranked.explode(ROWS, RANK).select(selected)

    schema = apply(pl.DataFrame(schema=plan.results)).schema
    shape = Shape(schema, apply, (*per, RANK), by_window=False, has_end=False)
    again = plan.again
    return replace(plan, shape=shape, again=lambda count: _explode(again(count), bounds))
