"""Windows on Spark: what the user asked for, checked and made a plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from muntin.engine.operator import REJECTED, RESULTS
from muntin.engine.windows.operator import WindowOperator
from muntin.model.accepted import check
from muntin.model.aggregates import Aggregate
from muntin.model.errors import OptionError
from muntin.model.grouping_sets import GROUPING_ID
from muntin.model.spec import WindowSpec
from muntin.spark.host.chain import chained
from muntin.spark.host.plan import OperatorInput, Plan
from muntin.spark.host.schema import rejected_schema, result_schema, shape_of
from muntin.spark.host.shards import buckets_of, slots
from muntin.spark.host.task import Stage, identity
from muntin.spark.host.zones import zone_of
from muntin.spark.sources.inputs import Input, Sent, period_of


@dataclass(frozen=True)
class Request:
    """What the user asked for, still with Spark columns in it.

    Attributes:
        input: What is read.
        keys: Key columns, by name or as expressions.
        spec: The query; its keys and columns are filled in here.
        buckets: How many shards; ``None``: one a core.
    """

    input: Input
    keys: tuple[Column | str, ...]
    spec: WindowSpec
    buckets: int | None = None


def build(request: Request) -> Plan:
    """Check everything that can be checked before anything runs, and build the pipeline."""
    given = request.input
    frame, time = given.frame, given.time
    sent = given.columns()
    keys = _named(frame, request.keys, sent)
    aggregates = _with_columns(frame, request.spec, sent)
    source = OperatorInput.of(given, sent)
    shapes = {field.name: shape_of(field.dataType) for field in source.messages.schema.fields}
    for name, aggregate in aggregates.items():
        check(aggregate, shapes, words=f"{name}={request.spec.aggregates[name]}")
    read = [*keys, *(str(c) for a in aggregates.values() for c in a.columns)]
    types = {c: str(source.schema[c]) for c in (read if time is None else [*read, time])}
    # What an operator before depends on is its own.
    zone = zone_of(source.messages, time, whole=given.fed is None)
    buckets = buckets_of(frame.sparkSession, request.buckets)
    if request.spec.sets is not None:
        keys, types[GROUPING_ID] = (*keys, GROUPING_ID), "Int64"
    whole = replace(request.spec, keys=keys, time=time, aggregates=aggregates, types=types)
    spec = replace(whole, buckets=buckets, zone=zone)
    used = frozenset((*spec.types, *(spec.offset or ())))
    # A watermark ahead of the newest row would be ahead of rows that are still to come.
    follows = spec.axis == "time" and spec.idle is None and spec.lateness >= 0
    source = replace(source, used=used, ordered=spec.by_arrival, follows=follows)
    return _plan(request, spec, source, buckets)


def _plan(request: Request, spec: WindowSpec, source: OperatorInput, buckets: int) -> Plan:
    given, firing = request.input, spec.firing
    make = partial(WindowOperator, spec, source.schema)
    results = result_schema(source.messages.schema, make().combiner)
    chain = chained((source,), rejected_schema(given.frame.schema, given.time))
    schemas = {RESULTS: results, REJECTED: chain.rejected}
    ticks = (firing.on_wall_clock or spec.idle is not None) and given.clock is None
    plan = Plan(
        spec,
        Stage(make, slots(buckets), schemas, identity(), chain.beside),
        chain.sources,
        period_of((firing.early, firing.late if firing.grace else None), spec.idle)
        if ticks
        else None,
        spec.keys,
        request.buckets,
        partial(_again, request),
    )
    return replace(plan, lean=partial(_lean, plan, spec, *chain.sources))


def _lean(plan: Plan, spec: WindowSpec, source: OperatorInput) -> Plan:
    """The same without rejected messages, whose other columns need not travel then."""
    given = source.input
    needed = {*spec.types, given.clock, *(given.offset or ())}
    rest = [name for name in given.frame.columns if name not in needed]
    # Rows without any column couldn't be counted.
    less = source.without(rest if len(rest) < len(source.sent) else rest[1:])
    make = partial(WindowOperator, spec, less.schema)
    schemas = {RESULTS: plan.results}
    stage = replace(plan.stage, make=make, schemas=schemas, identity=identity())
    return replace(plan, stage=stage, sources=(less,), lean=None)


def _again(request: Request, count: int) -> Plan:
    given, buckets = request.input.with_shards(count), request.buckets or count
    return build(replace(request, input=given, buckets=buckets))


def _named(frame: DataFrame, keys: tuple[Column | str, ...], sent: Sent) -> tuple[str, ...]:
    """The names of the key columns; expressions are added to what is sent."""
    names = []
    for key in keys:
        if isinstance(key, str) and key in frame.columns:
            names.append(key)
            continue
        expression = _field(frame, key) if isinstance(key, str) else key
        name = _name_of(frame, expression)
        sent.setdefault(name, expression)
        names.append(name)
    return tuple(names)


def _field(frame: DataFrame, path: str) -> Column:
    """The field of a struct that a key names, as ``user.country``."""
    kind: DataType = frame.schema
    for name in path.split("."):
        known = kind.names if isinstance(kind, StructType) else []
        if name not in known:
            break
        assert isinstance(kind, StructType)
        kind = kind[name].dataType
    else:
        return F.col(".".join(f"`{name}`" for name in path.split(".")))
    hint = f'give some of {", ".join(frame.columns)}, or a field of a struct: "column.field"'
    raise OptionError("key", path, "isn't a column", hint)


def _name_of(frame: DataFrame, key: Column) -> str:
    """What the output calls a key that is an expression: by its alias, as Spark does."""
    selected = frame.select(key)
    name: str = selected.columns[0]
    if name in frame.columns:
        own = F.col(f"`{name}`")
        if not any(selected.sameSemantics(frame.select(one)) for one in (own, own.alias(name))):
            hint = 'name the expression: .alias("…")'
            raise OptionError("key", name, "is another column of the frame", hint)
    elif set("`.") & set(name):
        hint = 'name it: .alias("…"), without dots and backticks'
        raise OptionError("key", name, "can't be the name of a column", hint)
    return name


def _with_columns(frame: DataFrame, spec: WindowSpec, sent: Sent) -> dict[str, Aggregate]:
    """The aggregates over named columns; expressions are added to what is sent."""
    found = {}
    for i, (name, aggregate) in enumerate(spec.aggregates.items()):
        changes: dict[str, Any] = {}
        for column in aggregate.columns:
            if isinstance(column, str) and column not in frame.columns:
                hint = f"give one of {', '.join(frame.columns)}"
                if not column.isidentifier():
                    hint += f", or an expression: F.expr({column!r})"
                raise OptionError("agg", f"{name}={aggregate}", "reads no such column", hint)
        for part in ("column", "by"):
            column = getattr(aggregate, part)
            if column is None or isinstance(column, str):
                continue
            if not isinstance(column, Column):
                hint = "give the name of a column, or an expression as a Column"
                raise OptionError("agg", f"{name}={aggregate}", "isn't over a column", hint)
            changes[part] = f"__muntin_{part}_{i}"
            sent[changes[part]] = column
        found[name] = replace(aggregate, **changes)
    return found
