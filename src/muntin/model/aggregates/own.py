"""``aggregate`` and ``apply``: functions of the user's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from muntin.model.aggregates.aggregate import Aggregate, RowsFunction, UserFunctions
from muntin.model.aggregates.entry import WindowRows, entry, every_value
from muntin.model.aggregates.plainly import rank_of_any
from muntin.model.errors import OptionError
from muntin.model.shapes import STORABLE

_TYPES = ("long", "double", "string", "binary", "boolean")


def _fold(values: list[Any], agg: Aggregate) -> Any:
    assert agg.functions is not None
    lifted = [agg.functions.aggregator(agg.functions.initializer(), value) for value in values]
    return agg.functions.finisher(reduce(agg.functions.merger, lifted))


def _apply_function(rows: WindowRows, agg: Aggregate) -> Any:
    """Apply the user's function to the rows by time, then by value with nulls last."""
    assert agg.rows is not None
    columns = agg.rows.columns
    ordered = [
        (position, {column: message[column] for column in columns}) for position, message in rows
    ]
    ordered.sort(key=lambda row: (row[0], [rank_of_any(row[1][column]) for column in columns]))
    return agg.rows.function([row for _, row in ordered])


@entry("user", accepts=STORABLE, starts_empty=False, users=True, value=_fold)
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
    """Fold values by your own functions, as KIP-94 names them; runs Python for each message.

    Each message starts its own state, ``aggregator(initializer(), value)``, and only the merger
    combines states. So the result doesn't depend on how messages are read. The initializer should
    be neutral, since it counts once for each message.

    Args:
        column: The column of values, or an expression.
        initializer: ``() -> state``.
        aggregator: ``(state, value) -> state``; not called for nulls. ``None`` is no state.
        merger: ``(state, state) -> state``; must be associative. If it isn't commutative, the
            result depends on the order in which messages arrive.
        finisher: ``state -> result``. Default: the state is the result.
        state_type: ``"long"``, ``"double"``, ``"string"``, ``"binary"`` or ``"boolean"``.
        result_type: The type of the result. Default: ``state_type``.

    Returns:
        An aggregate for ``.agg(…)``: ``result_type``, NULL without values.

    Raises:
        OptionError: When a type isn't one of those.

    Example:
        >>> import operator
        >>> import polars as pl
        >>> import muntin as mt
        >>> product = aggregate(
        ...     "v", initializer=lambda: 1.0, aggregator=operator.mul, merger=operator.mul
        ... )
        >>> rows = pl.DataFrame({"at": ["2026-01-01", "2026-01-01"], "v": [3.0, 5.0]})
        >>> mt.windowed(rows, time="at").tumbling("1 day").agg(x=product).results["x"].to_list()
        [15.0]
    """
    types = {"state_type": state_type, "result_type": result_type or state_type}
    for option, kind in types.items():
        _check_type(option, kind)
    functions = UserFunctions(initializer, aggregator, merger, finisher or _identity, **types)
    return Aggregate("user", column, options=tuple(types.items()), functions=functions)


@entry(
    accepts=STORABLE,
    starts_empty=False,
    users=True,
    full_state=True,
    size=every_value,
    of_rows=_apply_function,
)
def apply(
    function: Callable[[list[dict[str, Any]]], Any], *columns: str, result_type: str = "double"
) -> Aggregate:
    """Compute a result by your own function over all rows of a window, at each emission.

    The state keeps all rows of a window.

    Args:
        function: Takes a list of dictionaries by event time (at equal times the least row first),
            and returns the result. It must not depend on anything else.
        *columns: The names of the columns that the rows have.
        result_type: ``"long"``, ``"double"``, ``"string"``, ``"binary"`` or ``"boolean"``.

    Returns:
        An aggregate for ``.agg(…)``: ``result_type``.

    Raises:
        OptionError: When no column is named, or the type isn't one of those.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> spread = apply(lambda rows: rows[-1]["v"] - rows[0]["v"], "v")
        >>> rows = pl.DataFrame({"at": ["2026-01-01", "2026-01-02"], "v": [3.0, 5.0]})
        >>> mt.windowed(rows, time="at").tumbling("7 days").agg(x=spread).results["x"].to_list()
        [2.0]
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


def _identity(state: Any) -> Any:
    return state
