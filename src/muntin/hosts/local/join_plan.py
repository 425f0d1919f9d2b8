"""Checks joins on the local host, and builds their plans."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.operator import JoinOperator
from muntin.hosts.chain import with_change_grace
from muntin.hosts.local.messages import result_time_type
from muntin.hosts.local.plan import (
    LocalInput,
    LocalOperatorInput,
    LocalPlan,
    has_clocks,
    lay_out_rejected,
    set_upstream_shards,
)
from muntin.hosts.local.window_plan import DEFAULT_SHARDS
from muntin.hosts.tick_period import find_tick_period
from muntin.model.bounds import SideName
from muntin.model.joins import SIDES, JoinSpec


def plan_join(
    inputs: dict[SideName, LocalInput],
    spec: JoinSpec,
    suffix: str,
    shards: int | None = None,
    *,
    both_keys: bool = False,
) -> LocalPlan:
    """Check everything that can be checked before anything runs, and build the plan.

    Raises:
        OptionError: When a column or a type can't work, or a side has no bound; the error names it.
    """
    original_spec = spec

    def rebuild(count: int) -> LocalPlan:
        resized = {side: set_upstream_shards(one, count) for side, one in inputs.items()}
        return plan_join(resized, original_spec, suffix, shards or count, both_keys=both_keys)

    if spec.bound.revises:
        spec = with_change_grace(spec, {side: one.upstream for side, one in inputs.items()})
    spec = replace(spec, shards=shards or DEFAULT_SHARDS)
    sources = []
    for side in SIDES:
        spec, source = _complete_side(side, inputs[side], spec)
        sources.append(source)
    schemas: dict[SideName, dict[str, pl.DataType]]
    schemas = {side: source.reader.schema for side, source in zip(SIDES, sources, strict=True)}
    operator = JoinOperator(spec, schemas, suffix, both_keys=both_keys)
    joiner = operator.joiner
    rejected = dict(joiner.no_rejected.schema)
    rejected[columns.WATERMARK] = result_time_type(sources[0].reader.time_type)
    inputs_by_name: dict[str, LocalInput] = {side: inputs[side] for side in SIDES}
    return LocalPlan(
        spec,
        operator,
        tuple(sources),
        results=joiner.no_results.schema,
        layout=lay_out_rejected(pl.Schema(rejected), inputs_by_name, joins=True),
        period=find_tick_period(
            [spec.side(side) for side in SIDES], [inputs[side].clock for side in SIDES]
        ),
        keys=spec.result_keys,
        shards=spec.shards or 1,
        requested_shards=shards,
        rebuild=rebuild,
    )


def _complete_side(
    side: SideName, side_input: LocalInput, spec: JoinSpec
) -> tuple[JoinSpec, LocalOperatorInput]:
    """Return the spec with the types of a side, and the input of that side."""
    reader = side_input.make_reader()
    types = {name: str(kind) for name, kind in reader.schema.items()}
    zone = "UTC" if reader.time_type == pl.String() else None
    side_spec = replace(spec.side(side), types=types, zone=zone)
    reader = replace(
        reader, used=side_spec.used_columns, partitions=has_clocks(side_input, side_spec)
    )
    follows = side_spec.follows_upstream(spec.axis)
    ahead = (
        side_input.upstream.find_time_ahead(side_spec.time)
        if side_input.upstream is not None and follows
        else None
    )
    return spec.with_side(side, side_spec), LocalOperatorInput(side, side_input.rows, reader, ahead)
