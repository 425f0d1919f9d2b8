"""What a window computes: specs of aggregates, by name and column.

An aggregate is *lift* (message to partial), *combine* (two partials to one; associative) and
*lower* (partial to value); the specs here only name them. How they are computed in columns is
the engine's business. Nulls follow Spark SQL: they are skipped (but by ``first`` and ``last``),
and an aggregate over nothing is null (a count is 0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from muntin.model.errors import OptionError
from muntin.model.facts import named
from muntin.model.plain import Plain, read_by


def _pairs(stored: Iterable[Sequence[Any]]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, value) for name, value in stored)


def _unknown(rows: list[dict[str, Any]]) -> Any:
    raise LookupError("a checkpoint keeps no code")


@dataclass(frozen=True, slots=True)
class RowsFunction(Plain):
    """A user's function over all rows of a window.

    Attributes:
        columns: What it reads.
        function: ``list of rows -> result``; a row is a dictionary of the columns.
    """

    columns: tuple[str, ...] = field(metadata=read_by(tuple))
    function: Callable[[list[dict[str, Any]]], Any] = field(default=_unknown, compare=False)


@dataclass(frozen=True, slots=True)
class Aggregate(Plain):
    """One aggregate of a query.

    Attributes:
        kind: Which function, for example ``"sum"``.
        column: The column it reads; ``None`` for a bare ``count()``.
        by: The ordering column of ``arg_min`` and ``arg_max``.
        options: Figures of the function, for example ``(("q", 0.95),)``, in a fixed order.
        functions: The user's own functions, for ``kind="user"``.
        rows: The user's function over a window's rows and its columns, for ``kind="apply"``.
    """

    kind: str
    column: Any = None
    by: Any = None
    options: tuple[tuple[str, Any], ...] = field(default=(), metadata=read_by(_pairs))
    functions: UserFunctions | None = field(default=None, compare=False)
    rows: RowsFunction | None = field(default=None, metadata=read_by(RowsFunction.from_dict))

    @property
    def full_state(self) -> bool:
        """Whether it needs every message of the window, not a partial of fixed size."""
        return self.kind in _FULL_STATE

    def option(self, name: str) -> Any:
        """The value of one option."""
        return dict(self.options)[name]

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns that it reads."""
        own = tuple(c for c in (self.column, self.by) if c is not None)
        return own + (self.rows.columns if self.rows else ())

    def __str__(self) -> str:
        inside = [named(c) if isinstance(c, str) else str(c) for c in self.columns] + [
            f"{k}={v}" for k, v in self.options
        ]
        return f"{self.kind}({', '.join(inside)})"


@dataclass(frozen=True, slots=True)
class UserFunctions:
    """A user's aggregate as KIP-94 writes it: initializer, aggregator, merger, and the end.

    Attributes:
        initializer: ``() -> state``.
        aggregator: ``(state, value) -> state``, called once a message with a new state.
        merger: ``(state, state) -> state``; must be associative.
        finisher: ``state -> result``; the identity where it isn't given.
        state_type: ``"long"``, ``"double"``, ``"string"``, ``"binary"`` or ``"boolean"``.
        result_type: The same, of the result.
    """

    initializer: Callable[[], Any]
    aggregator: Callable[[Any, Any], Any]
    merger: Callable[[Any, Any], Any]
    finisher: Callable[[Any], Any]
    state_type: str
    result_type: str


_FULL_STATE = {"median", "exact_quantile", "collect_list", "distinct", "apply"}
_TYPES = ("long", "double", "string", "binary", "boolean")


def count(column: Any = None) -> Aggregate:
    """How many messages; with a column, how many where it isn't null."""
    return Aggregate("count", column)


def count_if(column: Any) -> Aggregate:
    """How many messages where a boolean column is true."""
    return Aggregate("count_if", column)


def sum(column: Any) -> Aggregate:
    """The sum; integers and decimals add exactly.

    Of integers it is a long, of ``decimal(p, s)`` a ``decimal(p + 10, s)`` (at most 38 digits), as
    in Spark. A sum that doesn't fit is null and reported as rejected, reason ``overflow``.
    """
    return Aggregate("sum", column)


def min(column: Any) -> Aggregate:
    """The least value of any type but maps; as in Spark, NaN is greater than every number."""
    return Aggregate("min", column)


def max(column: Any) -> Aggregate:
    """The greatest value of any type but maps; as in Spark, NaN is greater than every number."""
    return Aggregate("max", column)


def mean(column: Any) -> Aggregate:
    """The mean, a double.

    Of ``decimal(p, s)`` it is exact and rounded half up to a ``decimal(p + 4, s + 4)`` (at most 38
    digits), as in Spark; one that doesn't fit is null and reported as rejected.
    """
    return Aggregate("mean", column)


def variance(column: Any) -> Aggregate:
    """The sample variance (divisor n - 1), merged by Chan's formula; null for one value."""
    return Aggregate("variance", column)


def stddev(column: Any) -> Aggregate:
    """The sample standard deviation; null for one value."""
    return Aggregate("stddev", column)


def first(column: Any) -> Aggregate:
    """The value of the earliest message by event time, also a null; of several, the least."""
    return Aggregate("first", column)


def last(column: Any) -> Aggregate:
    """The value of the latest message by event time, also a null; of several, the greatest."""
    return Aggregate("last", column)


def arg_min(column: Any, by: Any) -> Aggregate:
    """The value of ``column`` where ``by`` is least; of several, the least value."""
    return Aggregate("arg_min", column, by)


def arg_max(column: Any, by: Any) -> Aggregate:
    """The value of ``column`` where ``by`` is greatest; of several, the greatest value."""
    return Aggregate("arg_max", column, by)


def bool_and(column: Any) -> Aggregate:
    """Whether every value is true."""
    return Aggregate("bool_and", column)


def bool_or(column: Any) -> Aggregate:
    """Whether some value is true."""
    return Aggregate("bool_or", column)


def approx_distinct(column: Any, *, lg_k: int = 12) -> Aggregate:
    """About how many distinct values (HyperLogLog; standard error ``1.04 / sqrt(2**lg_k)``)."""
    if not 4 <= lg_k <= 21:
        raise OptionError("lg_k", lg_k, "is out of range", "give a whole number from 4 to 21")
    return Aggregate("approx_distinct", column, options=(("lg_k", lg_k),))


def quantile(column: Any, q: float, *, k: int = 200) -> Aggregate:
    """The value at rank ``q`` (KLL sketch).

    Exact while a window holds at most ``k`` values, and then the same however the input was cut;
    beyond, its rank error is about ``2.3 / k`` and depends on the order of merging. NaN is skipped.

    Raises:
        OptionError: When ``q`` isn't within 0 and 1, or ``k`` not within 8 and 65535.
    """
    if not 0 <= q <= 1:
        raise OptionError("q", q, "isn't a rank", "give a number from 0 to 1, 0.95 for p95")
    if not 8 <= k <= 65535:
        raise OptionError("k", k, "is out of range", "give a whole number from 8 to 65535")
    return Aggregate("quantile", column, options=(("q", float(q)), ("k", k)))


def aggregate(
    column: Any,
    *,
    initializer: Callable[[], Any],
    aggregator: Callable[[Any, Any], Any],
    merger: Callable[[Any, Any], Any],
    finisher: Callable[[Any], Any] | None = None,
    state_type: str = "double",
    result_type: str | None = None,
) -> Aggregate:
    """An aggregate of your own, in the three functions of KIP-94; runs Python for each message.

    Each message begins a state of its own, ``aggregator(initializer(), value)``, and states meet by
    the merger alone. So the answer doesn't depend on how messages are read, also where the
    initializer isn't neutral: it is in the answer once for each message.

    Args:
        column: The column that is aggregated.
        initializer: ``() -> state``.
        aggregator: ``(state, value) -> state``; isn't called for nulls. ``None`` is no state.
        merger: ``(state, state) -> state``; must be associative, and messages that come out of
            order are merged as they come unless it is commutative.
        finisher: ``state -> result``; the state itself where it isn't given.
        state_type: ``"long"``, ``"double"``, ``"string"``, ``"binary"`` or ``"boolean"``.
        result_type: The same, of the result; the state's where it isn't given.
    """
    _check_type("state_type", state_type)
    _check_type("result_type", result_type or state_type)
    functions = UserFunctions(
        initializer,
        aggregator,
        merger,
        finisher or _same,
        state_type,
        result_type or state_type,
    )
    types = (("state_type", state_type), ("result_type", result_type or state_type))
    return Aggregate("user", column, options=types, functions=functions)


def top_k(column: Any, k: int) -> Aggregate:
    """The ``k`` greatest values, greatest first, as a list; nulls and NaN are skipped.

    Raises:
        OptionError: When ``k`` isn't within 1 and 10 000.
    """
    if not 1 <= k <= 10_000:
        raise OptionError("k", k, "is out of range", "give a whole number from 1 to 10000")
    return Aggregate("top_k", column, options=(("k", k),))


def median(column: Any) -> Aggregate:
    """The exact median, a double: the middle value, or the mean of the middle two.

    Like every aggregate below it keeps all values of a window (the message store of the Samza
    design), so its state is as large as its input. Nulls and NaN are skipped.
    """
    return Aggregate("median", column)


def exact_quantile(column: Any, q: float) -> Aggregate:
    """The value at rank ``q`` of all values: the least that ``q`` of them don't exceed.

    Raises:
        OptionError: When ``q`` isn't within 0 and 1.
    """
    if not 0 <= q <= 1:
        raise OptionError("q", q, "isn't a rank", "give a number from 0 to 1, 0.95 for p95")
    return Aggregate("exact_quantile", column, options=(("q", float(q)),))


def collect_list(column: Any) -> Aggregate:
    """All values that aren't null, by event time; of equal times, the least first."""
    return Aggregate("collect_list", column)


def distinct(column: Any) -> Aggregate:
    """The distinct values that aren't null, in ascending order, as a list."""
    return Aggregate("distinct", column)


def apply(
    function: Callable[[list[dict[str, Any]]], Any], *columns: str, result_type: str = "double"
) -> Aggregate:
    """Your own function over all rows of a window, called once a firing.

    Args:
        function: Gets a list of dictionaries, by event time (of equal times, the least row
            first), and returns the result. It must not depend on anything else.
        *columns: The names of the columns that the rows have.
        result_type: ``"long"``, ``"double"``, ``"string"``, ``"binary"`` or ``"boolean"``.

    Raises:
        OptionError: When no column is named, or the type isn't known.
    """
    if not columns:
        raise OptionError("columns", None, "names no column", "name what the rows need")
    _check_type("result_type", result_type)
    return Aggregate(
        "apply", options=(("result_type", result_type),), rows=RowsFunction(columns, function)
    )


def _check_type(option: str, value: str) -> None:
    if value not in _TYPES:
        raise OptionError(option, value, "isn't a type", f"give one of {', '.join(_TYPES)}")


def _same(state: Any) -> Any:
    return state
