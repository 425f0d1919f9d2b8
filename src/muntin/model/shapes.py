"""The types of columns as aggregates see them, and what aggregates ask of them.

A door describes the type of a column as a ``Shape``, in the families below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True)
class Rule:
    """What an aggregate asks of a column."""

    accepts: Callable[[Shape], bool]
    hint: str = ""
    hints: Mapping[str, str] = field(default_factory=dict)

    def hint_for(self, shape: Shape) -> str:
        """What to do with a shape that won't do."""
        return self.hints.get(shape.family, self.hint)


def _within(*families: str) -> Callable[[Shape], bool]:
    return lambda shape: shape.family in families


def _whole(shape: Shape) -> bool:
    """Whether values can be kept and given back as they are."""
    return not {shape.family, *shape.inside} & {"other", "void"}


def _ordered(shape: Shape) -> bool:
    """Whether one value is equal to, less or greater than another: of maps none is."""
    return not {shape.family, *shape.inside} & {"map", *ODD}


ANY = Rule(lambda shape: True)
WHOLE = Rule(_whole, "cast it to a type that Arrow and Polars know")
ORDER = Rule(_ordered, "give what has an order: a part of it, or cast it to a string")
TRUTH = Rule(_within("boolean"), "give a condition such as col('delay') > 60")
NUMBER = Rule(
    _within("integer", "float", "decimal"),
    "cast it to a long or a double first",
    {"interval": "cast it to decimal(18, 6) first, which is its length in seconds"},
)
