"""Plans queries for the first rows of each window: an aggregate collects and emits them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.hosts.local.plan import Input, Plan, Shape, Upstream
from muntin.hosts.local.window_plan import build_windows
from muntin.model.aggregates import top_k
from muntin.model.errors import OptionError
from muntin.model.pipeline import FIRST, LAST, ROWS
from muntin.model.ranking import moments, refuse
from muntin.model.spec import WindowSpec

RANK = "rank"
Names = str | Sequence[str]
Order = bool | Sequence[bool]

_BY = "__muntin_by"
_BOUNDS = (columns.WINDOW_START, columns.WINDOW_END)
_OWN = (columns.EMISSION, columns.REVISION)


def top_messages(
    given: Input, keys: tuple[Any, ...], spec: WindowSpec, n: int, by: Names, up: Order
) -> Plan:
    """Plan a query for the first messages of each window, with a spec without aggregates.

    Raises:
        OptionError: When an option can't work; the error names it.
    """
    refuse(spec)
    ranked = _ranked(given.schema, n, by, up, taken=(*_BOUNDS, *_OWN))
    plan = build_windows(given, keys, replace(spec, aggregates={ROWS: ranked}))
    return _shown(plan, dict(zip(_BOUNDS, _BOUNDS, strict=True)))


def top_windows(upstream: Upstream, n: int, by: Names, per: Names, up: Order) -> Plan:
    """Plan a query for the first of the windows that have the same bounds.

    Raises:
        OptionError: When an option can't work; the error names it.
    """
    schema = upstream.plan.shown
    if not {*_BOUNDS} <= {*schema}:
        raise OptionError("top", n, "needs windows with their bounds", "select them")
    ranked = _ranked(schema, n, by, up, taken=())
    bounds = pl.col(_BOUNDS[0]).alias(FIRST), pl.col(_BOUNDS[1]).alias(LAST)
    given = Input(upstream, columns.WINDOW_END)
    keys = (*bounds, *_names("per", per, schema))
    spec = replace(moments(columns.WINDOW_END), aggregates={ROWS: ranked})
    return _shown(build_windows(given, keys, spec), {_BOUNDS[0]: FIRST, _BOUNDS[1]: LAST})


def _ranked(schema: pl.Schema, n: int, by: Names, up: Order, taken: Sequence[str]) -> Any:
    """Return the aggregate that collects the first rows of a window."""
    names = _names("by", by, schema)
    if not names:
        raise OptionError("by", by, "orders by nothing", 'name columns, as in by="price"')
    ups = [up] * len(names) if isinstance(up, bool) else list(up)
    if len(ups) != len(names):
        hint = "give one for each column of by, or one for all"
        raise OptionError("ascending", up, f"isn't for {len(names)} columns", hint)
    for name in schema:
        if name in (RANK, *taken):
            raise columns.make_clash_error("column", name, "the rows of windows")
    shown = [name for name in schema if name not in (*_BOUNDS, *_OWN)]
    first = [pl.col(name).alias(f"{_BY}{place}") for place, name in enumerate(names)]
    return top_k(pl.struct(*first, *map(pl.col, shown)), n, tuple(ups))


def _shown(plan: Plan, bounds: Mapping[str, str]) -> Plan:
    """Return the plan with each of a window's rows as a row of its own."""
    kind = plan.results[ROWS]
    assert isinstance(kind, pl.List)
    assert isinstance(kind.inner, pl.Struct)
    per = tuple(key for key in plan.keys or () if key not in (FIRST, LAST))
    fields = {
        one.name: pl.col(ROWS).struct.field(one.name)
        for one in kind.inner.fields
        if not one.name.startswith(_BY) and one.name not in per
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
    return replace(plan, shape=shape, again=lambda count: _shown(again(count), bounds))


def _names(option: str, given: Names, schema: pl.Schema) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not isinstance(name, str) or name not in schema:
            hint = f"give some of {', '.join(schema)}"
            raise OptionError(option, name, "isn't the name of a column", hint)
    return names
