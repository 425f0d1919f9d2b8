"""Binds queries that were lowered from SQL or from a file to DataFrames."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, ClassVar

from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muntin.engine.operator import RESULTS
from muntin.hosts.chain import cover_disorder
from muntin.hosts.failures import TRACEBACK
from muntin.hosts.statements import Resolver, resolve_name
from muntin.model.bounds import ByArrival
from muntin.model.errors import OptionError, SqlError
from muntin.model.joins import SIDES
from muntin.model.pipeline import (
    ROWS,
    SUFFIX,
    Column,
    Derived,
    Expression,
    JoinRelation,
    Lookup,
    QueryRelation,
    Relation,
    TableRelation,
    Union,
    Values,
    WindowRelation,
    quote_name,
)
from muntin.model.rolling import emits_plain_rows
from muntin.model.spec import WindowSpec
from muntin.sinks.declared import Surroundings
from muntin.spark.host.chain import (
    add_window_time,
    drop_emission,
    filter_results,
    find_end_columns,
    find_upstream,
    mark_results,
)
from muntin.spark.join import Joined
from muntin.spark.join_plan import build_join
from muntin.spark.lookups import both, create_lookup, in_full, join_table, refuse_offset
from muntin.spark.session import require, session
from muntin.spark.sinks.ranked import RankedShape, one_by_one
from muntin.spark.sinks.ranked import rows_of as rows_in_window
from muntin.spark.sinks.selected import (
    EachShape,
    PairShape,
    WindowShape,
    select_columns,
)
from muntin.spark.sources.inputs import Input
from muntin.spark.sources.malformed import keep_malformed, pass_malformed, unite_rows
from muntin.spark.sources.naming import resolve_time
from muntin.spark.sources.tables import read_table
from muntin.spark.window_plan import build_windows
from muntin.spark.window_rows import build_plain_rows, build_rolling_rows
from muntin.spark.windowed import WindowedAggregate

if TYPE_CHECKING:
    from muntin.sql.script import CompiledQuery

Find = Callable[[str], DataFrame]
SqlInput = DataFrame | WindowedAggregate


def bind_tables(
    spark: SparkSession | None,
    question: CompiledQuery,
    tables: Mapping[str, SqlInput],
) -> WindowedAggregate | Joined:
    """Build a query on Spark over DataFrames, or windows, by name, for ``muntin.sql``.

    The session is by default that of the tables, or a new one.
    """
    frames = {n: t if isinstance(t, DataFrame) else t.results for n, t in tables.items()}
    if spark is None:
        spark = next((frame.sparkSession for frame in frames.values()), None) or session()
    return bind_statement(spark, question, frames)


def bind_statement(
    spark: SparkSession | None,
    question: CompiledQuery,
    frames: Mapping[str, DataFrame],
) -> WindowedAggregate | Joined:
    """Build a query, and find its tables among frames, declared tables and Spark's catalog."""
    lowered = question.lowered
    surroundings = Surroundings({}, os.environ, keeps_secrets=True)
    frames_by_name = {name.lower(): frame for name, frame in frames.items()}

    def find(name: str) -> DataFrame:
        if name.lower() in frames_by_name:
            return frames_by_name[name.lower()]
        table = question.tables.get(name.lower())
        if spark is not None and table is not None:
            try:
                return read_table(spark, table, surroundings)
            except OptionError as error:
                raise question.locate_option(name, error) from error
        if spark is not None:
            try:
                return spark.table(name)
            except PySparkException as error:
                hint = "create it, or pass it by name: mt.sql(spark, statement, clicks=clicks)"
                raise OptionError(
                    "FROM", name, f"can't be read: {describe_spark_error(error)}", hint
                ) from error
        hint = "pass it by name, as in mt.sql(spark, statement, clicks=clicks)"
        raise OptionError("FROM", name, "isn't a table", hint)

    try:
        query = bind(lowered.query, find)
        if lowered.order is not None:
            query.sort_results(lowered.order)
        return query
    except OptionError as error:
        raise question.locate_error(error) from error
    except PySparkException as error:
        text, at = question.locate_expression(find_refused_expression(lowered.query, find))
        problem = f"Spark refuses this: {describe_spark_error(error)}"
        hint = "check the columns of the table and their types"
        raise SqlError(text, at, problem, hint) from error


# The line of a traceback that names the exception.
_RAISED = re.compile(r"[\w.]+(?:Error|Exception|Exit|Interrupt)\b")


def get_first_line(error: Exception) -> str:
    """Return the first line of Spark's error, without its final punctuation.

    If that only announces the traceback of a Python process, it is the exception of that process.
    """
    lines = str(error).strip().splitlines()
    if lines[0].endswith(TRACEBACK):
        raised = [line for line in lines[1:] if _RAISED.match(line)]
        lines = [re.sub(r"^muntin\.[\w.]+: ", "", line) for line in raised[-1:]] or lines
    return lines[0].rstrip(".;")


def describe_spark_error(error: Exception) -> str:
    """Return the first line of Spark's error, without its error class and SQLSTATE."""
    return re.sub(r"^\[[\w.]+\]\s*|\.?\s*SQLSTATE: \w+", "", get_first_line(error)).rstrip(". ")


def bind(query: QueryRelation, find: Find) -> WindowedAggregate | Joined:
    """Build a query over DataFrames."""
    return (
        _bind_join(query, find) if isinstance(query, JoinRelation) else _bind_windows(query, find)
    )


def _bind_windows(windowing: WindowRelation, find: Find) -> WindowedAggregate:
    spec = windowing.spec
    frame = select_rows(windowing.source, find)
    require(frame.sparkSession)
    keys = tuple(_resolve_key(frame, key) for key in windowing.keys)
    if spec.offset:
        refuse_offset(windowing.source, spec.offset)
    resolver = Resolver(frame.columns, _parse)
    bare = resolver.resolve_spec(spec)
    if windowing.ranking is not None:
        # An operator's results have an emission, and so have the rows of windows over them.
        ranked = drop_emission(frame, find_upstream(frame))
        bare = replace(bare, aggregates={ROWS: rows_in_window(ranked, windowing.ranking)})
    clock = resolver.resolve(windowing.clock)
    frame, upstream = add_window_time(frame, find_upstream(frame), bare.time)
    time, computed = resolve_time(frame, bare.time)
    bare = replace(bare, time=time)
    bare = cover_disorder(bare, upstream)
    input_ = Input(
        frame,
        time,
        windowing.where,
        clock,
        spec.limits,
        bare.offset,
        upstream,
        computed_time=computed,
    )
    if emits_plain_rows(bare):
        return _bind_plain_rows(windowing, input_, bare)
    if windowing.each and windowing.columns is None:
        return WindowedAggregate(*build_rolling_rows(input_, keys, bare, windowing.shards))
    plan = build_windows(input_, keys, bare, windowing.shards)
    tables = tuple(create_lookup(one, select_rows(one.table, find)) for one in windowing.lookups)
    if windowing.columns is not None:
        windowing = replace(windowing, columns=tuple(in_full(windowing.columns, tables)))
    shape: WindowShape | RankedShape | EachShape | None = WindowShape.of(windowing, tables)
    if windowing.each:
        shape = EachShape.of(windowing, tables)
    if windowing.ranking is not None:
        shape = RankedShape.of(windowing.ranking, plan.keys or ())
    aggregate = WindowedAggregate(plan, shape)
    _ = aggregate.results.schema  # Have Spark check the select list now, not when the query starts.
    return aggregate


def _bind_plain_rows(
    windowing: WindowRelation, input_: Input, spec: WindowSpec
) -> WindowedAggregate:
    """Build a query without windows over a DataFrame."""
    plan, shape = build_plain_rows(input_, spec, windowing.columns, windowing.shards)
    rows = WindowedAggregate(plan, shape)
    _ = rows.results.schema  # Have Spark check the select list now, not when the query starts.
    return rows


def _bind_join(joining: JoinRelation, find: Find) -> Joined:
    frames = {"left": select_rows(joining.left, find), "right": select_rows(joining.right, find)}
    require(frames["left"].sparkSession)
    spec, inputs = joining.spec, {}
    newest = spec.bound.revises
    for index, side in enumerate(SIDES):
        # A table may change: each of its rows replaces the one before.
        table = isinstance(spec.bound, ByArrival) and side == "right"
        upstream = find_upstream(frames[side], each_change=newest or table)
        if upstream is not None:
            upstream = replace(upstream, newest=table)
        frame = frames[side] = frames[side] if newest else drop_emission(frames[side], upstream)
        resolver = Resolver(frame.columns, _parse)
        side_spec = resolver.resolve_side(spec.side(side), joining.names[index])
        side_spec = cover_disorder(side_spec, upstream)
        spec = spec.with_side(side, side_spec)
        clock = resolver.resolve(joining.clocks[index])
        inputs[side] = Input(
            frame, side_spec.time, None, clock, side_spec.limits, side_spec.offset, upstream
        )
    plan = build_join(inputs, spec, SUFFIX, joining.shards, both_keys=joining.keeps_both_keys)
    shape = PairShape.of(joining, spec, frames["left"].columns, frames["right"].columns)
    if joining.shows_pairs_unchanged and not shape.names.payloads:
        return Joined(plan)
    join = Joined(plan.feeding() if shape.computes else plan, shape)
    _ = join.results.schema
    return join


def find_refused_expression(query: QueryRelation, find: Find) -> str | None:
    """Return the first expression that Spark refuses in a query that it refused as a whole."""
    for rows_of, text in _query_expressions(query, find):
        try:
            frame = rows_of()
        except (PySparkException, OptionError):
            return None
        try:
            _ = frame.select(F.expr(text)).schema
        except PySparkException:
            return text
    return None


def _query_expressions(
    query: QueryRelation, find: Find
) -> Iterator[tuple[Callable[[], DataFrame], str]]:
    """Yield all expressions of a query with the rows they are computed of, sources first."""
    shown = [column.text for column in query.columns or ()]
    if isinstance(query, JoinRelation):
        yield from _relation_expressions(query.left, find)
        yield from _relation_expressions(query.right, find)
        after = partial(_rows_of_pairs, query, find)
        shown.append(query.where or "")
    else:
        yield from _relation_expressions(query.source, find)
        before = partial(select_rows, query.source, find)
        texts = [query.where or "", *(key.text for key in query.keys)]
        for aggregate in query.spec.aggregates.values():
            arguments = (aggregate.column, aggregate.by)
            texts += [one.text for one in arguments if isinstance(one, Expression)]
        windows, own = query.spec.windows, query.spec.windows.own_gap
        texts += [own.text] if isinstance(own, Expression) else []
        texts += windows.conditions.values()
        yield from ((before, text) for text in texts if text)
        for lookup in query.lookups:
            yield from _relation_expressions(lookup.table, find)
            table = partial(select_rows, lookup.table, find)
            yield from ((table, quote_name(name)) for _, name in lookup.equal)
        bare = replace(query, columns=None, having=None)
        after = partial(lambda: _rows_of_windows(bare, find))
        shown.append(query.having or "")
    yield from ((cache(after), text) for text in shown if text)


def _rows_of_windows(windowing: WindowRelation, find: Find) -> DataFrame:
    """Return the rows that the select list of a windowed query is computed of."""
    frame = _bind_windows(replace(windowing, lookups=()), find).results
    frame = one_by_one(frame) if windowing.each and not emits_plain_rows(windowing.spec) else frame
    for lookup in windowing.lookups:
        frame = create_lookup(lookup, select_rows(lookup.table, find)).of_frame(frame)
    return frame


def _relation_expressions(
    relation: Relation, find: Find
) -> Iterator[tuple[Callable[[], DataFrame], str]]:
    if isinstance(relation, WindowRelation | JoinRelation):
        yield from _query_expressions(relation, find)
    if isinstance(relation, Lookup):
        yield from _relation_expressions(relation.source, find)
        yield from _relation_expressions(relation.table, find)
        sides = (
            partial(select_rows, relation.source, find),
            partial(select_rows, relation.table, find),
        )
        yield partial(both, *sides), relation.on
    for part in relation.parts if isinstance(relation, Union) else ():
        yield from _relation_expressions(part, find)
    if isinstance(relation, Derived):
        yield from _relation_expressions(relation.source, find)
        read = partial(select_rows, relation.source, find)
        texts = [relation.where or "", *(column.text for column in relation.columns or ())]
        yield from ((read, text) for text in texts if text not in ("", "*"))


def _rows_of_pairs(joining: JoinRelation, find: Find) -> DataFrame:
    """Return the rows that the select list of a join is computed of."""
    join = _bind_join(replace(joining, columns=(), where=None), find)
    assert isinstance(join.shape, PairShape)
    return join.shape.name_pairs(join.plan.unpack_kind(RESULTS))


def select_rows(relation: Relation, find: Find) -> DataFrame:
    """Return the rows of a relation."""
    if isinstance(relation, TableRelation):
        return find(relation.name)
    if isinstance(relation, Values):
        names = ", ".join(map(quote_name, relation.columns))
        shown = f" AS t({names})" if names else ""
        return SparkSession.active().sql(f"SELECT * FROM VALUES {relation.text}{shown}")
    if isinstance(relation, Lookup):
        return join_table(
            relation, select_rows(relation.source, find), select_rows(relation.table, find)
        )
    if isinstance(relation, Union):
        return unite_rows([select_rows(part, find) for part in relation.parts])
    if not isinstance(relation, Derived):
        return bind(relation, find).results
    frame, step = select_rows(relation.source, find), _Selection(relation)
    upstream = find_upstream(frame)
    selected = step.of_frame(frame)
    return selected if upstream is None else mark_results(selected, upstream.then(step))


@dataclass(frozen=True)
class _Selection:
    """A subquery that filters rows and computes columns, row by row."""

    by_window: ClassVar[bool] = False

    relation: Derived

    def of_frame(self, frame: DataFrame, beside: Sequence[str] = ()) -> DataFrame:
        """Return the filtered rows with the selected columns."""
        where, shown = self.relation.where, self.relation.columns
        if where is not None:
            frame = filter_results(frame, pass_malformed(frame, where), beside)
        if shown is None:
            return frame
        return select_columns(frame, keep_malformed(frame, shown), beside)

    def bounds(self, distances: Mapping[str, int]) -> dict[str, int]:
        """Return the selected columns that follow a window's end, and their distances."""
        shown = self.relation.columns
        if shown is None:
            return dict(distances)
        whole = distances if any(c.text == "*" for c in shown) else {}
        return {**whole, **find_end_columns(((c.name, c.text) for c in shown), distances)}


def _parse(option: str, text: str) -> SparkColumn:
    return F.expr(text)


def _resolve_key(frame: DataFrame, key: Column) -> SparkColumn | str:
    own = resolve_name(frame.columns, key.name)
    if key.bare and (own in frame.columns or key.text != key.name or own.isidentifier()):
        return own if own == key.name else F.col(quote_name(own)).alias(key.name)
    if own in frame.columns or set("`.") & set(key.name):
        problem = (
            "is another column of the table" if own in frame.columns else "is no column's name"
        )
        raise OptionError("key", key.name, problem, "give the key a name of its own with AS")
    return F.expr(key.text).alias(key.name)
