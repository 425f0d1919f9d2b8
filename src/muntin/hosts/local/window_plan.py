"""Checks windowed queries on the local host, and builds their plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.dtypes import find_shape
from muntin.engine.results import no_results
from muntin.engine.windows.operator import WindowOperator
from muntin.hosts.local.expressions import resolve_condition
from muntin.hosts.local.messages import (
    MessageReader,
    resolve_named,
    resolve_operand,
    result_time_type,
)
from muntin.hosts.local.plan import (
    LocalInput,
    LocalOperatorInput,
    LocalPlan,
    has_clocks,
    lay_out_rejected,
    set_upstream_shards,
)
from muntin.hosts.tick_period import find_tick_period
from muntin.hosts.windows import complete_spec, name_operands, name_session_columns
from muntin.model.axis import parse_duration
from muntin.model.errors import OptionError
from muntin.model.spec import WindowSpec


def plan_windows(
    query_input: LocalInput, keys: tuple[Any, ...], spec: WindowSpec, shards: int | None = None
) -> LocalPlan:
    """Check everything that can be checked before anything runs, and build the plan.

    Args:
        query_input: The input.
        keys: Key columns, by name or as expressions.
        spec: The query, without keys and columns, which are added here.
        shards: The number of shards; `None` is the default.

    Raises:
        OptionError: When a column, a type or a policy can't work; the error names it.
    """
    reader, completed_spec = _complete_query(query_input, keys, spec, shards)
    operator = WindowOperator(completed_spec, reader.schema)
    follows = spec.follows_upstream(spec.axis)
    ahead = (
        query_input.upstream.find_time_ahead(reader.time_name)
        if query_input.upstream is not None and follows
        else None
    )

    def rebuild(count: int) -> LocalPlan:
        return plan_windows(set_upstream_shards(query_input, count), keys, spec, shards or count)

    return LocalPlan(
        completed_spec,
        operator,
        (LocalOperatorInput("", query_input.rows, reader, ahead),),
        results=_list_result_columns(operator, reader),
        layout=lay_out_rejected(_list_rejected_columns(reader), {"": query_input}, joins=False),
        period=find_tick_period([completed_spec], [query_input.clock]),
        keys=completed_spec.keys,
        shards=completed_spec.shards or 1,
        requested_shards=shards,
        rebuild=rebuild,
    )


def _complete_query(
    query_input: LocalInput, keys: tuple[Any, ...], spec: WindowSpec, shards: int | None
) -> tuple[MessageReader, WindowSpec]:
    """Return the reader with all computed columns, and the spec over names of columns."""
    reader = query_input.make_reader()
    names, key_columns = _name_keys(reader.rows, keys, spec.zone_column)
    rows = reader.rows
    aggregates, operands = name_operands(spec.aggregates, partial(_resolve_operand, rows))
    windows, of_sessions = name_session_columns(spec.windows, partial(_resolve_option, rows))
    reader = reader.with_columns({**key_columns, **operands, **of_sessions})
    schema = reader.schema
    shapes = {name: find_shape(kind) for name, kind in schema.items()}
    for name, aggregate in aggregates.items():
        aggregate.check(shapes, words=f"{name}={spec.aggregates[name]}")
    time = reader.time_name
    completed_spec = complete_spec(
        spec,
        keys=names,
        time=time,
        aggregates=aggregates,
        windows=windows,
        schema=schema if time is None else {**schema, time: reader.time_type},
        shards=shards or DEFAULT_SHARDS,
        zone="UTC" if reader.time_type == pl.String() else None,
    )
    used = frozenset((*completed_spec.types, *(spec.offset or ())))
    return replace(
        reader, used=used, partitions=has_clocks(query_input, completed_spec)
    ), completed_spec


# One shard is fastest, since Polars uses all cores within a shard. Two shards in threads took a
# quarter longer over 600 000 messages, and twice as long over one message.
DEFAULT_SHARDS = 1


def _list_result_columns(operator: WindowOperator, reader: MessageReader) -> pl.Schema:
    """Return the columns of results: keys, window bounds, aggregates, emission, revision."""
    combiner = operator.combiner
    kinds = dict(no_results(combiner).schema)
    if combiner.spec.axis == "time":
        for bound in (columns.WINDOW_START, columns.WINDOW_END):
            kinds[bound] = result_time_type(reader.time_type)
    if combiner.spec.windows.result_key is None:
        # The revision of a trailing window is the number of its instant.
        kinds[columns.REVISION] = pl.Int32()
    return pl.Schema(kinds)


def _list_rejected_columns(reader: MessageReader) -> pl.Schema:
    """Return the columns of rejected messages: the row's, the reason, the watermark in force."""
    moment = result_time_type(reader.time_type)
    return pl.Schema({**reader.rows, columns.REASON: pl.String(), columns.WATERMARK: moment})


def _name_keys(
    rows: pl.Schema, keys: tuple[Any, ...], zone_column: str | None
) -> tuple[tuple[str, ...], dict[str, pl.Expr]]:
    """Return the names of the key columns, and the expressions of those that are computed."""
    names, computed = [], {}
    for key in keys:
        if isinstance(key, str) and key in rows:
            names.append(key)
            continue
        option = "zone_column" if isinstance(key, str) and key == zone_column else "key"
        name, expression = resolve_named(rows, option, key)
        if name not in rows:
            computed[name] = expression
        elif isinstance(key, str) or not key.meta.eq(pl.col(name)):
            # Messages keep the input's column of this name.
            hint = f'give it another name: expression.alias("{name}_key")'
            raise OptionError("key", str(key), f"is named as the column {name!r}", hint)
        names.append(name)
    return tuple(names), computed


def _resolve_operand(rows: pl.Schema, operand: object, shown: str) -> pl.Expr | None:
    if isinstance(operand, str) and operand in rows:
        return None
    return resolve_operand(rows, "agg", operand, shown)


def _resolve_option(rows: pl.Schema, option: str, value: object) -> pl.Expr:
    """Return the column of an option of sessions: each message's own gap, or a condition."""
    if option == "by":
        return _compute_gap(rows, value)
    if option == "same":
        return resolve_operand(rows, option, value, value)
    return resolve_condition(rows, option, value)


def _compute_gap(rows: pl.Schema, own_gap: object) -> pl.Expr:
    by = resolve_operand(rows, "by", own_gap, own_gap)
    kind = pl.LazyFrame(schema=rows).select(by).collect_schema()
    dtype = next(iter(kind.values()))
    if isinstance(dtype, pl.Duration):
        return by.dt.total_microseconds()
    if dtype == pl.String():
        return by.map_batches(_parse_lengths, return_dtype=pl.Int64())
    problem = f"is {dtype}, not a length of time"
    hint = "give a duration, as pl.duration makes it, or text such as '5 minutes'"
    raise OptionError("by", str(own_gap), problem, hint)


def _parse_lengths(texts: pl.Series) -> pl.Series:
    """Return texts of durations in microseconds; NULL where a text isn't one."""
    lengths: Mapping[str, int | None] = {
        text: _parse_length(text) for text in texts.unique().drop_nulls()
    }
    return texts.replace_strict(lengths, default=None, return_dtype=pl.Int64())


def _parse_length(text: str) -> int | None:
    try:
        return parse_duration("by", text)
    except OptionError:
        return None
