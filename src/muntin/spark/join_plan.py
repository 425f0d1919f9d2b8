"""Checks joins on Spark, and builds their plans."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import polars as pl
from pyspark.sql.types import LongType, StringType, StructField, StructType

from muntin.engine import columns
from muntin.engine.joins.joiner import SIDE, Joiner
from muntin.engine.joins.operator import JoinOperator
from muntin.engine.operator import REJECTED, RESULTS
from muntin.hosts.clock import period_of
from muntin.model.joins import SIDES, JoinSpec, Newest, SideName
from muntin.spark.host.chain import chained, changing
from muntin.spark.host.plan import Plan
from muntin.spark.host.schema import nullable
from muntin.spark.host.shards import count_shards, slots
from muntin.spark.host.task import Stage, identity
from muntin.spark.host.zones import zone_of
from muntin.spark.sources.inputs import Input, OperatorInput


def build_join(
    inputs: dict[SideName, Input],
    spec: JoinSpec,
    suffix: str,
    shards: int | None,
    *,
    both_keys: bool = False,
) -> Plan:
    """Check everything that can be checked before anything runs, and build the pipeline."""
    asked = spec

    def again(count: int) -> Plan:
        given = {side: one.with_shards(count) for side, one in inputs.items()}
        return build_join(given, asked, suffix, shards or count, both_keys=both_keys)

    count = count_shards(inputs["left"].frame.sparkSession, shards)
    if isinstance(spec.bound, Newest):
        spec = _as_late(inputs, spec)
    schemas: dict[SideName, dict[str, pl.DataType]] = {}
    sources = []
    for side in SIDES:
        source = OperatorInput.of(inputs[side], inputs[side].columns(), side)
        schemas[side] = source.schema
        # The zone that upstream operators depend on is in their own specs.
        zone = zone_of(source.messages, inputs[side].time, whole=inputs[side].fed is None)
        own = replace(spec.side(side), types=_types(source), zone=zone)
        spec = replace(spec, shards=count).with_side(side, own)
        time = [] if own.time is None else [own.time]
        used = frozenset((*own.keys, *(own.offset or ()), *time, *own.clocks))
        by_rows = spec.axis == "rows"
        follows = not by_rows and own.idle is None
        source = replace(source, used=used, ordered=by_rows, follows=follows)
        sources.append(source.with_clocks(own))
    make = partial(JoinOperator, spec, schemas, suffix, both_keys=both_keys)
    joiner = make().joiner
    chain = chained(tuple(sources), _rejected(joiner, inputs))
    columns_of = {RESULTS: _results(joiner, inputs), REJECTED: chain.rejected}
    stage = Stage(make, slots(count), columns_of, identity(), chain.beside)
    clocked = [spec.side(side) for side in SIDES if inputs[side].clock is None]
    policies = [policy for one in clocked for policy in (one.firing.early, one.firing.late)]
    period = period_of(policies, *(one.idle for one in clocked))
    keys = None
    if joiner.revises:
        bounds = (columns.WINDOW_START, columns.WINDOW_END)
        keys = tuple(key for key in spec.left.keys if key not in bounds)
    return Plan(spec, stage, chain.sources, period, keys, shards, again)


def _types(source: OperatorInput) -> dict[str, str]:
    """Return the names of the types of a side's columns."""
    return {name: str(kind) for name, kind in source.schema.items()}


def _as_late(inputs: dict[SideName, Input], spec: JoinSpec) -> JoinSpec:
    """Return the join with at least the grace of the windows on each side."""
    for name in SIDES:
        side, fed = spec.side(name), inputs[name].fed
        if fed is not None:
            grace = max(changing(fed, side.keys), side.firing.grace)
            firing = replace(side.firing, grace=grace, retention=grace)
            spec = spec.with_side(name, replace(side, firing=firing))
    return spec


def _results(joiner: Joiner, inputs: dict[SideName, Input]) -> StructType:
    """Return the columns of results: the left side's, the right side's, and the emission."""
    fields = [
        StructField(out, nullable(inputs[side].frame.schema[name].dataType))
        for side in SIDES
        for name, out in joiner.names[side].items()
    ]
    fields.append(StructField(columns.EMISSION, StringType(), False))
    if joiner.revises:
        fields.append(StructField(columns.REVISION, LongType(), False))
    return StructType(fields)


def _rejected(joiner: Joiner, inputs: dict[SideName, Input]) -> StructType:
    """Return the columns of rejected messages: the side, its columns, the reason, the watermark."""
    kinds = {
        out: nullable(inputs[side].frame.schema[name].dataType)
        for side in SIDES
        for name, out in joiner.aside[side].items()
    }
    return StructType(
        [
            StructField(SIDE, StringType(), False),
            *(StructField(name, kind) for name, kind in kinds.items()),
            StructField(columns.REASON, StringType(), False),
            StructField(columns.WATERMARK, inputs["left"].moments),
        ]
    )
