"""Whether an aggregate takes columns of some types: one question, which every door asks.

``check`` refuses what an aggregate can't take by name, before anything runs. What is accepted has
the value that Spark SQL gives, or the one that ``docs/windows.md`` names where the two differ on
purpose.
"""

from __future__ import annotations

from collections.abc import Mapping

from muntin.model.aggregates import Aggregate
from muntin.model.errors import OptionError
from muntin.model.shapes import ORDER, Shape


def check(aggregate: Aggregate, shapes: Mapping[str, Shape], words: str | None = None) -> None:
    """Refuse an aggregate over columns of types that it can't take.

    Args:
        aggregate: The aggregate; its columns are names.
        shapes: The types of columns by name, of those that it reads at least.
        words: The aggregate in the user's words, where its columns were named anew.

    Example:
        >>> from muntin.model.aggregates import max
        >>> check(max("name"), {"name": Shape("string", "string")})
    """
    asked = [(column, aggregate.entry.accepts) for column in aggregate.columns]
    if aggregate.by is not None:
        asked[1] = (aggregate.by, ORDER)
    for column, rule in asked:
        shape = shapes[str(column)]
        if not rule.accepts(shape):
            problem = f"reads a column of type {shape.text}"
            raise OptionError("agg", words or str(aggregate), problem, rule.hint_for(shape))
        if shape.family != "struct" and "fields" in dict(aggregate.options):
            hint = "give a struct of them, or True or False for ascending"
            problem = f"orders the fields of a column of type {shape.text}"
            raise OptionError("agg", words or str(aggregate), problem, hint)
