"""Checks joins on the local host, and builds their plans."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.operator import JoinOperator
from muntin.hosts.chain import with_change_grace
from muntin.hosts.clock import period_of_join
from muntin.hosts.local.messages import result_time_type
from muntin.hosts.local.plan import (
    Input,
    OperatorInput,
    Plan,
    has_clocks,
    lay_out_rejected,
    set_upstream_shards,
)
from muntin.hosts.local.window_plan import DEFAULT_SHARDS
from muntin.model.joins import SIDES, JoinSpec, Newest, SideName


def build_join(
    inputs: dict[SideName, Input],
    spec: JoinSpec,
    suffix: str,
    shards: int | None = None,
    *,
    both_keys: bool = False,
) -> Plan:
    """Check everything that can be checked before anything runs, and build the plan.

    Raises:
        OptionError: When a column or a type can't work, or a side has no bound; the error names it.
    """
    asked = spec

    def again(count: int) -> Plan:
        given = {side: set_upstream_shards(one, count) for side, one in inputs.items()}
        return build_join(given, asked, suffix, shards or count, both_keys=both_keys)

    if isinstance(spec.bound, Newest):
        spec = with_change_grace(spec, {side: one.fed for side, one in inputs.items()})
    spec = replace(spec, shards=shards or DEFAULT_SHARDS)
    sources = []
    for side in SIDES:
        spec, source = _side(side, inputs[side], spec)
        sources.append(source)
    schemas: dict[SideName, dict[str, pl.DataType]]
    schemas = {side: source.reader.schema for side, source in zip(SIDES, sources, strict=True)}
    operator = JoinOperator(spec, schemas, suffix, both_keys=both_keys)
    joiner = operator.joiner
    rejected = dict(joiner.empty_rejected.schema)
    rejected[columns.WATERMARK] = result_time_type(sources[0].reader.time_type)
    named: dict[str, Input] = {side: inputs[side] for side in SIDES}
    return Plan(
        spec,
        operator,
        tuple(sources),
        results=joiner.make_empty_results().schema,
        layout=lay_out_rejected(pl.Schema(rejected), named, joins=True),
        period=period_of_join([spec.side(side) for side in SIDES if inputs[side].clock is None]),
        keys=spec.result_keys,
        shards=spec.shards or 1,
        asked=shards,
        again=again,
    )


def _side(side: SideName, given: Input, spec: JoinSpec) -> tuple[JoinSpec, OperatorInput]:
    """Return the spec with the types of a side, and the input of that side."""
    reader = given.reader()
    types = {name: str(kind) for name, kind in reader.schema.items()}
    zone = "UTC" if reader.time_type == pl.String() else None
    own = replace(spec.side(side), types=types, zone=zone)
    reader = replace(reader, used=own.used_columns, partitions=has_clocks(given, own))
    follows = own.follows_upstream(spec.axis)
    ahead = given.fed.ahead(own.time) if given.fed is not None and follows else None
    return spec.with_side(side, own), OperatorInput(side, given.rows, reader, ahead)
