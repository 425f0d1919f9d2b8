"""Lowers ``SELECT ... UNION ALL SELECT ...``, which reads several tables as one stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from muntin.model.inputs import DURATIONS, InputOptions
from muntin.model.pipeline import Column, Derived, Union, quote_name
from muntin.sql.catalog import ResolvedRelation
from muntin.sql.cursor import Cursor
from muntin.sql.lookups import is_input
from muntin.sql.syntax import Select


def lower_union(
    cursor: Cursor, select: Select, lower_part: Callable[[Select], Any], is_outermost: bool
) -> ResolvedRelation:
    """Return the union of queries, each of which only selects and computes rows."""
    parts = (replace(select, unions=(), views=(), order_by=None), *select.unions)
    relations: list[ResolvedRelation] = []
    for part in parts:
        lowered = lower_part(part)
        if not isinstance(lowered, ResolvedRelation) or not is_input(lowered.relation):
            hint = "unite the rows before their windows, or write two queries"
            cursor.fail(part.span, "this query's results can't be united with others", hint)
        relations.append(_select_declared(lowered))
    options = [lowered.input_options for lowered in relations]
    return ResolvedRelation(
        Union(tuple(lowered.relation for lowered in relations)),
        _merge_input_options(cursor, parts, options, needs_time=not is_outermost),
        frozenset(),
        star=relations[0].star,
    )


def _select_declared(resolved: ResolvedRelation) -> ResolvedRelation:
    """Return rows with the declared columns alone, which ``*`` stands for."""
    shown = resolved.relation.columns if isinstance(resolved.relation, Derived) else None
    if not resolved.star or (shown and all(column.text != "*" for column in shown)):
        return resolved
    return resolved.derive(tuple(Column(n, quote_name(n)) for n in resolved.star), None)


def _merge_input_options(
    cursor: Cursor, parts: Sequence[Select], options: Sequence[InputOptions], *, needs_time: bool
) -> InputOptions:
    """Return the input options of the union; the widest limit applies to all messages."""
    first = options[0]
    for part, one in zip(parts, options, strict=True):
        if one.offset is not None:
            hint = "leave OFFSET FOR out of the tables"
            cursor.fail(part.span, "several tables may have the same offsets", hint)
    if not needs_time:
        return InputOptions()
    for part, one in zip(parts, options, strict=True):
        if (one.watermark, one.clocks) != (first.watermark, first.clocks):
            hint = "write the same BY after WATERMARK in all of them, or in none"
            cursor.fail(part.span, "the watermark follows another clock here", hint)
        columns = ("time", first.time, one.time), ("clock", first.clock, one.clock)
        for name, mine, other in columns:
            if (mine or "").lower() != (other or "").lower():
                hint = f"name it alike in all of them: SELECT {other or mine} AS {mine or other}"
                problem = f"the {name} is {other or 'nothing'} here, and {mine or 'nothing'} before"
                cursor.fail(part.span, problem, hint)
    durations: dict[str, Any] = {}
    for option in DURATIONS:
        values = [getattr(one, option.name) for one in options]
        durations[option.name] = None if None in values else max(values)
    return replace(first, **durations)
