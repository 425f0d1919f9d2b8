"""Plans queries that emit rows of windows: each message, or the first ones in an order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.hosts.chain import WINDOW_TIME
from muntin.hosts.local.derived import RowSelectList
from muntin.hosts.local.expressions import parse_sql_expression
from muntin.hosts.local.plan import LocalInput, LocalPlan, LocalUpstream
from muntin.hosts.local.window_plan import plan_windows
from muntin.hosts.ranking import (
    SORT_KEY,
    Ascending,
    Names,
    check_bounds,
    check_column_names,
    collect_ranked,
    complete_names,
    expand_choice,
    list_ranked_columns,
    list_star,
    rank_first,
)
from muntin.model.aggregates import Aggregate
from muntin.model.aggregates.ranked import rank_rows
from muntin.model.pipeline import (
    EMISSION_COLUMNS,
    FIRST,
    LAST,
    NUMBER,
    ROW,
    ROW_INDEX,
    ROWS,
    WINDOW_BOUNDS,
    Choice,
    Column,
    Ranking,
    WindowRelation,
)
from muntin.model.ranking import (
    list_identity_columns,
    make_windows_by_end,
    order_by_arrival,
    refuse_delayed,
    refuse_unrankable,
)
from muntin.model.rolling import add_messages, message_columns
from muntin.model.spec import WindowSpec

SelectRows = Callable[[pl.DataFrame], pl.DataFrame]

_NUMBERS = pl.int_ranges(1, pl.col(ROWS).list.len() + 1, dtype=pl.Int32())
# A field for structs of messages without columns, since a struct needs a field.
_NOTHING = pl.lit(0, dtype=pl.Int8).alias("__muntin_none")


def plan_rolling_rows(
    query_input: LocalInput, keys: tuple[Any, ...], spec: WindowSpec, shards: int | None = None
) -> LocalPlan:
    """Plan a query that emits each message as a row; `plan_windows` describes the rest."""
    names = message_columns(
        spec, list(query_input.schema), chained=query_input.upstream is not None
    )
    key_names = [key for key in keys if isinstance(key, str)]
    names = [name for name in names if name not in key_names]
    row = pl.struct(*map(pl.col, names)) if names else pl.struct(_NOTHING)
    spec = replace(spec, aggregates=add_messages(spec, row))
    plan = plan_windows(query_input, keys, spec, shards)
    own = plan.keys or ()
    selected = [
        *map(pl.col, (*own, *WINDOW_BOUNDS)),
        *_select_fields(name for name in names if name not in own),
        *(pl.col(name) for name in spec.aggregates if name != ROWS),
        *map(pl.col, (*EMISSION_COLUMNS, NUMBER)),
    ]

    def explode(results: pl.DataFrame) -> pl.DataFrame:
        return _number_rows(results, {NUMBER: _NUMBERS}).select(selected)

    return plan.select(explode, (*own, NUMBER), has_end=True)


def plan_plain_rows(
    query_input: LocalInput,
    spec: WindowSpec,
    shown: Sequence[Column] | None,
    shards: int | None = None,
) -> LocalPlan:
    """Plan a query without windows: each message is a row with the selected columns.

    Raises:
        OptionError: When an expression can't be computed in this process; the error names it.
    """
    selection = RowSelectList.of(query_input.schema, shown, None)
    row = pl.struct(*map(pl.col, query_input.schema))
    spec = replace(spec, aggregates=add_messages(spec, row))
    plan = plan_windows(query_input, (), spec, shards)
    fields = [*_select_fields(query_input.schema)]
    return plan.select(lambda rows: selection.apply(rows.explode(ROWS).select(fields)), None)


def rank_messages(
    query_input: LocalInput,
    keys: tuple[Any, ...],
    spec: WindowSpec,
    n: int,
    by: Names,
    up: Ascending,
) -> LocalPlan:
    """Plan a query for the first messages of each window, with a spec without aggregates."""
    refuse_unrankable(spec)
    ranking = order_by_arrival(rank_first(n, by, up, [*query_input.schema], chained=False), spec)
    rows = collect_rows(query_input.schema, ranking)
    return show_ranked(
        plan_windows(query_input, keys, replace(spec, aggregates={ROWS: rows})), ranking
    )


def rank_windows(
    upstream: LocalUpstream, n: int, by: Names, per: Names, up: Ascending
) -> LocalPlan:
    """Plan a query for the first of the windows that have the same bounds."""
    schema = upstream.plan.output_schema
    refuse_delayed(upstream.plan.spec)
    check_bounds(n, [*schema])
    ranking = rank_first(n, by, up, [*schema], chained=True)
    bounds = pl.col(WINDOW_BOUNDS[0]).alias(FIRST), pl.col(WINDOW_BOUNDS[1]).alias(LAST)
    windows = LocalInput(upstream, columns.WINDOW_END)
    keys = (*bounds, *check_column_names("per", per, [*schema]))
    rows = collect_rows(schema, ranking)
    spec = replace(make_windows_by_end(columns.WINDOW_END), aggregates={ROWS: rows})
    return show_ranked(plan_windows(windows, keys, spec), ranking)


def collect_rows(schema: pl.Schema, ranking: Ranking) -> Aggregate:
    """Return the aggregate that collects the rows of a window.

    Raises:
        OptionError: When a column has the name of one of the results, or a sort key can't be
            computed in this process.
    """
    shown = list_ranked_columns([*schema], ranking)
    keys = [
        parse_sql_expression(schema, "ORDER BY", text).alias(f"{SORT_KEY}{number}")
        for number, text in enumerate(ranking.by)
    ]
    return collect_ranked(pl.struct(*keys, *map(pl.col, shown)), ranking)


def show_each(plan: LocalPlan, windowing: WindowRelation) -> LocalPlan:
    """Return the plan with a select list over each message that a window ends with."""
    assert windowing.columns is not None
    numbers = pl.int_ranges(0, pl.col(ROWS).list.len(), dtype=pl.Int32())

    def explode(results: pl.DataFrame) -> pl.DataFrame:
        numbered = results.with_columns(pl.col(ROWS).alias(ROW), numbers.alias(ROW_INDEX))
        return numbered.explode(ROW, ROW_INDEX).filter(pl.col(ROW).is_not_null())

    rows = explode(pl.DataFrame(schema=plan.results)).schema
    selection = RowSelectList.of(rows, windowing.columns, windowing.having)
    keys = (*windowing.spec.keys, NUMBER)
    has_end = selection.keeps(columns.WINDOW_END)
    return plan.select(lambda results: selection.apply(explode(results)), keys, has_end=has_end)


def show_ranked(plan: LocalPlan, ranking: Ranking) -> LocalPlan:
    """Return the plan with each of a window's rows as a row of its own, and its select lists."""
    per = tuple(key for key in plan.keys or () if key not in (FIRST, LAST))
    explode = _explode(plan.results, ranking, per)
    schema = explode(pl.DataFrame(schema=plan.results)).schema
    names = list_star(_list_fields(plan.results), per, ranking)
    steps: list[RowSelectList] = []
    for choice in ranking.choices:
        step, names = _choose(schema, choice, names, per, ranking)
        steps.append(step)
        schema = step.derive_schema(schema)

    def apply(results: pl.DataFrame) -> pl.DataFrame:
        rows = explode(results)
        for step in steps:
            rows = step.apply(rows)
        return rows.select(*complete_names(names, per, ranking), *EMISSION_COLUMNS)

    return plan.select(apply, (*per, *list_identity_columns(ranking)), has_end=False)


def _explode(results: pl.Schema, ranking: Ranking, per: tuple[str, ...]) -> SelectRows:
    """Return the function that emits each of a window's rows with all of its columns."""
    own = [name for name in _list_fields(results) if name not in per]
    numbers = {ranking.number: _NUMBERS}
    if ranking.has_ties:
        ranks = rank_rows(pl.element(), len(ranking.by), ranking.function).cast(pl.Int32())
        numbers = {ranking.number: pl.col(ROWS).list.eval(ranks), NUMBER: _NUMBERS}
    bounds = (FIRST, LAST) if ranking.chained else WINDOW_BOUNDS
    last = pl.col(bounds[1])
    if results[bounds[1]].is_temporal():
        last = last - pl.duration(milliseconds=1)
    selected = [
        *map(pl.col, per),
        *(pl.col(bound).alias(name) for name, bound in zip(WINDOW_BOUNDS, bounds, strict=True)),
        *_select_fields(own),
        *map(pl.col, numbers),
        *([] if WINDOW_TIME in (*per, *own) else [last.alias(WINDOW_TIME)]),
        *map(pl.col, EMISSION_COLUMNS),
    ]
    return lambda rows: _number_rows(rows, numbers).select(selected)


def _list_fields(results: pl.Schema) -> list[str]:
    """Return the columns of the rows that windows have collected."""
    kind = results[ROWS]
    assert isinstance(kind, pl.List)
    assert isinstance(kind.inner, pl.Struct)
    names = (field.name for field in kind.inner.fields)
    return [name for name in names if not name.startswith(SORT_KEY)]


def _choose(
    schema: pl.Schema, choice: Choice, names: list[str], per: Sequence[str], ranking: Ranking
) -> tuple[RowSelectList, list[str]]:
    """Return one select list over the rows, which always keeps the identifying columns.

    Returns:
        The selection, and the names that `*` stands for after it.
    """
    if choice.columns is None:
        return RowSelectList.of(schema, None, choice.where), names
    texts = expand_choice(choice.columns, names, per, ranking)
    selected = [Column(name, texts.get(name, name)) for name in (*texts, *EMISSION_COLUMNS)]
    return RowSelectList.of(schema, selected, choice.where), [*texts]


def _select_fields(names: Iterable[str]) -> list[pl.Expr]:
    return [pl.col(ROWS).struct.field(name).alias(name) for name in names]


def _number_rows(results: pl.DataFrame, numbers: Mapping[str, pl.Expr]) -> pl.DataFrame:
    """Return a row for each row that windows have collected, with its numbers."""
    numbered = results.filter(pl.col(ROWS).list.len() > 0).with_columns(
        *(number.alias(name) for name, number in numbers.items())
    )
    return numbered.explode(ROWS, *numbers)
