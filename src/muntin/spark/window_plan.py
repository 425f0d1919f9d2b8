"""Checks windowed queries on Spark, and builds their plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    CalendarIntervalType,
    DayTimeIntervalType,
    NullType,
    StringType,
    StructType,
)

from muntin.engine.operator import REJECTED, RESULTS
from muntin.engine.windows.operator import WindowOperator
from muntin.hosts.tick_period import find_tick_period
from muntin.hosts.windows import complete_spec, name_operands, name_session_columns
from muntin.model.errors import OptionError
from muntin.model.pipeline import quote_name
from muntin.model.spec import WindowSpec
from muntin.sources.source import MALFORMED_DETAIL_COLUMN
from muntin.spark.host.chain import connect_upstreams
from muntin.spark.host.plan import Plan
from muntin.spark.host.schema import (
    add_rejected_columns,
    find_spark_shape,
    polars_schema,
    result_schema,
)
from muntin.spark.host.shards import count_shards, slots
from muntin.spark.host.task import Stage, identity
from muntin.spark.host.zones import zone_of
from muntin.spark.sources.inputs import Input, OperatorInput, Sent
from muntin.spark.sources.kafka_rows import KafkaRows
from muntin.spark.sources.naming import name_expression, resolve_field


def build_windows(
    input_: Input, keys: tuple[Column | str, ...], spec: WindowSpec, shards: int | None = None
) -> Plan:
    """Check everything that can be checked before anything runs, and build the pipeline.

    The spec's keys and columns are added here. The default is a shard for each core.
    """
    frame, time = input_.frame, input_.time
    spec.check_end(not frame.isStreaming)
    columns_sent = input_.columns()
    key_names = _name_keys(frame, keys, columns_sent, spec.zone_column)
    aggregates, operands = name_operands(spec.aggregates, partial(_resolve_operand, frame))
    windows, of_sessions = name_session_columns(spec.windows, partial(_resolve_option, frame))
    columns_sent |= {**operands, **of_sessions}
    source = OperatorInput.of(input_, columns_sent)
    shapes = {
        field.name: find_spark_shape(field.dataType) for field in source.messages.schema.fields
    }
    for name, aggregate in aggregates.items():
        aggregate.check(shapes, words=f"{name}={spec.aggregates[name]}")
    completed_spec = complete_spec(
        spec,
        keys=key_names,
        time=time,
        aggregates=aggregates,
        windows=windows,
        schema=source.schema | ({} if time is None else polars_schema(input_.with_time_type(time))),
        shards=count_shards(frame.sparkSession, shards),
        # The zone that upstream operators depend on is in their own specs.
        zone=zone_of(source.messages, time, whole=input_.upstream is None),
    )
    used = frozenset((*completed_spec.types, *(spec.offset or ())))
    follows = spec.follows_upstream(spec.axis)
    source = replace(source, used=used, ordered=completed_spec.by_arrival, follows=follows)
    source = source.with_clocks(completed_spec)

    def rebuild(count: int) -> Plan:
        return build_windows(input_.with_shards(count), keys, spec, shards or count)

    return _make_plan(completed_spec, source, shards, rebuild)


def _make_plan(
    spec: WindowSpec,
    source: OperatorInput,
    requested_shards: int | None,
    rebuild: Callable[[int], Plan],
) -> Plan:
    input_ = source.input
    make = partial(WindowOperator, spec, source.schema)
    schema = source.messages.schema
    if input_.time is not None:
        schema = StructType([*schema.fields, *input_.with_time_type(input_.time).fields])
    results = result_schema(schema, make().combiner)
    chain = connect_upstreams((source,), add_rejected_columns(input_.frame.schema, input_.moments))
    schemas = {RESULTS: results, REJECTED: chain.rejected}
    stage = Stage(make, slots(spec.shards or 1), schemas, identity(), chain.layout)
    period = find_tick_period([spec], [input_.clock])
    plan = Plan(spec, stage, chain.sources, period, spec.keys, requested_shards, rebuild)
    return replace(plan, build_lean=partial(_drop_rejected, plan, spec, *chain.sources))


def _drop_rejected(plan: Plan, spec: WindowSpec, source: OperatorInput) -> Plan:
    """Return the plan without rejected messages, which sends only the columns that it needs."""
    input_ = source.input
    needed = {*spec.types, input_.clock, *(input_.offset or ())}
    if source.columnar and isinstance(source.read[1], KafkaRows):
        # The workers have them anyway, and a warning names a rejected message by them.
        needed |= {"partition", "offset", MALFORMED_DETAIL_COLUMN}
    rest = [name for name in input_.frame.columns if name not in needed]
    # Keep at least one column: rows without any couldn't be counted.
    less = source.without(rest if len(rest) < len(source.sent) else rest[1:])
    make = partial(WindowOperator, spec, less.schema)
    schemas = {RESULTS: plan.results_schema}
    stage = replace(plan.stage, make=make, schemas=schemas, identity=identity())
    return replace(plan, stage=stage, sources=(less,), build_lean=None)


def _name_keys(
    frame: DataFrame, keys: tuple[Column | str, ...], sent: Sent, zone_column: str | None
) -> tuple[str, ...]:
    """Return the names of the key columns, and add expressions to the columns that are sent."""
    names = []
    for key in keys:
        if isinstance(key, str) and key in frame.columns:
            names.append(key)
            continue
        option = "zone_column" if isinstance(key, str) and key == zone_column else "key"
        expression = resolve_field(frame, option, key) if isinstance(key, str) else key
        name = name_expression(frame, "key", expression, key)
        sent.setdefault(name, expression)
        names.append(name)
    return tuple(names)


def _resolve_option(frame: DataFrame, option: str, value: object) -> Column:
    """Return the column of an option of sessions: each message's own gap, or a condition."""
    if option == "by":
        return _compute_gap(frame, value)
    column = value
    if isinstance(value, str):
        if value in frame.columns:
            column = F.col(quote_name(value))
        elif option == "same" and value.replace(".", "").isidentifier():
            column = resolve_field(frame, option, value)
        else:
            column = F.expr(value)
    if not isinstance(column, Column):
        what = "a column" if option == "same" else "a condition"
        raise OptionError(option, value, f"isn't {what}", "give SQL, or an expression as a Column")
    try:
        kind = frame.select(column).schema[0].dataType
    except AnalysisException as error:
        hint = f"give an expression over {', '.join(frame.columns)}"
        raise OptionError(option, str(value), "can't be computed", hint) from error
    if option != "same" and not isinstance(kind, BooleanType | NullType):
        problem = f"has type {kind.simpleString()}, and a condition is true or false"
        raise OptionError(option, str(value), problem, "compare it with something")
    return column


def _compute_gap(frame: DataFrame, own_gap: object) -> Column:
    by = own_gap
    if isinstance(by, str):
        by = F.col(quote_name(by)) if by in frame.columns else resolve_field(frame, "by", by)
    if not isinstance(by, Column):
        raise OptionError("by", by, "isn't a column", "give its name, or an expression as a Column")
    kind = frame.select(by).schema[0].dataType
    if isinstance(kind, StringType):
        by = by.try_cast("interval")
    elif not isinstance(kind, DayTimeIntervalType | CalendarIntervalType):
        problem = f"is {kind.simpleString()}, not a length of time"
        hint = "give an interval, as F.make_dt_interval makes it, or text such as '5 minutes'"
        raise OptionError("by", own_gap, problem, hint)
    return F.unix_micros(F.timestamp_micros(F.lit(0)) + by)


def _resolve_operand(frame: DataFrame, operand: object, shown: str) -> Column | None:
    if isinstance(operand, str):
        return None if operand in frame.columns else resolve_field(frame, "agg", operand, shown)
    if not isinstance(operand, Column):
        hint = "give the name of a column, or an expression as a Column"
        raise OptionError("agg", shown, "isn't over a column", hint)
    return operand
