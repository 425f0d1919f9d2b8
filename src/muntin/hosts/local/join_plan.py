"""Checks joins on the local host, and builds their plans."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.operator import JoinOperator
from muntin.hosts.chain import change_grace
from muntin.hosts.clock import period_of
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
        spec = _with_change_grace(inputs, spec)
    spec = replace(spec, shards=shards or DEFAULT_SHARDS)
    sources = []
    for side in SIDES:
        spec, source = _side(side, inputs[side], spec)
        sources.append(source)
    schemas: dict[SideName, dict[str, pl.DataType]]
    schemas = {side: source.reader.schema for side, source in zip(SIDES, sources, strict=True)}
    operator = JoinOperator(spec, schemas, suffix, both_keys=both_keys)
    joiner = operator.joiner
    rejected = dict(joiner.nothing_rejected.schema)
    rejected[columns.WATERMARK] = result_time_type(sources[0].reader.time_type)
    keys = None
    if joiner.revises:
        bounds = (columns.WINDOW_START, columns.WINDOW_END)
        keys = tuple(key for key in spec.left.keys if key not in bounds)
    named: dict[str, Input] = {side: inputs[side] for side in SIDES}
    return Plan(
        spec,
        operator,
        tuple(sources),
        results=joiner.nothing_emitted().schema,
        layout=lay_out_rejected(pl.Schema(rejected), named, joins=True),
        period=_period(inputs, spec),
        keys=keys,
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
    time = [] if own.time is None else [own.time]
    used = frozenset((*own.keys, *(own.offset or ()), *time, *own.clocks))
    reader = replace(reader, used=used, partitions=has_clocks(given, own))
    follows = spec.axis == "time" and own.idle is None
    ahead = given.fed.ahead(own.time) if given.fed is not None and follows else None
    return spec.with_side(side, own), OperatorInput(side, given.rows, reader, ahead)


def _period(inputs: dict[SideName, Input], spec: JoinSpec) -> int | None:
    """Return how often the join has something due by the machine's clock, microseconds."""
    clocked = [spec.side(side) for side in SIDES if inputs[side].clock is None]
    policies = [policy for one in clocked for policy in (one.firing.early, one.firing.late)]
    return period_of(policies, *(one.idle for one in clocked))


def _with_change_grace(inputs: dict[SideName, Input], spec: JoinSpec) -> JoinSpec:
    """Return the join with at least the grace of the windows on each side."""
    for name in SIDES:
        side, fed = spec.side(name), inputs[name].fed
        if fed is not None:
            late = change_grace(
                fed.plan.spec, side.keys, full=fed.full, whole_rows=fed.plan.whole_rows
            )
            grace = max(late, side.firing.grace)
            firing = replace(side.firing, grace=grace, retention=grace)
            spec = spec.with_side(name, replace(side, firing=firing))
    return spec
