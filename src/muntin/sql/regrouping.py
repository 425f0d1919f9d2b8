"""Groups of windows that have the same bounds: ``GROUP BY window_start, window_end`` again.

A query around windows may group them by their bounds, without a second window function. Its groups
are whole when the windows are, and are emitted once.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from muntin.model.aggregates import min as least
from muntin.model.axis import MICROSECOND
from muntin.model.pipeline import FIRST, Column, Windowing, quote_name
from muntin.model.policies import Firing
from muntin.model.ranking import moments
from muntin.model.sessions import Sessions
from muntin.model.spec import WindowSpec
from muntin.sql.catalog import ResolvedRelation, find_bound_column, resolve_bound_alias
from muntin.sql.expressions import Scope
from muntin.sql.grouped_select import GroupedSelectList
from muntin.sql.select_list import END, START, complete_columns
from muntin.sql.syntax import Select, SelectItem, WindowCall
from muntin.sql.window_functions import WindowBinding

# The windows around them begin at the end that they share, and last a microsecond.
_SHARED = {START: quote_name(FIRST), END: f"({END} - INTERVAL '0.000001' SECOND)"}


def lower_regrouping(
    scope: Scope, select: Select, resolved: ResolvedRelation
) -> tuple[WindowBinding, GroupedSelectList] | None:
    """Return the groups of windows with the same bounds, if a query groups by those.

    Raises:
        SqlError: When the groups would never be whole, or the query says when to emit.
    """
    end = find_bound_column(resolved.relation, END)
    names = [scope.own(node) for node in select.group]
    bounds = {
        resolve_bound_alias(resolved.relation, name).lower() for name in names if name is not None
    }
    if end is None or END not in bounds:
        return None
    if select.emit is not None:
        hint = "leave EMIT out: groups of windows are emitted once, when the windows are full"
        scope.fail(select.emit.spans["emit"], "these groups have no policy", hint)
    windowing = resolved.relation
    if isinstance(windowing, Windowing) and isinstance(windowing.spec.windows, Sessions):
        hint = "window them in time: TABLE(TUMBLE(TABLE sessions, DESCRIPTOR(window_end), 1 HOUR))"
        scope.fail(select.group_span, "sessions share no bounds", hint)
    windows = moments(end).windows
    return WindowBinding(windows, None, end, None, (), {}), RegroupedSelectList(
        scope, select, resolved
    )


class RegroupedSelectList(GroupedSelectList):
    """The keys, aggregates and output of groups of windows that have the same bounds."""

    def __init__(self, scope: Scope, select: Select, resolved: ResolvedRelation) -> None:
        self._relation = resolved.relation
        super().__init__(scope, select, WindowCall("TUMBLE", (), select.group_span), True)

    def _bound(self, node: exp.Expr) -> str | None:
        own = self.scope.own(node)
        bound = None if own is None else resolve_bound_alias(self._relation, own).lower()
        return bound if bound in _SHARED else super()._bound(node)

    def _named_there(self, node: exp.Expr) -> str | None:
        text = super()._named_there(node)
        return text if text is None else _SHARED.get(text, text)

    def show(self, item: SelectItem, name: str, text: str) -> None:
        """Add a column to the output; the bounds are those that the windows share."""
        super().show(item, name, text)
        shown = self.outputs[-1]
        self.outputs[-1] = replace(shown, text=_SHARED.get(shown.text, shown.text))

    def spec(self, meant: WindowBinding, firing: Firing, **options: object) -> WindowSpec:
        """Return the spec of the query, which finds the start that the windows share."""
        self.aggregates[FIRST] = least(find_bound_column(self._relation, START) or START)
        spec = super().spec(meant, firing, **options)
        return replace(spec, lateness=-MICROSECOND)

    def shown(self) -> tuple[Column, ...]:
        """Return the output columns, with the bounds that the windows share."""
        whole = complete_columns(self.outputs, [*self._identity, START, END])
        return tuple(
            replace(column, text=_SHARED.get(column.text.strip("`"), column.text))
            for column in whole
        )
