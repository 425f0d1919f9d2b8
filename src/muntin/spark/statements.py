"""Queries that were lowered from SQL or from a file, bound to DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muntin.model.aggregates import Aggregate
from muntin.model.errors import OptionError, SqlError
from muntin.model.joins import SIDES, JoinSpec, Side
from muntin.model.pipeline import (
    Column,
    Derived,
    Expression,
    Joining,
    Query,
    Relation,
    Windowing,
    quoted,
)
from muntin.spark.inputs import Input
from muntin.spark.join import Joined
from muntin.spark.joining import build_join
from muntin.spark.onward import fed_by
from muntin.spark.plan import Request, build
from muntin.spark.selected import PairShape, SelectedAggregate, SelectedJoin, Shape
from muntin.spark.session import require
from muntin.spark.sources import Surroundings, read
from muntin.spark.windowed import WindowedAggregate, fed_input
from muntin.sql import door

if TYPE_CHECKING:
    from muntin.sql.script import Question

Find = Callable[[str], DataFrame]
Table = DataFrame | WindowedAggregate
# Behind the names of right columns that the left side has too.
_SUFFIX = "_right"


def sql(
    source: SparkSession | Mapping[str, Table], statement: str, /, **tables: Table
) -> WindowedAggregate | Joined:
    """A windowed aggregation or a join out of SQL: the same object as the Python sentence gives.

    Args:
        source: A session, or DataFrames by the names that the statement knows them by. Windows
            over other windows take those, or their ``.full``, as a table.
        statement: ``SELECT ... GROUP BY ... EMIT ...``, perhaps with ``CREATE`` statements before
            it.
        **tables: DataFrames by name. A name that isn't among them, nor among the tables that the
            statement creates, is looked up in the session's catalog.

    Returns:
        ``.results``, ``.rejected``, ``.start(...)`` and ``.explain()``.

    Raises:
        SqlError: When the statement can't be run: the place, the problem and the cure.
        MissingExtraError: When sqlglot isn't installed.

    Example:
        >>> views = sql(
        ...     spark,
        ...     "SELECT page, count(*) AS n FROM clicks WATERMARK ts DELAY OF INTERVAL 1 MINUTE "
        ...     "GROUP BY page, TUMBLE(ts, INTERVAL 10 MINUTES)",
        ...     clicks=clicks,
        ... )  # doctest: +SKIP
    """
    given = dict(tables)
    spark: SparkSession | None
    if isinstance(source, Mapping):
        given |= source
    frames = {n: t if isinstance(t, DataFrame) else t.results for n, t in given.items()}
    if isinstance(source, Mapping):
        spark = next((frame.sparkSession for frame in frames.values()), None)
    else:
        spark = source
    return asked(spark, door.question(statement), frames)


def asked(
    spark: SparkSession | None,
    question: Question,
    frames: Mapping[str, DataFrame],
    around: Surroundings | None = None,
) -> WindowedAggregate | Joined:
    """A query with its tables found.

    Args:
        spark: The session, if there is one.
        question: The query.
        frames: DataFrames by name.
        around: Where placeholders get their values.

    Raises:
        SqlError: When it can't be run, at the place where that is known.
    """
    lowered = question.lowered
    here = around or Surroundings()
    known = {name.lower(): frame for name, frame in frames.items()}

    def find(name: str) -> DataFrame:
        if name.lower() in known:
            return known[name.lower()]
        table = question.tables.get(name.lower())
        if spark is not None and table is not None:
            return read(spark, table, here)
        if spark is not None:
            return spark.table(name)
        cure = "give it by its name, as in mt.sql(spark, statement, clicks=clicks)"
        raise OptionError("FROM", name, "isn't known", cure)

    try:
        return bind(lowered.query, find)
    except OptionError as error:
        # Of an aggregate the error's value begins with its name, which may be the beginning of
        # another's.
        begun = f"{error.option} {error.value}="
        named = (part for part in lowered.spans if begun.startswith(f"{part}="))
        at = lowered.spans.get(max(named, key=len, default=error.option), (0, 1))
        said = f"{error.option} {error.value!r} {error.problem}"
        raise SqlError(question.text, at, said, error.cure) from error
    except PySparkException as error:
        said = first_line(error)
        raise SqlError(question.text, (0, 1), said, "see what the table has") from error


def first_line(error: Exception) -> str:
    """What Spark says first, without what follows."""
    return str(error).strip().splitlines()[0].rstrip(".;")


def bind(query: Query, find: Find) -> WindowedAggregate | Joined:
    """A query over DataFrames.

    Args:
        query: The query.
        find: Gives the DataFrame of a name.

    Raises:
        OptionError: Naming the option, its value and the cure.
    """
    return _joined(query, find) if isinstance(query, Joining) else _aggregated(query, find)


def _aggregated(windowing: Windowing, find: Find) -> WindowedAggregate:
    spec = windowing.spec
    frame = rows(windowing.source, find)
    require(frame.sparkSession)
    keys = tuple(_key(frame, key) for key in windowing.keys)
    time = None if spec.time is None else named(frame, spec.time)
    offset = spec.offset and (named(frame, spec.offset[0]), named(frame, spec.offset[1]))
    aggregates = {name: _reading(frame, agg) for name, agg in spec.aggregates.items()}
    bare = replace(spec, keys=(), time=time, aggregates=aggregates, offset=offset)
    clock = None if windowing.clock is None else named(frame, windowing.clock)
    fed = fed_by(frame)
    given = fed_input(Input(frame, time, windowing.where, clock, spec.max_ahead, offset), fed)
    plan = build(Request(given, keys, bare, windowing.buckets, fed))
    shape = Shape.of(windowing)
    if shape is None:
        return WindowedAggregate(plan)
    made = SelectedAggregate(plan, shape)
    _ = made.results.schema  # Spark looks at the select list now, not when the query starts.
    return made


def _joined(joining: Joining, find: Find) -> Joined:
    """A join over DataFrames."""
    frames = {"left": rows(joining.left, find), "right": rows(joining.right, find)}
    require(frames["left"].sparkSession)
    spec, inputs = joining.spec, {}
    for place, side in enumerate(SIDES):
        frame = frames[side]
        fed_by(frame)
        known = _side(frame, spec.side(side), joining.names[place])
        spec = spec.with_side(side, known)
        clock = joining.clocks[place] and named(frame, str(joining.clocks[place]))
        inputs[side] = Input(frame, known.time, None, clock, known.max_ahead, known.offset)
    plan = build_join(inputs, spec, _SUFFIX, joining.buckets)
    if joining.columns is None and joining.where is None:
        return Joined(plan)
    shape = _pair_shape(joining, spec, frames["left"], frames["right"])
    made = SelectedJoin(plan, shape)
    _ = made.results.schema
    return made


def _side(frame: DataFrame, side: Side, name: str) -> Side:
    keys = tuple(named(frame, key) for key in side.keys)
    for key in keys:
        if key not in frame.columns:
            cure = f"give some of {', '.join(frame.columns)}"
            raise OptionError("on", key, f"isn't a column of {name}", cure)
    time = side.time and named(frame, side.time)
    offset = side.offset and (named(frame, side.offset[0]), named(frame, side.offset[1]))
    return replace(side, keys=keys, time=time, offset=offset)


def _pair_shape(joining: Joining, spec: JoinSpec, left: DataFrame, right: DataFrame) -> PairShape:
    same = dict(zip(spec.right.keys, spec.left.keys, strict=True))
    told = {c: same.get(c, f"{c}{_SUFFIX}" if c in left.columns else c) for c in right.columns}
    both = {c.lower() for c in left.columns} & {c.lower() for c in right.columns}
    keys = {two.lower() for two, one in same.items() if two.lower() == one.lower()}
    for name in joining.bare:
        if name.lower() in both - keys:
            cure = f"write {joining.names[0]}.{name} or {joining.names[1]}.{name}"
            raise OptionError("SELECT", name, "is a column of both sides", cure)
    sides = (joining.names[0], {c: c for c in left.columns}), (joining.names[1], told)
    return PairShape(joining.columns, joining.where, sides)


def rows(relation: Relation, find: Find) -> DataFrame:
    """The rows of a relation."""
    if not isinstance(relation, Derived):
        return find(relation.name)
    frame = rows(relation.source, find)
    if relation.where is not None:
        frame = frame.where(relation.where)
    if relation.columns is None:
        return frame
    return frame.selectExpr(
        *("*" if c.text == "*" else f"{c.text} AS {quoted(c.name)}" for c in relation.columns)
    )


def named(frame: DataFrame, name: str) -> str:
    """A column's name as the frame has it; SQL doesn't care about capitals."""
    if name in frame.columns:
        return name
    like = [column for column in frame.columns if column.lower() == name.lower()]
    return like[0] if len(like) == 1 else name


def _key(frame: DataFrame, key: Column) -> SparkColumn | str:
    own = named(frame, key.name)
    if key.bare:
        return own if own == key.name else F.col(quoted(own)).alias(key.name)
    if own in frame.columns:
        cure = "give the key another name with AS"
        raise OptionError("key", key.name, "is another column of the table", cure)
    return F.expr(key.text).alias(key.name)


def _reading(frame: DataFrame, aggregate: Aggregate) -> Aggregate:
    def column(given: Any) -> Any:
        if isinstance(given, Expression):
            return F.expr(given.text)
        return named(frame, given) if isinstance(given, str) else given

    return replace(aggregate, column=column(aggregate.column), by=column(aggregate.by))
