"""What is known of an aggregate: one entry, which every door asks.

An entry is registered where the aggregate is made (``@entry(...)`` above its function), and a
module of entries by its import in ``muntin.model.aggregates``. Nothing else names the aggregate:
types, SQL, checkpoints, explanations, the oracle and the engine go by the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from muntin.model.aggregates.plainly import once
from muntin.model.shapes import Rule

if TYPE_CHECKING:
    from muntin.model.aggregates.aggregate import Aggregate

Factory = TypeVar("Factory", bound="Callable[..., Aggregate]")
Expr = Any
"""A column in a formula: the engine's expression, of which the model only calls methods."""
WindowRows = Sequence[tuple[Any, Mapping[str, Any]]]
"""The messages of a window: place and columns, in the order of arrival."""

# Of which type a value is: that of the column, an array of it, or one of the aggregate's own.
SAME, LIST, OWN = "same", "list", "own"
# Bytes of a short string, or of a number with what Arrow keeps beside it.
WORD = 16


@dataclass(frozen=True)
class Formula:
    """An aggregate in formulas over columns, where its partial is made of values.

    A partial is one or more lists, which the formulas have as columns without nulls: ``lift`` makes
    them of a group's values, ``merge`` of the joined lists of several partials, and ``lower`` makes
    the value of a row's lists. The last argument of each is the aggregate.

    Attributes:
        lift: Values to as many columns as there are names.
        merge: The partials of several rows, end to end, to one.
        lower: Lists to the value.
        names: The names of the partial columns.
    """

    lift: Callable[[Expr, Aggregate], tuple[Expr, ...]]
    merge: Callable[..., tuple[Expr, ...]]
    lower: Callable[..., Expr]
    names: tuple[str, ...] = ("v",)


def _all(values: Expr, agg: Aggregate) -> tuple[Expr]:
    return (values,)


def _once(values: Expr, agg: Aggregate) -> tuple[Expr]:
    return (values.unique(),)


# Every value, and each value once.
ALL_VALUES = Formula(_all, _all, lambda lists, agg: lists)
DISTINCT_VALUES = Formula(_once, _once, lambda lists, agg: lists.list.unique())


@dataclass(frozen=True)
class Sql:
    """How SQL calls an aggregate.

    Attributes:
        names: Its names, in capitals.
        second: What its second argument is: ``"column"``, ``"number"`` or ``"whole number"``.
        within: The names of ``name(number) WITHIN GROUP (ORDER BY column)``.
        distinct: The names of ``name(DISTINCT column)``.
    """

    names: tuple[str, ...] = ()
    second: str = ""
    within: tuple[str, ...] = ()
    distinct: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An aggregate.

    Attributes:
        kind: Its name in specs and checkpoints.
        make: The function that makes one.
        accepts: What it asks of the column that it reads.
        gives: Of which type its value is: ``SAME``, ``LIST`` or ``OWN``.
        empty: Its value over nothing.
        full_state: Whether it needs all messages (or all values) of a window.
        adds: Whether nothing may be taken for 0, as of sums.
        starts_empty: Whether a null says nothing to it, so that it may begin with any message.
        skips_nan: Whether NaN is skipped as null is.
        overflows: Whether a whole number that it gives may leave 64 bits.
        users: Whether it runs a function of the user's, which no checkpoint keeps.
        sql: How SQL calls it.
        size: Bytes of a partial before compression, of so many messages.
        over: The aggregate that it is over distinct values.
        value: Its value, of all values by place; what the engine is tested against.
        of_rows: The same of whole messages, where it needs more than the values.
        formula: How its columns are computed, where the engine has no algebra for it alone.
    """

    kind: str
    make: Callable[..., Aggregate]
    accepts: Rule
    gives: str = OWN
    empty: Any = None
    full_state: bool = False
    adds: bool = False
    starts_empty: bool = True
    skips_nan: bool = False
    overflows: bool = False
    users: bool = False
    sql: Sql = Sql()
    size: Callable[[Aggregate, float], float] = lambda agg, messages: WORD
    over: str = ""
    value: Callable[[list[Any], Aggregate], Any] | None = None
    of_rows: Callable[[WindowRows, Aggregate], Any] | None = None
    formula: Formula | None = None

    def filled(self, value: str) -> Any:
        """Its value in a window without a message that is filled with ``zero`` or ``null``."""
        return 0 if self.adds and value == "zero" else self.empty


ENTRIES: dict[str, Entry] = {}
"""All aggregates by their kinds."""


# Of pandas, Polars and PySpark, where SQL has no such name.
_ELSEWHERE = {"NUNIQUE": "count_distinct", "LEN": "count", "SIZE": "count", "VAR": "variance",
              "SUMDISTINCT": "sum_distinct", "PERCENTILE": "exact_quantile", "ANY": "bool_or",
              "ALL": "bool_and"}  # fmt: skip


def called_here(name: str) -> str | None:
    """What the aggregate that SQL, pandas or PySpark calls by a name is called here, if any is.

    Example:
        >>> called_here("avg"), called_here("max_by"), called_here("nunique"), called_here("x")
        ('mean', 'arg_max', 'count_distinct', None)
    """
    plain = name.replace("_", "").upper()
    names = {n.replace("_", ""): e.make.__name__ for e in ENTRIES.values() for n in e.sql.names}
    return (names | _ELSEWHERE).get(plain)


def entry(kind: str = "", **known: Any) -> Callable[[Factory], Factory]:
    """Register the aggregate that a function makes.

    Args:
        kind: Its name in specs; the function's where it isn't given.
        **known: See ``Entry``.
    """

    def registered(make: Factory) -> Factory:
        name = kind or make.__name__
        ENTRIES[name] = Entry(kind=name, make=make, **known)
        return make

    return registered


def over_distinct(
    other: Callable[..., Aggregate], accepts: Rule, names: tuple[str, ...] = ()
) -> Callable[[Factory], Factory]:
    """Register an aggregate that is another one over distinct values.

    Args:
        other: The function that makes the other one.
        accepts: What it asks of its column; what is counted once needs an order.
        names: Its own names in SQL, in capitals, beside ``other(DISTINCT column)``.
    """
    inner = ENTRIES[other.__name__]

    def value(values: list[Any], agg: Aggregate) -> Any:
        assert inner.value is not None
        return inner.value(once(values), agg)

    return entry(
        accepts=accepts,
        gives=inner.gives,
        empty=inner.empty,
        adds=inner.adds,
        full_state=True,
        skips_nan=inner.skips_nan,
        overflows=inner.overflows,
        sql=Sql(names, distinct=inner.sql.names),
        size=every_value,
        over=inner.kind,
        value=value,
        formula=DISTINCT_VALUES,
    )


def every_value(agg: Aggregate, messages: float) -> float:
    """The size of a partial that keeps a value of each message."""
    return WORD * messages


def fixed(size: float) -> Callable[[Aggregate, float], float]:
    """The size of a partial that is the same for any number of messages."""
    return lambda agg, messages: size
