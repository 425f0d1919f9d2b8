"""Restoring a query from its checkpoint, except for the functions that a user wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from muntin.model.aggregates import Aggregate
from muntin.model.errors import OptionError
from muntin.model.joins import JoinSpec
from muntin.model.json_dataclass import value_of
from muntin.model.spec import WindowSpec


def recalled(stored: Mapping[str, Any]) -> WindowSpec | JoinSpec:
    """Return the query that a checkpoint stores.

    Example:
        >>> from muntin.model.windows import tumbling
        >>> from muntin.model.aggregates import quantile
        >>> spec = WindowSpec(("k",), "ts", tumbling("1 minute"), {"p": quantile("v", 0.5)})
        >>> recalled(spec.to_dict()) == spec
        True
    """
    try:
        found: WindowSpec | JoinSpec = value_of(WindowSpec | JoinSpec, stored)
        return found
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        hint = "use the muntin that wrote the checkpoint"
        raise OptionError("CHECKPOINT", str(error), "can't be read back", hint) from error


def with_functions(spec: WindowSpec, given: Mapping[str, Aggregate]) -> WindowSpec:
    """Return a query with the functions of its aggregates, which checkpoints don't store."""
    own = {
        name: _given(name, aggregate, given)
        for name, aggregate in spec.aggregates.items()
        if aggregate.entry.users
    }
    return replace(spec, aggregates={**spec.aggregates, **own})


def _given(name: str, aggregate: Aggregate, given: Mapping[str, Aggregate]) -> Aggregate:
    made = aggregate.entry.make.__name__
    hint = f"give aggregates={{{name!r}: muntin.{made}(…)}} as the query has it"
    if name not in given:
        raise OptionError("aggregates", name, "is computed by a function, which isn't kept", hint)
    # A column that is an expression has an internal name in the state.
    found = replace(given[name], column=aggregate.column)
    if found != aggregate:
        raise OptionError("aggregates", f"{name}={found}", f"was {aggregate} in the query", hint)
    return found
