"""A whole query out of what its checkpoint remembers; see ``muntin.model.facts``.

All of a query is in its facts but the functions that a user wrote: code isn't kept in state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from muntin.model.aggregates import Aggregate
from muntin.model.errors import OptionError
from muntin.model.facts import read_back
from muntin.model.policies import Firing
from muntin.model.spec import WindowSpec

_CALL = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
_AGG = "agg "
_PAIRS = ("arg_min", "arg_max")
_PLAIN = (
    "count", "count_if", "sum", "min", "max", "mean", "variance", "stddev", "first", "last",
    "bool_and", "bool_or", "median", "collect_list", "distinct", *_PAIRS,
)  # fmt: skip
_OPTIONS: dict[str, dict[str, Callable[[str], Any]]] = {
    **{kind: {} for kind in _PLAIN},
    "approx_distinct": {"lg_k": int},
    "quantile": {"q": float, "k": int},
    "exact_quantile": {"q": float},
    "top_k": {"k": int},
    "user": {"state_type": str, "result_type": str},
    "apply": {"result_type": str},
}
_OWN = {"user": "aggregate", "apply": "apply"}


def spec_of(facts: Mapping[str, str], given: Mapping[str, Aggregate] | None = None) -> WindowSpec:
    """The query that a checkpoint's facts tell of.

    Args:
        facts: What ``WindowSpec.facts`` gave.
        given: The aggregates that run a function of the user's, by their output names.

    Raises:
        OptionError: When they are those of a join, were written by another version, or a function
            is missing.

    Example:
        >>> from muntin.model.windows import tumbling
        >>> from muntin.model.aggregates import quantile
        >>> spec = WindowSpec(("k",), "ts", tumbling("1 minute"), {"p": quantile("v", 0.5)})
        >>> spec_of(spec.facts()).aggregates == spec.aggregates
        True
    """
    known = read_back(facts)
    rows = facts.get("keep rows")
    firing = Firing(
        known.early,
        known.late,
        known.grace,
        known.retention,
        facts.get("accumulate") != "False",
        None if rows is None else int(rows),
    )
    aggregates = {
        name.removeprefix(_AGG): aggregate_of(name.removeprefix(_AGG), text, given or {})
        for name, text in facts.items()
        if name.startswith(_AGG)
    }
    return WindowSpec(
        known.keys,
        known.time,
        known.windows,
        aggregates,
        firing,
        known.lateness,
        types=known.types,
        buckets=int(facts["buckets"]) if "buckets" in facts else None,
        offset=known.offset,
    )


def aggregate_of(name: str, text: str, given: Mapping[str, Aggregate]) -> Aggregate:
    """An aggregate out of the words for it.

    Args:
        name: Its output name.
        text: The words.
        given: Aggregates with functions, by output name.

    Raises:
        OptionError: When it can't be read, or its function isn't given.

    Example:
        >>> str(aggregate_of("best", "arg_max(page, views)", {}))
        'arg_max(page, views)'
    """
    call = _CALL.fullmatch(text)
    options = _OPTIONS.get(call[1]) if call else None
    if call is None or options is None:
        cure = "use the muntin that wrote the checkpoint"
        raise OptionError("CHECKPOINT", f"{name}={text}", "can't be read back", cure)
    kind, parts = call[1], call[2].split(", ") if call[2] else []
    if kind in _OWN:
        return _given(name, text, parts[: len(parts) - len(options)], given)
    columns = parts[: len(parts) - len(options)]
    values = [part.partition("=")[2] for part in parts[len(columns) :]]
    try:
        read = tuple((o, as_(v)) for (o, as_), v in zip(options.items(), values, strict=True))
    except ValueError as error:
        cure = "use the muntin that wrote the checkpoint"
        raise OptionError("CHECKPOINT", f"{name}={text}", "can't be read back", cure) from error
    by = columns.pop() if kind in _PAIRS else None
    # A column's name may hold a comma.
    return Aggregate(kind, ", ".join(columns) or None, by, read)


def _given(name: str, text: str, columns: list[str], given: Mapping[str, Aggregate]) -> Aggregate:
    kind = text.partition("(")[0]
    cure = f"give aggregates={{{name!r}: muntin.{_OWN[kind]}(…)}} as the query has it"
    if name not in given:
        raise OptionError("aggregates", name, "is computed by a function, which isn't kept", cure)
    found = given[name]
    if kind == "user":
        # A column that is an expression has a name of its own in the state.
        found = replace(found, column=", ".join(columns))
    if str(found) != text:
        raise OptionError("aggregates", f"{name}={found}", f"was {text} in the query", cure)
    return found
