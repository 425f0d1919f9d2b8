"""The registry of aggregates: one entry for each, with its types, SQL names and computation.

``@entry(...)`` on an aggregate's function registers it when ``muntin.model.aggregates`` imports the
module. Nothing else names the aggregate: types, SQL, checkpoints, explanations, the oracle and the
engine use the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from muntin.model.aggregates.plainly import sort_distinct
from muntin.model.shapes import Rule

if TYPE_CHECKING:
    from muntin.model.aggregates.aggregate import Aggregate

Factory = TypeVar("Factory", bound="Callable[..., Aggregate]")
EngineExpr = Any
"""A column in a formula: an expression of the engine, of which the model only calls methods."""
WindowRows = Sequence[tuple[Any, Mapping[str, Any]]]
"""The messages of a window: position and columns, in the order of arrival."""

# The type of a value: that of the column, an array of it, or one of the aggregate's own.
SAME, LIST, OWN = "same", "list", "own"
# Bytes of a short string, or of a number with its overhead in Arrow.
WORD = 16


@dataclass(frozen=True)
class Formula:
    """The computation of an aggregate whose partial consists of lists of values.

    A partial is one or more lists, which the formulas get as columns without nulls. The last
    argument of each formula is the aggregate.

    Attributes:
        lift: Computes the lists from a group's values, one for each of ``names``.
        merge: Computes the lists from the concatenated lists of several partials.
        lower: Computes the value from a row's lists.
        names: The names of the partial columns.
    """

    lift: Callable[[EngineExpr, Aggregate], tuple[EngineExpr, ...]]
    merge: Callable[..., tuple[EngineExpr, ...]]
    lower: Callable[..., EngineExpr]
    names: tuple[str, ...] = ("v",)


def _keep_all(values: EngineExpr, agg: Aggregate) -> tuple[EngineExpr]:
    return (values,)


def _keep_distinct(values: EngineExpr, agg: Aggregate) -> tuple[EngineExpr]:
    return (values.unique(),)


# Formulas that keep every value, and each distinct value once.
ALL_VALUES = Formula(_keep_all, _keep_all, lambda lists, agg: lists)
DISTINCT_VALUES = Formula(_keep_distinct, _keep_distinct, lambda lists, agg: lists.list.unique())


@dataclass(frozen=True)
class Sql:
    """The names and the syntax of an aggregate in SQL.

    Attributes:
        second: The kind of its second argument: ``"column"``, ``"number"`` or ``"whole number"``.
        within: The names of ``name(number) WITHIN GROUP (ORDER BY column)``.
        distinct: The names of ``name(DISTINCT column)``.
    """

    names: tuple[str, ...] = ()
    second: str = ""
    within: tuple[str, ...] = ()
    distinct: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The registered properties of an aggregate.

    Attributes:
        accepts: The types of columns that it accepts.
        gives: The type of its value: ``SAME``, ``LIST`` or ``OWN``.
        empty: Its value without messages.
        full_state: Whether the state keeps all messages (or all values) of a window.
        adds: Whether its value may be 0 without messages, as for sums.
        starts_empty: Whether it ignores nulls, so that it can start at any message.
        skips_nan: Whether it skips NaN as it skips null.
        overflows: Whether an integer result may exceed 64 bits.
        users: Whether it runs a user's function, which checkpoints don't store.
        size: Estimates the bytes of a partial before compression, given the number of messages.
        over: The aggregate that it applies to the distinct values.
        value: Computes its value in plain Python, from all values by position. The engine is
            tested against it.
        of_rows: Computes its value from whole messages, if it needs more than the values.
        formula: Its computation in columns, if the engine has no algebra of its own for it.
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

    def fill_without_values(self, word: str) -> Any:
        """Return its value in an empty window that is filled with ``zero`` or ``null``."""
        return 0 if self.adds and word == "zero" else self.empty


ENTRIES: dict[str, Entry] = {}
"""All aggregates by their kinds."""


# Names in pandas, Polars and PySpark that SQL doesn't have.
_ELSEWHERE = {"NUNIQUE": "count_distinct", "LEN": "count", "SIZE": "count", "VAR": "variance",
              "SUMDISTINCT": "sum_distinct", "PERCENTILE": "exact_quantile", "ANY": "bool_or",
              "ALL": "bool_and"}  # fmt: skip


def translate_name(name: str) -> str | None:
    """Return the name of the aggregate that SQL, pandas or PySpark calls by another name, if any.

    Example:
        >>> (
        ...     translate_name("avg"),
        ...     translate_name("max_by"),
        ...     translate_name("nunique"),
        ...     translate_name("x"),
        ... )
        ('mean', 'arg_max', 'count_distinct', None)
    """
    normalized = name.replace("_", "").upper()
    names = {n.replace("_", ""): e.make.__name__ for e in ENTRIES.values() for n in e.sql.names}
    return (names | _ELSEWHERE).get(normalized)


def entry(kind: str = "", **properties: Any) -> Callable[[Factory], Factory]:
    """Register the aggregate that a function returns, with the properties of its ``Entry``."""

    def register(make: Factory) -> Factory:
        name = kind or make.__name__
        ENTRIES[name] = Entry(kind=name, make=make, **properties)
        return make

    return register


def over_distinct(
    other: Callable[..., Aggregate], accepts: Rule, names: tuple[str, ...] = ()
) -> Callable[[Factory], Factory]:
    """Register an aggregate that applies another one to the distinct values, which need an order.

    ``names`` are its own names in SQL, in capitals, besides ``other(DISTINCT column)``.
    """
    inner = ENTRIES[other.__name__]

    def value(values: list[Any], agg: Aggregate) -> Any:
        assert inner.value is not None
        return inner.value(sort_distinct(values), agg)

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
    """Return the size of a partial that keeps one value for each message."""
    return WORD * messages


def constant_size(size: float) -> Callable[[Aggregate, float], float]:
    """Return a function for a partial's size that doesn't depend on the number of messages."""
    return lambda agg, messages: size
