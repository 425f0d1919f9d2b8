"""Restoring a query from its checkpoint, except for the functions that a user wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from muntin.model.aggregates import Aggregate
from muntin.model.errors import OptionError
from muntin.model.joins import JoinSpec
from muntin.model.json_dataclass import load_value
from muntin.model.spec import WindowSpec


def load_spec(stored: Mapping[str, Any]) -> WindowSpec | JoinSpec:
    """Return the query that a checkpoint stores.

    Example:
        >>> from muntin.model.windows import tumbling
        >>> from muntin.model.aggregates import quantile
        >>> spec = WindowSpec(("k",), "ts", tumbling("1 minute"), {"p": quantile("v", 0.5)})
        >>> load_spec(spec.to_dict()) == spec
        True
    """
    try:
        spec: WindowSpec | JoinSpec = load_value(WindowSpec | JoinSpec, stored)
        return spec
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        hint = "use the muntin that wrote the checkpoint"
        raise OptionError("CHECKPOINT", str(error), "can't be read back", hint) from error


def with_functions(spec: WindowSpec, aggregates: Mapping[str, Aggregate]) -> WindowSpec:
    """Return a query with the functions of its aggregates, which checkpoints don't store."""
    restored = {
        name: _restore_function(name, aggregate, aggregates)
        for name, aggregate in spec.aggregates.items()
        if aggregate.entry.users
    }
    return replace(spec, aggregates={**spec.aggregates, **restored})


def _restore_function(
    name: str, aggregate: Aggregate, aggregates: Mapping[str, Aggregate]
) -> Aggregate:
    function = aggregate.entry.make.__name__
    hint = f"give aggregates={{{name!r}: muntin.{function}(…)}} as the query has it"
    if name not in aggregates:
        raise OptionError("aggregates", name, "is computed by a function, which isn't kept", hint)
    # A column that is an expression has an internal name in the state.
    restored = replace(aggregates[name], column=aggregate.column)
    if restored != aggregate:
        raise OptionError("aggregates", f"{name}={restored}", f"was {aggregate} in the query", hint)
    return restored
