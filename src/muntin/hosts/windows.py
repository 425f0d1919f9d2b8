"""Completes windowed queries with the names and the types of their input's columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from muntin.engine import columns
from muntin.model.aggregates import Aggregate
from muntin.model.grouping_sets import GROUPING_ID
from muntin.model.kinds import Kind
from muntin.model.sessions import AN_EXPRESSION
from muntin.model.spec import WindowSpec

Computed = TypeVar("Computed")
GAP = "__muntin_gap"
"""The column of each message's own gap, microseconds."""


def complete_spec(
    spec: WindowSpec,
    *,
    keys: tuple[str, ...],
    time: str | None,
    aggregates: Mapping[str, Aggregate],
    windows: Kind,
    schema: Mapping[str, object],
    shards: int,
    zone: str | None,
) -> WindowSpec:
    """Return a query over named columns, as a checkpoint stores it.

    ``schema`` has the Arrow types of the columns; that of the time is the one in which it is read.
    The zone is the session's, if messages depend on it.
    """
    if windows.zone_column is not None:
        windows = windows.map_columns(lambda _, column: _find_zone_key(column, keys))
    names = [*keys, *(str(column) for one in aggregates.values() for column in one.columns)]
    names += [] if windows.own_gap is None else [str(windows.own_gap)]
    names += [columns.CONDITIONS[option] for option in windows.conditions]
    names += [name for name in spec.clocks if name in schema]
    names += [] if time is None else [time]
    types = {name: str(schema[name]) for name in names}
    if spec.sets is not None:
        keys, types[GROUPING_ID] = (*keys, GROUPING_ID), "Int64"
    if windows.result_key is not None:
        keys, types[windows.result_key] = (*keys, windows.result_key), "String"
    return replace(
        spec,
        keys=keys,
        time=time,
        aggregates=aggregates,
        types=types,
        windows=windows,
        shards=shards,
        zone=zone,
    )


def _find_zone_key(column: str, keys: tuple[str, ...]) -> str:
    """Return the key that a column of zones is in the output: a field has its own name there."""
    names = (column, column.rpartition(".")[2])
    folded = {key.lower(): key for key in keys}
    for name in names:
        if name in keys:
            return name
        if name.lower() in folded:
            return folded[name.lower()]
    return column


def name_operands(
    aggregates: Mapping[str, Aggregate], resolve: Callable[[object, str], Computed | None]
) -> tuple[dict[str, Aggregate], dict[str, Computed]]:
    """Return aggregates over named columns, and the computed ones among these by name.

    ``resolve`` returns the host's expression of an operand, which is described for errors;
    ``None`` if it is a column of the rows.
    """
    named, computed = {}, {}
    for position, (name, aggregate) in enumerate(aggregates.items()):
        changes: dict[str, Any] = {}
        for part in ("column", "by"):
            operand = getattr(aggregate, part)
            expression = None if operand is None else resolve(operand, f"{name}={aggregate}")
            if expression is not None:
                changes[part] = f"__muntin_{part}_{position}"
                computed[changes[part]] = expression
        named[name] = replace(aggregate, **changes)
    return named, computed


def name_session_columns(
    windows: Kind, resolve: Callable[[str, object], Computed]
) -> tuple[Kind, dict[str, Computed]]:
    """Return windows over named columns, and the columns that sessions depend on by name.

    A checkpoint stores the words of conditions. ``resolve`` returns the host's expression of an
    option; of ``by`` each message's own gap, microseconds.
    """
    if windows.own_gap is not None:
        return windows.map_columns(lambda *_: GAP), {GAP: resolve("by", windows.own_gap)}
    computed = {
        columns.CONDITIONS[option]: resolve(option, value)
        for option, value in windows.conditions.items()
    }
    in_words = windows.map_columns(
        lambda _, value: value if isinstance(value, str) else AN_EXPRESSION
    )
    return in_words, computed
