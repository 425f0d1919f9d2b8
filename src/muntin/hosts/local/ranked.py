"""Plans queries for the first rows of each window: an aggregate collects and emits them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.hosts.chain import WINDOW_TIME
from muntin.hosts.local.derived import RowSelection
from muntin.hosts.local.expressions import sql_expression
from muntin.hosts.local.plan import Input, Plan, Shape, Upstream
from muntin.hosts.local.window_plan import build_windows
from muntin.model.aggregates import Aggregate, collect_list, first_rows
from muntin.model.aggregates.ranked import rank_rows
from muntin.model.errors import OptionError
from muntin.model.pipeline import FIRST, LAST, NUMBER, ROWS, Choice, Column, Ranking, quoted
from muntin.model.ranking import identity_of, moments, refuse
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
    ranking = _ranking(given.schema, n, by, up, chained=False)
    rows = collect_rows(given.schema, ranking)
    return show_rows(build_windows(given, keys, replace(spec, aggregates={ROWS: rows})), ranking)


def top_windows(upstream: Upstream, n: int, by: Names, per: Names, up: Order) -> Plan:
    """Plan a query for the first of the windows that have the same bounds.

    Raises:
        OptionError: When an option can't work; the error names it.
    """
    schema = upstream.plan.shown
    if not {*_BOUNDS} <= {*schema}:
        raise OptionError("top", n, "needs windows with their bounds", "select them")
    ranking = _ranking(schema, n, by, up, chained=True)
    bounds = pl.col(_BOUNDS[0]).alias(FIRST), pl.col(_BOUNDS[1]).alias(LAST)
    given = Input(upstream, columns.WINDOW_END)
    keys = (*bounds, *_names("per", per, schema))
    rows = collect_rows(schema, ranking)
    spec = replace(moments(columns.WINDOW_END), aggregates={ROWS: rows})
    return show_rows(build_windows(given, keys, spec), ranking)


def _ranking(schema: pl.Schema, n: int, by: Names, up: Order, *, chained: bool) -> Ranking:
    """Return the ranking that the options of `top` mean."""
    names = _names("by", by, schema)
    if not names:
        raise OptionError("by", by, "orders by nothing", 'name columns, as in by="price"')
    ups = [up] * len(names) if isinstance(up, bool) else list(up)
    if len(ups) != len(names):
        hint = "give one for each column of by, or one for all"
        raise OptionError("ascending", up, f"isn't for {len(names)} columns", hint)
    return Ranking(RANK, tuple(map(quoted, names)), tuple(ups), n, (), chained)


def collect_rows(schema: pl.Schema, ranking: Ranking) -> Aggregate:
    """Return the aggregate that collects the rows of a window.

    Raises:
        OptionError: When a column has the name of one of the results, or a sort key can't be
            computed in this process.
    """
    taken = {ranking.number, *identity_of(ranking)}
    taken |= set() if ranking.chained else {*_BOUNDS, *_OWN}
    for name in schema:
        if name in taken:
            raise columns.taken("column", name, "the rows of windows")
    by = [
        sql_expression(schema, "ORDER BY", text).alias(f"{_BY}{place}")
        for place, text in enumerate(ranking.by)
    ]
    shown = [pl.col(name) for name in schema if name not in (*_BOUNDS, *_OWN)]
    row = pl.struct(*by, *shown)
    if ranking.most is None:
        return collect_list(row)
    return first_rows(row, ranking.most, ranking.ascending, ranking.function)


def show_rows(plan: Plan, ranking: Ranking) -> Plan:
    """Return the plan with each of a window's rows as a row of its own, and its select lists.

    Raises:
        OptionError: When an expression can't be computed in this process; the error names it.
    """
    per = tuple(key for key in plan.keys or () if key not in (FIRST, LAST))
    explode = _explode(plan.results, ranking, per)
    schema = explode(pl.DataFrame(schema=plan.results)).schema
    names = [name for name in schema if name not in (WINDOW_TIME, *_OWN)]
    steps: list[RowSelection] = []
    for choice in ranking.choices:
        step, names = _select(schema, choice, names, (*per, *_BOUNDS), ranking)
        steps.append(step)
        schema = step.schema_of(schema)
    selected = [*names, *(name for name in _OWN if name not in names)]

    def apply(results: pl.DataFrame) -> pl.DataFrame:
        rows = explode(results)
        for step in steps:
            rows = step.apply(rows)
        return rows.select(selected)

    schema = apply(pl.DataFrame(schema=plan.results)).schema
    identity = (*per, *identity_of(ranking))
    shape = Shape(schema, apply, identity, by_window=False, has_end=False)
    again = plan.again
    return replace(plan, shape=shape, again=lambda count: show_rows(again(count), ranking))


def _explode(
    results: pl.Schema, ranking: Ranking, per: tuple[str, ...]
) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Return the function that emits each of a window's rows with all of its columns."""
    kind = results[ROWS]
    assert isinstance(kind, pl.List)
    assert isinstance(kind.inner, pl.Struct)
    fields = [
        one.name
        for one in kind.inner.fields
        if not one.name.startswith(_BY) and one.name not in per
    ]
    bounds = (FIRST, LAST) if ranking.chained else _BOUNDS
    places = pl.int_ranges(1, pl.col(ROWS).list.len() + 1, dtype=pl.Int32())
    numbers = {ranking.number: places}
    if ranking.has_ties:
        ranks = rank_rows(pl.element(), len(ranking.by), ranking.function).cast(pl.Int32())
        numbers = {ranking.number: pl.col(ROWS).list.eval(ranks), NUMBER: places}
    end = pl.col(bounds[1])
    if results[bounds[1]].is_temporal():
        end = end - pl.duration(microseconds=1)
    last = [] if WINDOW_TIME in (*per, *fields) else [end.alias(WINDOW_TIME)]
    selected = [
        *map(pl.col, per),
        *(pl.col(bound).alias(name) for name, bound in zip(_BOUNDS, bounds, strict=True)),
        *(pl.col(ROWS).struct.field(name).alias(name) for name in fields),
        *numbers,
        *last,
        *_OWN,
    ]

    def explode(rows: pl.DataFrame) -> pl.DataFrame:
        numbered = rows.filter(pl.col(ROWS).list.len() > 0).with_columns(
            *(expression.alias(name) for name, expression in numbers.items())
        )
        return numbered.explode(ROWS, *numbers).select(selected)

    return explode


def _select(
    schema: pl.Schema,
    choice: Choice,
    names: list[str],
    identity: Sequence[str],
    ranking: Ranking,
) -> tuple[RowSelection, list[str]]:
    """Return one select list over the rows, which always keeps the identifying columns.

    Returns:
        The selection, and the names that `*` stands for after it.
    """
    if choice.columns is None:
        return RowSelection.of(schema, None, choice.where), names
    shown: dict[str, str] = {}
    for column in choice.columns:
        every = {name: quoted(name) for name in names} if column.text == "*" else {}
        shown |= every or {column.name: column.text}
    texts = {name: quoted(name) for name in identity if name not in shown} | shown
    for name in (ranking.number, *identity_of(ranking)):
        texts.setdefault(name, quoted(name))
    after = [name for name in texts if name not in _OWN]
    selected = [Column(name, texts.get(name, name)) for name in (*after, *_OWN)]
    return RowSelection.of(schema, selected, choice.where), after


def _names(option: str, given: Names, schema: pl.Schema) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not isinstance(name, str) or name not in schema:
            hint = f"give some of {', '.join(schema)}"
            raise OptionError(option, name, "isn't the name of a column", hint)
    return names
