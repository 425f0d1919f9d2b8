"""The types of columns as aggregates see them, and the rules that aggregates have for them.

Each host describes the type of a column as a ``Shape``, in the families below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

SCALARS = (
    "boolean", "integer", "float", "decimal", "string", "binary", "date", "time", "timestamp",
    "interval",
)  # fmt: skip
NESTED = ("array", "struct", "map")
# Text with a collation, columns of NULL only, and types that no engine supports.
ODD = ("collated", "void", "other")


@dataclass(frozen=True)
class Shape:
    """The type of a column, as far as aggregates depend on it.

    Attributes:
        text: The type's name in its own type system, such as Spark's or Arrow's, for messages.
        family: One of ``SCALARS``, ``NESTED`` or ``ODD``.
        inside: The families of the types inside a nested type, at any depth.
    """

    text: str
    family: str
    inside: frozenset[str] = frozenset()

    @classmethod
    def make_nested(cls, text: str, family: str, parts: list[Shape]) -> Shape:
        """Return the shape of a nested type."""
        return cls(text, family, frozenset().union(*({p.family, *p.inside} for p in parts)))


@dataclass(frozen=True)
class Rule:
    """The types of columns that an aggregate accepts, with hints for all others."""

    accepts: Callable[[Shape], bool]
    hint: str = ""
    hints: Mapping[str, str] = field(default_factory=dict)

    def hint_for(self, shape: Shape) -> str:
        """Return the hint for a shape that isn't accepted."""
        return self.hints.get(shape.family, self.hint)


def _accept_families(*families: str) -> Callable[[Shape], bool]:
    return lambda shape: shape.family in families


def _is_storable(shape: Shape) -> bool:
    """Return whether values can be stored and returned unchanged."""
    return not {shape.family, *shape.inside} & {"other", "void"}


def _has_order(shape: Shape) -> bool:
    """Return whether values have an order, which maps have not."""
    return not {shape.family, *shape.inside} & {"map", *ODD}


ANY = Rule(lambda shape: True)
STORABLE = Rule(_is_storable, "cast it to a type that Arrow and Polars know")
ORDER = Rule(_has_order, "give what has an order: a part of it, or cast it to a string")
TRUTH = Rule(_accept_families("boolean"), "give a condition such as col('delay') > 60")
NUMERIC = Rule(
    _accept_families("integer", "float", "decimal"),
    "cast it to a long or a double first",
    {"interval": "cast it to decimal(18, 6) first, which is its length in seconds"},
)
