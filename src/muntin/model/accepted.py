"""Which aggregate takes columns of which types: one table, which every door asks.

A door describes the type of a column as a ``Shape``, in the families below, and ``check`` refuses
what an aggregate can't take by name, before anything runs. What is accepted has the value that
Spark SQL gives, or the one that ``docs/windows.md`` names where the two differ on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from muntin.model.aggregates import Aggregate
from muntin.model.errors import OptionError

SCALARS = (
    "boolean", "integer", "float", "decimal", "string", "binary", "date", "time", "timestamp",
    "interval",
)  # fmt: skip
NESTED = ("array", "struct", "map")
# Text under a collation, a column of nothing, and whatever is known to no one.
ODD = ("collated", "void", "other")


@dataclass(frozen=True)
class Shape:
    """The type of a column, as far as aggregates care.

    Attributes:
        text: The type in the words of its door, for messages.
        family: One of ``SCALARS``, ``NESTED`` or ``ODD``.
        inside: The families that a nested type is made of, at any depth.
    """

    text: str
    family: str
    inside: frozenset[str] = frozenset()

    @classmethod
    def nested(cls, text: str, family: str, parts: list[Shape]) -> Shape:
        """The shape of a type that is made of others."""
        return cls(text, family, frozenset().union(*({p.family, *p.inside} for p in parts)))


Rule = tuple[Callable[[Shape], bool], str]


def _within(*families: str) -> Callable[[Shape], bool]:
    return lambda shape: shape.family in families


def _whole(shape: Shape) -> bool:
    """Whether values can be kept and given back as they are."""
    return not {shape.family, *shape.inside} & {"other", "void"}


def _ordered(shape: Shape) -> bool:
    """Whether one value is equal to, less or greater than another: of maps none is."""
    return not {shape.family, *shape.inside} & {"map", *ODD}


_ANY: Rule = (lambda shape: True, "")
_WHOLE: Rule = (_whole, "cast it to a type that Arrow and Polars know")
_ORDER: Rule = (_ordered, "give what has an order: a part of it, or cast it to a string")
_TRUTH: Rule = (_within("boolean"), "give a condition such as col('delay') > 60")
_NUMBER: Rule = (_within("integer", "float", "decimal"), "cast it to a long or a double first")

# What each aggregate asks of the column that it reads.
_COLUMN: Mapping[str, Rule] = {
    "count": _ANY,
    **dict.fromkeys(("count_if", "bool_and", "bool_or"), _TRUTH),
    **dict.fromkeys(("sum", "mean", "variance", "stddev", "quantile", "median"), _NUMBER),
    **dict.fromkeys(
        ("min", "max", "approx_distinct", "distinct", "top_k", "exact_quantile"), _ORDER
    ),
    **dict.fromkeys(("first", "last", "arg_min", "arg_max", "collect_list"), _WHOLE),
    **dict.fromkeys(("user", "apply"), _WHOLE),
}


def check(aggregate: Aggregate, shapes: Mapping[str, Shape], said: str | None = None) -> None:
    """Refuse an aggregate over columns of types that it can't take.

    Args:
        aggregate: The aggregate; its columns are names.
        shapes: The types of columns by name, of those that it reads at least.
        said: The aggregate in the user's words, where its columns were named anew.

    Raises:
        OptionError: Naming the aggregate, the type, and what to do.

    Example:
        >>> from muntin.model.aggregates import max
        >>> check(max("name"), {"name": Shape("string", "string")})
    """
    asked = [(column, _COLUMN[aggregate.kind]) for column in aggregate.columns]
    if aggregate.by is not None:
        asked[1] = (aggregate.by, _ORDER)
    for column, (accepts, hint) in asked:
        shape = shapes[str(column)]
        if not accepts(shape):
            problem = f"reads a column of type {shape.text}"
            raise OptionError("agg", said or str(aggregate), problem, hint)
