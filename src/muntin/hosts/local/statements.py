"""Binds queries that were lowered from SQL or from a file to sources of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

import polars as pl

from muntin.engine import columns
from muntin.hosts.chain import disorder, refuse_revisions
from muntin.hosts.local.definition import LocalDefinition, LocalJoined, LocalWindowedAggregate
from muntin.hosts.local.derived import derive, resolve_name
from muntin.hosts.local.expressions import UnportableError, parse_sql_expression
from muntin.hosts.local.join_plan import build_join
from muntin.hosts.local.plan import Input, Upstream
from muntin.hosts.local.select_lists import show_pairs, show_windows
from muntin.hosts.local.window_plan import build_windows
from muntin.hosts.pair_columns import SUFFIX, PairColumns
from muntin.model.aggregates import Aggregate
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES, Newest, Side, SideName
from muntin.model.kinds import Kind
from muntin.model.pipeline import (
    Column,
    Derived,
    Expression,
    Joining,
    Lookup,
    Query,
    Reading,
    Relation,
    Union,
    Windowing,
)
from muntin.model.sessions import Sessions
from muntin.sources.source import Source

TableRows = Source | Upstream
FindRows = Callable[[str], TableRows]
"""A function that returns the rows of a table by its name."""
ON_SPARK = "run it on Spark: host='spark', or --host spark of the command"


def bind_query(query: Query, find: FindRows) -> LocalDefinition:
    """Build a query over sources of this process.

    Args:
        query: The lowered query.
        find: Finds the tables.

    Raises:
        UnportableError: When it has an expression that only Spark computes; the error names it.
        OptionError: When anything else can't work; the error names it.
    """
    with hint_at_spark():
        return _bind_join(query, find) if isinstance(query, Joining) else _bind_windows(query, find)


@contextmanager
def hint_at_spark() -> Iterator[None]:
    """Add a hint to run the query on Spark to errors about expressions that only Spark has."""
    try:
        yield
    except UnportableError as error:
        problem = error.problem.replace("which SQL text can't have here", "which needs Spark")
        raise UnportableError(error.option, error.value, problem, ON_SPARK) from None


def _bind_windows(windowing: Windowing, find: FindRows) -> LocalWindowedAggregate:
    if windowing.ranking is not None:
        _refuse("the rows of a window, numbered")
    if windowing.each:
        _refuse("each row with its window's aggregates")
    if windowing.lookups:
        _refuse("a lookup in a table")
    rows, spec = _bind_rows(windowing.source, find), windowing.spec
    schema = rows.schema
    late = spec.lateness
    if isinstance(rows, Upstream) and not late:
        late = disorder(rows.plan.spec)
    bare = replace(
        spec,
        keys=(),
        time=_resolve(schema, spec.time),
        aggregates={name: _resolve_operands(schema, one) for name, one in spec.aggregates.items()},
        offset=_resolve_offset(schema, spec.offset),
        windows=_resolve_gaps(schema, spec.windows),
        lateness=late,
    )
    messages = Input(
        rows, bare.time, windowing.where, _resolve(schema, windowing.clock), spec.max_ahead,
        bare.offset,
    )  # fmt: skip
    keys = tuple(_resolve_key(schema, key) for key in windowing.keys)
    plan = build_windows(messages, keys, bare, windowing.shards)
    return LocalWindowedAggregate(show_windows(plan, windowing))


def _bind_join(joining: Joining, find: FindRows) -> LocalJoined:
    spec = joining.spec
    is_newest = isinstance(spec.bound, Newest)
    inputs: dict[SideName, Input] = {}
    for number, side in enumerate(SIDES):
        relation = joining.left if side == "left" else joining.right
        rows = _bind_rows(relation, find, each_change=is_newest)
        schema = rows.schema
        marks = _resolve_side(schema, spec.side(side), joining.names[number])
        hidden: tuple[str, ...] = ()
        if isinstance(rows, Upstream):
            marks = replace(marks, lateness=marks.lateness or disorder(rows.plan.spec))
            hidden = () if is_newest else (columns.EMISSION, columns.REVISION)
        spec = spec.with_side(side, marks)
        clock = _resolve(schema, joining.clocks[number])
        inputs[side] = Input(rows, marks.time, None, clock, marks.max_ahead, marks.offset, hidden)
    both = spec.how not in ("semi", "anti") and not is_newest
    plan = build_join(inputs, spec, SUFFIX, joining.shards, both_keys=both)
    if joining.columns is None and joining.where is None and not (both and joining.merged):
        return LocalJoined(plan)
    left, right = ([*inputs[side].schema] for side in SIDES)
    return LocalJoined(show_pairs(plan, joining, PairColumns.of(joining, spec, left, right)))


def _bind_rows(relation: Relation, find: FindRows, *, each_change: bool = False) -> TableRows:
    """Return the rows of a relation."""
    if isinstance(relation, Reading):
        return find(relation.name)
    if isinstance(relation, Derived):
        rows = _bind_rows(relation.source, find, each_change=each_change)
        return derive(rows, relation.columns, relation.where)
    if isinstance(relation, Windowing | Joining):
        plan = bind_query(relation, find).plan
        upstream = Upstream(plan, each_change=each_change)
        if upstream.emits_again and not each_change:
            refuse_revisions(plan.spec, each_change=each_change)
        return upstream
    if isinstance(relation, Union):
        _refuse("UNION")
    _refuse("a lookup in a table" if isinstance(relation, Lookup) else "VALUES")


def _refuse(part: str) -> NoReturn:
    raise UnportableError("SELECT", part, "needs Spark", ON_SPARK)


def _resolve_side(schema: pl.Schema, side: Side, name: str) -> Side:
    keys = tuple(resolve_name(schema, key) for key in side.keys)
    for key in keys:
        if key not in schema:
            hint = f"give some of {', '.join(schema)}"
            raise OptionError("on", key, f"isn't a column of {name}", hint)
    return replace(
        side,
        keys=keys,
        time=_resolve(schema, side.time),
        offset=_resolve_offset(schema, side.offset),
    )


def _resolve(schema: pl.Schema, name: str | None) -> str | None:
    return None if name is None else resolve_name(schema, name)


def _resolve_offset(schema: pl.Schema, offset: tuple[str, str] | None) -> tuple[str, str] | None:
    return (
        None
        if offset is None
        else (resolve_name(schema, offset[0]), resolve_name(schema, offset[1]))
    )


def _resolve_key(schema: pl.Schema, key: Column) -> str | pl.Expr:
    """Return a key as a name, or as an expression with that name."""
    own = resolve_name(schema, key.name)
    if key.bare and own in schema:
        return own if own == key.name else pl.col(own).alias(key.name)
    if own in schema:
        hint = "give the key a name of its own with AS"
        raise OptionError("key", key.name, "is another column of the table", hint)
    return parse_sql_expression(schema, "key", key.text).alias(key.name)


def _resolve_operands(schema: pl.Schema, aggregate: Aggregate) -> Aggregate:
    def operand(column: Any) -> Any:
        if isinstance(column, Expression):
            return parse_sql_expression(schema, "agg", column.text)
        return resolve_name(schema, column) if isinstance(column, str) else column

    return replace(aggregate, column=operand(aggregate.column), by=operand(aggregate.by))


def _resolve_gaps(schema: pl.Schema, windows: Kind) -> Kind:
    """Return windows whose gaps are a Polars expression, where messages have own gaps."""
    if isinstance(windows, Sessions) and isinstance(windows.by, Expression):
        return replace(windows, by=parse_sql_expression(schema, "by", windows.by.text))
    return windows


def index_by_name(tables: Mapping[str, TableRows]) -> Mapping[str, TableRows]:
    """Return tables by their names in lower case."""
    return {name.lower(): rows for name, rows in tables.items()}
