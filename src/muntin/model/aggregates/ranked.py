"""``top_k``, ``median`` and ``exact_quantile``: values by their rank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from muntin.model.aggregates.aggregate import Aggregate
from muntin.model.aggregates.entry import (
    ALL_VALUES,
    LIST,
    SAME,
    EngineExpr,
    Formula,
    Sql,
    entry,
    every_value,
)
from muntin.model.aggregates.plainly import rank, sort_numbers
from muntin.model.errors import OptionError
from muntin.model.shapes import NUMERIC, ORDER

ROW_NUMBER, RANK, DENSE_RANK = "ROW_NUMBER", "RANK", "DENSE_RANK"


def _take_first(values: list[Any], agg: Aggregate) -> list[Any]:
    """Return the first values in the order of an aggregate, in plain Python."""
    options = dict(agg.options)
    ordered = sort_numbers(values)
    words = list(enumerate(options.get("fields", "").split()))
    if not words and not options.get("ascending"):
        ordered.reverse()
    for index, word in reversed(words):
        ordered.sort(key=partial(_field_of, index), reverse=word == "desc")
    if "ties" not in options:
        return ordered[: options["k"]]
    fields = [[_field_of(index, value) for index, _ in words] for value in ordered]
    return [value for value, n in zip(ordered, _ranks(fields, options["ties"]), strict=True)
            if n <= options["k"]]  # fmt: skip


def _ranks(fields: Sequence[Any], ties: str) -> list[int]:
    """Return the rank of each row, in order, from the fields that it is ordered by."""
    ranks: list[int] = []
    for index, row in enumerate(fields):
        if index and row == fields[index - 1]:
            ranks.append(ranks[-1])
        else:
            ranks.append(1 + (index if ties == RANK else (ranks or [0])[-1]))
    return ranks


def _field_of(index: int, value: dict[str, Any]) -> Any:
    field = list(value.values())[index]
    # As in Spark, a null is less than every value.
    return (False, (False, 0)) if field is None else (True, rank(field))


def _lift_first(values: EngineExpr, agg: Aggregate) -> tuple[EngineExpr]:
    options = dict(agg.options)
    words = options.get("fields", "").split()
    if not words:
        return (values.sort(descending=not options.get("ascending")).head(options["k"]),)
    # Rows that are equal so far are ordered by all of their fields.
    by = [*(values.struct[index] for index in range(len(words))), values]
    descending = [*(word == "desc" for word in words), False]
    ordered = values.sort_by(by, descending=descending, nulls_last=descending)
    if "ties" not in options:
        return (ordered.head(options["k"]),)
    return (ordered.filter(rank_rows(ordered, len(words), options["ties"]) <= options["k"]),)


def rank_rows(rows: EngineExpr, fields: int, ties: str) -> EngineExpr:
    """Return the rank of each of some ordered structs, as ``RANK`` or ``DENSE_RANK`` counts.

    They are ordered by their first ``fields``. ``RANK`` leaves out a number for each tied row.
    """
    places = rows.cum_count()
    is_first = places == 1
    for index in range(fields):
        field = rows.struct[index]
        is_first = is_first | field.ne_missing(field.shift(1))
    if ties == DENSE_RANK:
        return is_first.cum_sum()
    return (is_first.cast(int) * places).cum_max()


def _lower_first(lists: EngineExpr, agg: Aggregate) -> EngineExpr:
    options = dict(agg.options)
    if not options.get("fields"):
        lists = lists.list.sort(descending=not options.get("ascending"))
    return lists if "ties" in options else lists.list.head(options["k"])


@entry(
    accepts=ORDER,
    gives=LIST,
    empty=[],
    skips_nan=True,
    sql=Sql(("TOP_K", "TOPK"), "whole number"),
    size=lambda agg, messages: 8 * min(messages, float(agg.option("k"))),
    value=_take_first,
    formula=Formula(lift=_lift_first, merge=_lift_first, lower=_lower_first),
)
def top_k(column: Any, k: int, ascending: bool | Sequence[bool] = False) -> Aggregate:
    """List the ``k`` greatest values, greatest first; nulls and NaN are skipped.

    Structs are compared by their first different field. ``top`` emits them as rows.

    Args:
        column: The column of values, or an expression.
        k: Greatest number of values, 1 to 10 000.
        ascending: ``True`` for the least values, least first. For structs also a list of one flag
            for each of the first fields, as in ``orderBy``; rows that are equal in those are
            ordered by all of their fields, ascending. A null in a field is less than every value,
            as in Spark.

    Returns:
        An aggregate for ``.agg(…)``: an array of the column's type, empty without values.

    Raises:
        OptionError: When ``k`` isn't within 1 and 10 000, or no field is ordered by; from ``.agg``,
            when the column's type has no order.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01"] * 3, "v": [3, 5, 4]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=top_k("v", 2)).results["x"].to_list()
        [[5, 4]]
    """
    if not 1 <= k <= 10_000:
        raise OptionError("k", k, "is out of range", "give a whole number from 1 to 10000")
    options: list[tuple[str, Any]] = [("k", k)]
    if isinstance(ascending, bool):
        options += [("ascending", True)] if ascending else []
    elif not ascending:
        hint = "give True or False, or one of them for each of the first fields"
        raise OptionError("ascending", ascending, "orders by nothing", hint)
    else:
        words = " ".join("asc" if up else "desc" for up in ascending)
        options.append(("fields", words))
    return Aggregate("top_k", column, options=tuple(options))


def first_rows(column: Any, k: int, ascending: Sequence[bool], number: str) -> Aggregate:
    """List the rows whose number is at most ``k``, in the order of their first fields.

    ``number`` is ``ROW_NUMBER``, or ``RANK`` or ``DENSE_RANK``, by which tied rows share one.
    """
    first = top_k(column, k, tuple(ascending))
    if number == ROW_NUMBER:
        return first
    return replace(first, options=(*first.options, ("ties", number)))


def _middle(values: list[Any], agg: Aggregate) -> float | None:
    ordered = [float(number) for number in sort_numbers(values)]
    if not ordered:
        return None
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2


@entry(
    accepts=NUMERIC,
    skips_nan=True,
    full_state=True,
    sql=Sql(("MEDIAN",)),
    size=every_value,
    value=_middle,
    formula=replace(ALL_VALUES, lower=lambda lists, agg: lists.list.median()),
)
def median(column: Any) -> Aggregate:
    """Compute the exact median: the middle value, or the mean of the middle two.

    The state keeps all values of a window (the message store of the Samza design), so it is as
    large as the input. Nulls and NaN are skipped.

    Args:
        column: The column of values, or an expression.

    Returns:
        An aggregate for ``.agg(…)``: a ``double``, NULL without values.

    Raises:
        OptionError: From ``.agg``, when the column isn't numeric.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01", "2026-01-01"], "v": [3, 5]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=median("v")).results["x"].to_list()
        [4.0]
    """
    return Aggregate("median", column)


def find_at_rank(values: list[Any], agg: Aggregate) -> Any:
    """Return the value at the rank ``q`` of an aggregate."""
    ordered = sort_numbers(values)
    rank_number = math.ceil(agg.option("q") * len(ordered))
    return ordered[max(1, rank_number) - 1] if ordered else None


def _lower_at_rank(lists: EngineExpr, agg: Aggregate) -> EngineExpr:
    index = ((agg.option("q") * lists.list.len()).ceil().cast(int) - 1).clip(0)
    return lists.list.sort().list.get(index, null_on_oob=True)


@entry(
    accepts=ORDER,
    gives=SAME,
    skips_nan=True,
    full_state=True,
    sql=Sql(("EXACT_QUANTILE",), "number", within=("PERCENTILE_DISC",)),
    size=every_value,
    value=find_at_rank,
    formula=replace(ALL_VALUES, lower=_lower_at_rank),
)
def exact_quantile(column: Any, q: float) -> Aggregate:
    """Find the least value that at least the share ``q`` of the values doesn't exceed.

    It is SQL's ``percentile_disc``. The state keeps all values of a window. Nulls and NaN are
    skipped.

    Args:
        column: The column of values, or an expression.
        q: The rank, from 0 to 1: 0.95 for p95.

    Returns:
        An aggregate for ``.agg(…)``: the column's type, NULL without values.

    Raises:
        OptionError: When ``q`` isn't within 0 and 1; from ``.agg``, when the column's type has no
            order.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> rows = pl.DataFrame({"at": ["2026-01-01"] * 3, "v": [3, 5, 4]})
        >>> day = mt.windowed(rows, time="at").tumbling("1 day")
        >>> day.agg(x=exact_quantile("v", 0.5)).results["x"].to_list()
        [4]
    """
    if not 0 <= q <= 1:
        raise OptionError("q", q, "isn't a rank", "give a number from 0 to 1, 0.95 for p95")
    return Aggregate("exact_quantile", column, options=(("q", float(q)),))
