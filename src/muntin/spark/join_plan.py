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
from muntin.hosts.chain import with_change_grace
from muntin.hosts.tick_period import find_tick_period
from muntin.model.bounds import SideName
from muntin.model.joins import SIDES, JoinSpec
from muntin.spark.host.chain import connect_upstreams
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
    original_spec = spec

    def rebuild(count: int) -> Plan:
        resized = {side: one.with_shards(count) for side, one in inputs.items()}
        return build_join(resized, original_spec, suffix, shards or count, both_keys=both_keys)

    count = count_shards(inputs["left"].frame.sparkSession, shards)
    if spec.bound.revises:
        spec = with_change_grace(spec, {side: one.upstream for side, one in inputs.items()})
    schemas: dict[SideName, dict[str, pl.DataType]] = {}
    sources = []
    for side in SIDES:
        source = OperatorInput.of(inputs[side], inputs[side].columns(), side)
        schemas[side] = source.schema
        # The zone that upstream operators depend on is in their own specs.
        zone = zone_of(source.messages, inputs[side].time, whole=inputs[side].upstream is None)
        side_spec = replace(spec.side(side), types=_types(source), zone=zone)
        side_spec.check_end(not inputs[side].frame.isStreaming, f" ({side})")
        spec = replace(spec, shards=count).with_side(side, side_spec)
        source = replace(
            source,
            used=side_spec.used_columns,
            ordered=spec.axis == "rows",
            follows=side_spec.follows_upstream(spec.axis),
        )
        sources.append(source.with_clocks(side_spec))
    make = partial(JoinOperator, spec, schemas, suffix, both_keys=both_keys)
    joiner = make().joiner
    chain = connect_upstreams(tuple(sources), _list_rejected_columns(joiner, inputs))
    columns_of = {RESULTS: _list_result_columns(joiner, inputs), REJECTED: chain.rejected}
    stage = Stage(make, slots(count), columns_of, identity(), chain.layout)
    clocks = [inputs[side].clock for side in SIDES]
    period = find_tick_period([spec.side(side) for side in SIDES], clocks)
    return Plan(spec, stage, chain.sources, period, spec.result_keys, shards, rebuild)


def _types(source: OperatorInput) -> dict[str, str]:
    """Return the names of the types of a side's columns."""
    return {name: str(kind) for name, kind in source.schema.items()}


def _list_result_columns(joiner: Joiner, inputs: dict[SideName, Input]) -> StructType:
    """Return the columns of results: the left side's, the right side's, and the emission."""
    fields = [
        StructField(out, nullable(inputs[side].frame.schema[name].dataType))
        for side in SIDES
        for name, out in joiner.result_names[side].items()
    ]
    fields.append(StructField(columns.EMISSION, StringType(), False))
    if joiner.revises:
        fields.append(StructField(columns.REVISION, LongType(), False))
    return StructType(fields)


def _list_rejected_columns(joiner: Joiner, inputs: dict[SideName, Input]) -> StructType:
    """Return the columns of rejected messages: the side, its columns, the reason, the watermark."""
    kinds = {
        out: nullable(inputs[side].frame.schema[name].dataType)
        for side in SIDES
        for name, out in joiner.rejected_names[side].items()
    }
    return StructType(
        [
            StructField(SIDE, StringType(), False),
            *(StructField(name, kind) for name, kind in kinds.items()),
            StructField(columns.REASON, StringType(), False),
            StructField(columns.WATERMARK, inputs["left"].moments),
        ]
    )
