"""``SELECT ... UNION ALL SELECT ...``: messages of several tables, read as one stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from muntin.model.inputs import InputOptions
from muntin.model.pipeline import Union
from muntin.sql.catalog import ResolvedRelation
from muntin.sql.cursor import Cursor
from muntin.sql.lookups import is_input
from muntin.sql.syntax import Select


def lower_union(
    cursor: Cursor, select: Select, lower: Callable[[Select], Any], outermost: bool
) -> ResolvedRelation:
    """Return the united rows of several queries that choose and compute rows one by one."""
    parts = (replace(select, united=(), views=()), *select.united)
    if outermost:
        hint = "unite rows in FROM (SELECT ... UNION ALL SELECT ...), or write two queries"
        cursor.fail(parts[1].span, "UNION ALL unites messages, not whole queries", hint)
    found: list[ResolvedRelation] = []
    for part in parts:
        one = lower(part)
        if not isinstance(one, ResolvedRelation) or not is_input(one.relation):
            hint = "unite the rows before their windows, or write two queries"
            cursor.fail(part.span, "this query's results can't be united with others", hint)
        found.append(one)
    marks = _merge_input_options(cursor, parts, [one.marks for one in found])
    return ResolvedRelation(Union(tuple(one.relation for one in found)), marks, frozenset())


def _merge_input_options(
    cursor: Cursor, parts: Sequence[Select], marks: Sequence[InputOptions]
) -> InputOptions:
    """Return the marks of all messages together; the watermark trails by the greatest lateness."""
    first = marks[0]
    for part, one in zip(parts, marks, strict=True):
        if one.offset is not None:
            hint = "leave OFFSET FOR out of the tables"
            cursor.fail(part.span, "offsets of several tables may be the same", hint)
        if (one.watermark, one.clocks) != (first.watermark, first.clocks):
            hint = "write the same BY behind WATERMARK in all of them, or in none"
            cursor.fail(part.span, "the watermark goes by something else here", hint)
        places = ("time", first.time, one.time), ("clock", first.clock, one.clock)
        for name, mine, other in places:
            if (mine or "").lower() != (other or "").lower():
                hint = f"name it alike in all of them: SELECT {other or mine} AS {mine or other}"
                problem = f"the {name} is {other or 'nothing'} here, and {mine or 'nothing'} before"
                cursor.fail(part.span, problem, hint)
    ahead = [one.max_ahead for one in marks]
    idle = [one.idle for one in marks]
    return replace(
        first,
        lateness=max(one.lateness for one in marks),
        max_ahead=None if None in ahead else max(a for a in ahead if a is not None),
        idle=None if None in idle else max(i for i in idle if i is not None),
    )
