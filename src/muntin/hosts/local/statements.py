"""Queries that were lowered from SQL or from a file, bound to sources of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

import polars as pl

from muntin.engine import columns
from muntin.hosts.chain import disorder, refuse_revisions
from muntin.hosts.local.definition import LocalDefinition, LocalJoined, LocalWindowedAggregate
from muntin.hosts.local.derived import derive, named
from muntin.hosts.local.expressions import UnportableError, sql_expression
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

Rows = Source | Upstream
Find = Callable[[str], Rows]
"""The rows of a table, by its name."""
ON_SPARK = "run it on Spark: host='spark', or --host spark of the command"


def bind_query(query: Query, find: Find) -> LocalDefinition:
    """A query over sources of this process.

    Args:
        query: The query, as it was lowered.
        find: Finds the tables.

    Raises:
        UnportableError: Naming what only Spark computes.
        OptionError: Naming what else can't work.
    """
    with pointing_to_spark():
        return _pairs(query, find) if isinstance(query, Joining) else _windows(query, find)


@contextmanager
def pointing_to_spark() -> Iterator[None]:
    """Let errors about what only Spark has say how the query runs there."""
    try:
        yield
    except UnportableError as error:
        problem = error.problem.replace("which SQL text can't have here", "which needs Spark")
        raise UnportableError(error.option, error.value, problem, ON_SPARK) from None


def _windows(windowing: Windowing, find: Find) -> LocalWindowedAggregate:
    if windowing.ranking is not None:
        _refuse("the rows of a window, numbered")
    if windowing.each:
        _refuse("each row with its window's aggregates")
    if windowing.lookups:
        _refuse("a lookup in a table")
    rows, spec = _rows(windowing.source, find), windowing.spec
    schema = rows.schema
    late = spec.lateness
    if isinstance(rows, Upstream) and not late:
        late = disorder(rows.plan.spec)
    bare = replace(
        spec,
        keys=(),
        time=_named(schema, spec.time),
        aggregates={name: _operands(schema, one) for name, one in spec.aggregates.items()},
        offset=_offset(schema, spec.offset),
        windows=_with_gaps(schema, spec.windows),
        lateness=late,
    )
    given = Input(
        rows, bare.time, windowing.where, _named(schema, windowing.clock), spec.max_ahead,
        bare.offset,
    )  # fmt: skip
    keys = tuple(_key(schema, key) for key in windowing.keys)
    plan = build_windows(given, keys, bare, windowing.buckets)
    return LocalWindowedAggregate(show_windows(plan, windowing))


def _pairs(joining: Joining, find: Find) -> LocalJoined:
    spec = joining.spec
    is_newest = isinstance(spec.bound, Newest)
    inputs: dict[SideName, Input] = {}
    for place, side in enumerate(SIDES):
        relation = joining.left if side == "left" else joining.right
        rows = _rows(relation, find, each_change=is_newest)
        schema = rows.schema
        known = _side(schema, spec.side(side), joining.names[place])
        hidden: tuple[str, ...] = ()
        if isinstance(rows, Upstream):
            known = replace(known, lateness=known.lateness or disorder(rows.plan.spec))
            hidden = () if is_newest else (columns.EMISSION, columns.REVISION)
        spec = spec.with_side(side, known)
        clock = _named(schema, joining.clocks[place])
        inputs[side] = Input(rows, known.time, None, clock, known.max_ahead, known.offset, hidden)
    both = spec.how not in ("semi", "anti") and not is_newest
    plan = build_join(inputs, spec, SUFFIX, joining.buckets, both_keys=both)
    if joining.columns is None and joining.where is None and not (both and joining.merged):
        return LocalJoined(plan)
    left, right = ([*inputs[side].schema] for side in SIDES)
    return LocalJoined(show_pairs(plan, joining, PairColumns.of(joining, spec, left, right)))


def _rows(relation: Relation, find: Find, *, each_change: bool = False) -> Rows:
    """The rows of a relation."""
    if isinstance(relation, Reading):
        return find(relation.name)
    if isinstance(relation, Derived):
        rows = _rows(relation.source, find, each_change=each_change)
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


def _refuse(what: str) -> NoReturn:
    raise UnportableError("SELECT", what, "needs Spark", ON_SPARK)


def _side(schema: pl.Schema, side: Side, name: str) -> Side:
    keys = tuple(named(schema, key) for key in side.keys)
    for key in keys:
        if key not in schema:
            hint = f"give some of {', '.join(schema)}"
            raise OptionError("on", key, f"isn't a column of {name}", hint)
    return replace(
        side, keys=keys, time=_named(schema, side.time), offset=_offset(schema, side.offset)
    )


def _named(schema: pl.Schema, name: str | None) -> str | None:
    return None if name is None else named(schema, name)


def _offset(schema: pl.Schema, offset: tuple[str, str] | None) -> tuple[str, str] | None:
    return None if offset is None else (named(schema, offset[0]), named(schema, offset[1]))


def _key(schema: pl.Schema, key: Column) -> str | pl.Expr:
    """A key by its name, or as an expression of that name."""
    own = named(schema, key.name)
    if key.bare and own in schema:
        return own if own == key.name else pl.col(own).alias(key.name)
    if own in schema:
        hint = "give the key a name of its own with AS"
        raise OptionError("key", key.name, "is another column of the table", hint)
    return sql_expression(schema, "key", key.text).alias(key.name)


def _operands(schema: pl.Schema, aggregate: Aggregate) -> Aggregate:
    def operand(given: Any) -> Any:
        if isinstance(given, Expression):
            return sql_expression(schema, "agg", given.text)
        return named(schema, given) if isinstance(given, str) else given

    return replace(aggregate, column=operand(aggregate.column), by=operand(aggregate.by))


def _with_gaps(schema: pl.Schema, windows: Kind) -> Kind:
    """Windows whose own gaps, if they have some, are computed by Polars."""
    if isinstance(windows, Sessions) and isinstance(windows.by, Expression):
        return replace(windows, by=sql_expression(schema, "by", windows.by.text))
    return windows


def tables_by_name(tables: Mapping[str, Rows]) -> Mapping[str, Rows]:
    """Tables by their names in lower case."""
    return {name.lower(): rows for name, rows in tables.items()}
