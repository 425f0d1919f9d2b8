"""Binds queries that were lowered from SQL or from a file to sources of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial

import polars as pl

from muntin.engine import columns
from muntin.hosts.chain import cover_disorder, refuse_revisions
from muntin.hosts.local.definition import LocalDefinition, LocalJoined, LocalWindowedAggregate
from muntin.hosts.local.derived import derive
from muntin.hosts.local.expressions import UnportableError, parse_literal_rows, parse_sql_expression
from muntin.hosts.local.join_plan import plan_join
from muntin.hosts.local.lookups import look_up
from muntin.hosts.local.plan import InputRows, LocalInput, LocalUpstream
from muntin.hosts.local.select_lists import show_pairs, show_windows
from muntin.hosts.local.window_plan import plan_windows
from muntin.hosts.local.window_rows import (
    collect_rows,
    plan_plain_rows,
    plan_rolling_rows,
    show_each,
    show_ranked,
)
from muntin.hosts.pair_columns import PairColumns
from muntin.hosts.statements import Resolver, resolve_name
from muntin.model.bounds import ByArrival, SideName
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES
from muntin.model.pipeline import (
    ROWS,
    SUFFIX,
    Column,
    Derived,
    JoinRelation,
    QueryRelation,
    Relation,
    TableRelation,
    Union,
    Values,
    WindowRelation,
)
from muntin.model.rolling import emits_plain_rows
from muntin.sources.frames import FrameSource
from muntin.sources.source import Source
from muntin.sources.united import unite

FindRows = Callable[[str], InputRows]
"""A function that returns the rows of a table by its name."""
ON_SPARK = "run it on Spark: host='spark', or --host spark of the command"


def bind_query(query: QueryRelation, find: FindRows) -> LocalDefinition:
    """Build a query over sources of this process.

    Args:
        query: The lowered query.
        find: Finds the tables.

    Raises:
        UnportableError: When it has an expression that only Spark computes; the error names it.
        OptionError: When anything else can't work; the error names it.
    """
    # All uses of a table share a source, which is read once.
    find = cache(find)
    with hint_at_spark():
        return (
            _bind_join(query, find)
            if isinstance(query, JoinRelation)
            else _bind_windows(query, find)
        )


@contextmanager
def hint_at_spark() -> Iterator[None]:
    """Add a hint to run the query on Spark to errors about expressions that only Spark has."""
    try:
        yield
    except UnportableError as error:
        problem = error.problem.replace("which SQL text can't have here", "which needs Spark")
        raise UnportableError(error.option, error.value, problem, ON_SPARK) from None


def _bind_windows(windowing: WindowRelation, find: FindRows) -> LocalWindowedAggregate:
    if windowing.lookups:
        raise UnportableError("SELECT", "a table looked up for windows", "needs Spark", ON_SPARK)
    rows, spec = _bind_rows(windowing.source, find), windowing.spec
    schema, ranking = rows.schema, windowing.ranking
    if ranking is not None:
        spec = replace(spec, aggregates={ROWS: collect_rows(_list_row_columns(rows), ranking)})
    resolver = _make_resolver(schema)
    bare = cover_disorder(resolver.resolve_spec(spec), rows)
    clock = resolver.resolve(windowing.clock)
    messages = LocalInput(rows, bare.time, windowing.where, clock, spec.limits, bare.offset)
    keys = tuple(_resolve_key(schema, key) for key in windowing.keys)
    if emits_plain_rows(bare):
        plan = plan_plain_rows(messages, bare, windowing.columns, windowing.shards)
        return LocalWindowedAggregate(plan)
    if windowing.each and windowing.columns is None:
        return LocalWindowedAggregate(plan_rolling_rows(messages, keys, bare, windowing.shards))
    plan = plan_windows(messages, keys, bare, windowing.shards)
    if ranking is not None:
        plan = show_ranked(plan, ranking)
    else:
        plan = show_each(plan, windowing) if windowing.each else show_windows(plan, windowing)
    return LocalWindowedAggregate(plan)


def _list_row_columns(rows: InputRows) -> pl.Schema:
    """Return the columns of rows that windows rank: an operator's without their emission."""
    if not isinstance(rows, LocalUpstream):
        return rows.schema
    own = (columns.EMISSION, columns.REVISION)
    return pl.Schema(
        {name: kind for name, kind in rows.plan.output_schema.items() if name not in own}
    )


def _bind_join(joining: JoinRelation, find: FindRows) -> LocalJoined:
    spec = joining.spec
    is_newest = spec.bound.revises
    is_table = isinstance(spec.bound, ByArrival)
    inputs: dict[SideName, LocalInput] = {}
    for number, side in enumerate(SIDES):
        relation = joining.left if side == "left" else joining.right
        # A table may change: each of its rows replaces the one before.
        changes = is_newest or (is_table and side == "right")
        rows = _bind_rows(relation, find, each_change=changes)
        resolver = _make_resolver(rows.schema)
        side_spec = resolver.resolve_side(spec.side(side), joining.names[number])
        side_spec = cover_disorder(side_spec, rows)
        hidden: tuple[str, ...] = ()
        if isinstance(rows, LocalUpstream):
            hidden = () if is_newest else (columns.EMISSION, columns.REVISION)
            rows = replace(rows, newest=is_table)
        spec = spec.with_side(side, side_spec)
        clock = resolver.resolve(joining.clocks[number])
        inputs[side] = LocalInput(
            rows, side_spec.time, None, clock, side_spec.limits, side_spec.offset, hidden
        )
    plan = plan_join(inputs, spec, SUFFIX, joining.shards, both_keys=joining.keeps_both_keys)
    left, right = ([*inputs[side].schema] for side in SIDES)
    names = PairColumns.of(joining, spec, left, right)
    if joining.shows_pairs_unchanged and not names.payloads:
        return LocalJoined(plan)
    return LocalJoined(show_pairs(plan, joining, names))


def _bind_rows(relation: Relation, find: FindRows, *, each_change: bool = False) -> InputRows:
    if isinstance(relation, TableRelation):
        return find(relation.name)
    if isinstance(relation, Derived):
        rows = _bind_rows(relation.source, find, each_change=each_change)
        return derive(rows, relation.columns, relation.where)
    if isinstance(relation, WindowRelation | JoinRelation):
        plan = bind_query(relation, find).plan
        upstream = LocalUpstream(plan, each_change=each_change)
        if upstream.emits_again and not each_change:
            refuse_revisions(plan.spec, each_change=each_change)
        return upstream
    if isinstance(relation, Values):
        return FrameSource(parse_literal_rows(relation.text, relation.columns))
    if isinstance(relation, Union):
        return unite([_bind_source(part, find) for part in relation.parts])
    return look_up(
        relation, _bind_source(relation.source, find), _bind_source(relation.table, find)
    )


def _bind_source(relation: Relation, find: FindRows) -> Source:
    """Return the rows of a table, which aren't the results of windows."""
    rows = _bind_rows(relation, find)
    if isinstance(rows, LocalUpstream):
        hint = "unite or look up messages before their windows, or run it on Spark"
        raise UnportableError("SELECT", "results of windows", "are taken here on Spark alone", hint)
    return rows


def _make_resolver(schema: pl.Schema) -> Resolver:
    return Resolver(schema, partial(parse_sql_expression, schema))


def _resolve_key(schema: pl.Schema, key: Column) -> str | pl.Expr:
    """Return a key as a name, or as an expression with that name."""
    own = resolve_name(schema, key.name)
    if key.bare and own in schema:
        return own if own == key.name else pl.col(own).alias(key.name)
    if own in schema:
        hint = "give the key a name of its own with AS"
        raise OptionError("key", key.name, "is another column of the table", hint)
    return parse_sql_expression(schema, "key", key.text).alias(key.name)
