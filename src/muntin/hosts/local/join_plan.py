"""Joins on the local host: what a sentence asks for, checked and made a plan."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from muntin.engine import columns
from muntin.engine.joins.operator import JoinOperator
from muntin.hosts.chain import change_grace
from muntin.hosts.clock import period_of
from muntin.hosts.local.messages import has_zone
from muntin.hosts.local.plan import Input, OperatorInput, Plan, layout_of, resharded
from muntin.hosts.local.window_plan import default_shards
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
        OptionError: Naming what can't work: a column, a type, a side without bound.
    """
    asked = spec

    def again(count: int) -> Plan:
        given = {side: resharded(one, count) for side, one in inputs.items()}
        return build_join(given, asked, suffix, shards or count, both_keys=both_keys)

    if isinstance(spec.bound, Newest):
        spec = _with_change_grace(inputs, spec)
    count = shards or default_shards()
    schemas: dict[SideName, dict[str, pl.DataType]] = {}
    sources, time_types = [], []
    for side in SIDES:
        given = inputs[side]
        reader = given.reader()
        schemas[side] = reader.schema
        types = {name: str(kind) for name, kind in reader.schema.items()}
        zone = "UTC" if reader.time_type == pl.String() else None
        own = replace(spec.side(side), types=types, zone=zone)
        spec = replace(spec, buckets=count).with_side(side, own)
        time = [] if own.time is None else [own.time]
        reader = replace(reader, used=frozenset((*own.keys, *(own.offset or ()), *time)))
        follows = spec.axis == "time" and own.idle is None
        ahead = given.fed.ahead(own.time) if given.fed is not None and follows else None
        sources.append(OperatorInput(side, given.rows, reader, ahead))
        time_types.append(reader.time_type)
    operator = JoinOperator(spec, schemas, suffix, both_keys=both_keys)
    joiner = operator.joiner
    rejected = dict(joiner.nothing_rejected.schema)
    rejected[columns.WATERMARK] = _moment(time_types[0])
    clocked = [spec.side(side) for side in SIDES if inputs[side].clock is None]
    policies = [policy for one in clocked for policy in (one.firing.early, one.firing.late)]
    keys = None
    if joiner.revises:
        bounds = (columns.WINDOW_START, columns.WINDOW_END)
        keys = tuple(key for key in spec.left.keys if key not in bounds)
    return Plan(
        spec,
        operator,
        tuple(sources),
        results=joiner.nothing_emitted().schema,
        layout=layout_of(pl.Schema(rejected), {str(k): v for k, v in inputs.items()}, joins=True),
        period=period_of(policies, *(one.idle for one in clocked)),
        keys=keys,
        shards=count,
        asked=shards,
        again=again,
    )


def _moment(time: pl.DataType | None) -> pl.DataType:
    if isinstance(time, pl.Datetime):
        return pl.Datetime("us", time.time_zone)
    return pl.Datetime("us", "UTC" if has_zone(time) else None)


def _with_change_grace(inputs: dict[SideName, Input], spec: JoinSpec) -> JoinSpec:
    """The join, with sides that take what is late as long as the windows that they are do."""
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
