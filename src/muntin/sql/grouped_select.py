"""Lowers ``GROUP BY``: the select lists of queries that group messages, or windows again.

A query around windows may group them by their bounds without a second window function. Its groups
are complete when the inner windows are, and are emitted once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from muntin.model.aggregates import min as least
from muntin.model.axis import MICROSECOND
from muntin.model.close_names import find_close_name
from muntin.model.grouping_sets import GROUPING_ID, number_set
from muntin.model.pipeline import (
    EMISSION_COLUMNS,
    FIRST,
    Column,
    JoinRelation,
    WindowRelation,
    quote_name,
)
from muntin.model.policies import Firing
from muntin.model.ranking import make_windows_by_end
from muntin.model.spec import WindowSpec
from muntin.sql import ksql
from muntin.sql.aggregates import find_aggregate_name, lower_aggregate
from muntin.sql.catalog import ResolvedRelation, find_bound_column, resolve_bound_alias
from muntin.sql.cursor import WindowNode, window_call_of
from muntin.sql.expressions import Scope, normalize, walk
from muntin.sql.select_list import (
    END,
    FLINK_ROWTIME,
    START,
    SelectList,
    complete_columns,
    find_item_by_ordinal,
)
from muntin.sql.syntax import Select, SelectItem, WindowCall
from muntin.sql.window_functions import (
    BOUND_FUNCTIONS,
    ROUNDING_FUNCTIONS,
    SPARK_FUNCTIONS,
    WindowBinding,
)

# The last moment of a window, as Spark's functions return it.
_WINDOW_TIME = f"({END} - INTERVAL '0.000001' SECOND)"
_SET_FUNCTIONS = ("grouping", "grouping_id")
_WINDOW_STRUCT = f"named_struct('start', {START}, 'end', {END})"


def _render_window_function(name: str) -> str:
    """Return the text over results of a window function outside of ``FROM``."""
    if name in BOUND_FUNCTIONS:
        ends = {"START": START, "END": END, "ROWTIME": FLINK_ROWTIME}
        return ends[name.rpartition("_")[2]]
    if name in ROUNDING_FUNCTIONS:
        # CEIL makes windows that begin and end a microsecond after a full hour.
        return START if name == "FLOOR" else _WINDOW_TIME
    return _WINDOW_STRUCT


class GroupedSelectList(SelectList):
    """The keys, aggregates and output columns of a query with ``GROUP BY``.

    Attributes:
        from_call: Whether it stands in ``FROM``, so that groups need the bounds of its windows.
    """

    def __init__(
        self,
        scope: Scope,
        select: Select,
        window: WindowCall,
        from_call: bool,
        partition: Sequence[exp.Expr] = (),
    ) -> None:
        super().__init__(scope, select)
        self.window = window
        self.from_call = from_call
        self._session_end = ksql.find_session_end(select.window)
        items = (*select.named_keys, *select.items)
        self._aliases = {item.alias.lower(): item for item in items if item.alias and item.scalar}
        self._struct_names = (
            {"window", "session_window"} if window.name in SPARK_FUNCTIONS else set()
        )
        for name, item in self._aliases.items():
            node = item.scalar
            if isinstance(node, WindowNode) and window_call_of(node).name in SPARK_FUNCTIONS:
                self._struct_names.add(name)
        self._lower_group_by()
        if partition:
            self._check_partition(partition)
        for item in select.items:
            self._lower_item(item)
        if select.having is not None:
            self.having = self.render_over_results(select.having)

    def _lower_group_by(self) -> None:
        """Separate the keys from the bounds of windows."""
        bounds: set[str] = set()
        for expression in self.select.group:
            node = self._dereference(expression)
            bound = self._find_bound(node)
            if bound == _WINDOW_STRUCT:
                bounds |= {START, END}
            elif bound is not None:
                bounds.add(bound)
            else:
                self._add_key_expression(expression, node)
        if not bounds and self.select.window is None:
            hint = f"add {self._quote_window()} to GROUP BY"
            self.scope.fail(self.select.group_span, "the query isn't grouped by windows", hint)
        if self.select.grouping_sets is not None:
            self.grouping_sets = self._number_sets(self.select.grouping_sets, bounds)
        missing = [name for name in (START, END) if name not in bounds]
        if self.from_call and missing:
            hint = f"add {', '.join(missing)} to GROUP BY"
            self.scope.fail(self.select.group_span, "windows aren't grouped by their bounds", hint)

    def _number_sets(
        self, sets: Sequence[Sequence[exp.Expr]], bounds: set[str]
    ) -> tuple[int, ...] | None:
        """Return the numbers of the grouping sets; refuse a set without all bounds of windows.

        The only set of all keys is no set at all, which is ``None``.
        """
        numbers: list[int] = []
        span = self.select.group_span
        for grouping_set in sets:
            set_bounds: set[str | None] = set()
            set_keys: set[str | None] = set()
            for node in map(self._dereference, grouping_set):
                bound = self._find_bound(node)
                if bound is None:
                    set_keys.add(self.find_key(node))
                else:
                    set_bounds |= {START, END} if bound == _WINDOW_STRUCT else {bound}
            if set_bounds != bounds:
                hint = "put them beside the sets, or into each of them"
                self.scope.fail(span, "a grouping set lacks the bounds of windows", hint)
            number = number_set([key.name in set_keys for key in self.keys])
            if number in numbers:
                self.scope.fail(span, "two grouping sets are the same", "leave one out")
            numbers.append(number)
        return None if numbers == [0] else tuple(numbers)

    def _quote_window(self) -> str:
        """Return what ``GROUP BY`` must have, for a hint."""
        if self.from_call:
            return f"{START}, {END}"
        start, end = self.window.span
        text = self.scope.text[start:end]
        return re.sub(r"(?i)_(START|END|ROWTIME)\(", "(", text)

    def _dereference(self, node: exp.Expr) -> exp.Expr:
        """Return the expression that an ordinal or alias in ``GROUP BY`` means, else the node."""
        node = node.unnest()
        item = find_item_by_ordinal(self.scope, self.select, node)
        if item is not None and item.scalar is not None:
            return item.scalar.unnest()
        if isinstance(node, exp.Column) and len(node.parts) == 1:
            item = self._aliases.get(node.name.lower())
            if item is not None and item.scalar is not None and self._is_alias(node, item.scalar):
                return item.scalar.unnest()
        return node

    def _is_alias(self, column: exp.Column, scalar: exp.Expr) -> bool:
        """Return whether a name in ``GROUP BY`` is an item's alias rather than a column."""
        columns = [n for n in walk(scalar) if isinstance(n, exp.Column)]
        hides_column = any(
            (self.scope.find_column_name(c) or "").lower() == column.name.lower() for c in columns
        )
        return not hides_column and not any(find_aggregate_name(n) for n in walk(scalar))

    def _add_key_expression(self, expression: exp.Expr, node: exp.Expr) -> None:
        span = self.scope.locate(expression)
        if isinstance(node, exp.Literal) and self.scope.text[span[0]] == '"':
            # Double quotes are Spark's for texts, and for names in other dialects.
            hint = f"write `{node.name}` for a column of that name, or leave it out"
            self.scope.fail(span, "this key is a text, the same for all messages", hint)
        for inner in walk(node):
            if find_aggregate_name(inner):
                self.scope.fail(span, "an aggregate can't be a key", "leave it out")
            if isinstance(inner, WindowNode):
                self.scope.fail(
                    span, "a window can't be part of a key", "group by the window alone"
                )
        self.add_key(node, span)

    def _check_partition(self, partition: Sequence[exp.Expr]) -> None:
        for node in partition:
            if self.find_key(node) is None:
                hint = "add it to GROUP BY"
                self.scope.fail(node, "this key of the sessions isn't in GROUP BY", hint)
        if self.window.name != "SESSION":
            return
        # A session belongs to one group. Another key would make sessions shorter than the call's.
        partitioned = [normalize(node, self.scope) for node in partition]
        for expression in self.select.group:
            node = self._dereference(expression)
            if self._find_bound(node) is None and normalize(node, self.scope) not in partitioned:
                hint = "add it there, as in PARTITION BY (a, b), or leave it out here"
                span = self.scope.locate(expression)
                self.scope.fail(span, "this key isn't in the PARTITION BY of the sessions", hint)

    def _find_bound(self, node: exp.Expr) -> str | None:
        """Return the text over results of a bound of windows; ``None`` for any other node."""
        if isinstance(node, WindowNode):
            return _render_window_function(window_call_of(node).name)
        if isinstance(node, exp.Anonymous) and node.name.lower() == "window_time":
            bounds = [self._find_bound(argument) for argument in node.expressions]
            return _WINDOW_TIME if bounds == [_WINDOW_STRUCT] else None
        if not isinstance(node, exp.Column):
            return None
        parts = [part.name.lower() for part in node.parts]
        if len(parts) == 2 and parts[0] in self._struct_names and parts[1] in ("start", "end"):
            return START if parts[1] == "start" else END
        column_name = self.scope.find_column_name(node)
        if column_name is None:
            return None
        if column_name.lower() in self._struct_names:
            return _WINDOW_STRUCT
        if column_name.lower() == "window_time" and self.from_call:
            return FLINK_ROWTIME
        if self.select.window is not None and column_name.lower() in ksql.KSQL_COLUMNS:
            bound = ksql.KSQL_COLUMNS[column_name.lower()]
            return self._session_end if bound == END and self._session_end else bound
        return column_name.lower() if column_name.lower() in (START, END) else None

    def _lower_item(self, item: SelectItem) -> None:
        if item.scalar is None:
            hint = "name the columns, as in SELECT key, window_start, count(*) AS n"
            self.scope.fail(item.span, "* isn't a column of a group", hint)
        bound = self._find_bound(item.scalar)
        name = item.alias
        if bound is not None:
            default = self.window.name.lower() if bound == _WINDOW_STRUCT else bound
            if bound in (FLINK_ROWTIME, _WINDOW_TIME):
                default = "window_time"
            elif isinstance(item.scalar, exp.Column) and bound != _WINDOW_STRUCT:
                column_name = item.scalar.name.lower()
                default = ksql.KSQL_COLUMNS.get(column_name, column_name)
                if bound == self._session_end:
                    default = column_name
            self.add_output(item, name or default, bound)
            return
        if find_aggregate_name(item.scalar):
            shown_name = name or self.scope.render(item.scalar).lower()
            aggregate = lower_aggregate(self.scope, item.scalar)
            self.add_output(
                item, shown_name, quote_name(self.add_aggregate(aggregate, item.span, shown_name))
            )
            return
        text = self.render_over_results(item.scalar)
        key = self.find_key(item.scalar)
        if isinstance(item.scalar, exp.Dot) and isinstance(item.scalar.expression, exp.Identifier):
            # Spark names a struct's field by its last part.
            key = key or item.scalar.name
        self.add_output(item, name or key or self.scope.render(item.scalar).lower(), text)

    def _render_part(self, node: exp.Expr) -> str | None:
        bound = self._find_bound(node)
        if bound is not None:
            return bound
        if isinstance(node, exp.Anonymous) and node.name.lower() in _SET_FUNCTIONS:
            return self._render_set_bits(node)
        if isinstance(node, exp.Window):
            hint = "compute it from the table that you write to"
            self.scope.fail(node, "OVER can't be combined with GROUP BY", hint)
        if find_aggregate_name(node):
            aggregate = lower_aggregate(self.scope, node)
            return quote_name(self.add_aggregate(aggregate, self.scope.locate_separable(node)))
        return self._render_reference(node) if isinstance(node, exp.Column) else None

    def _render_set_bits(self, node: exp.Anonymous) -> str:
        """Return the text of ``GROUPING(a)`` or ``GROUPING_ID(a, b)``: a bit for each column."""
        if self.select.grouping_sets is None:
            hint = "group by ROLLUP, CUBE or GROUPING SETS, or leave it out"
            self.scope.fail(node, "there are no grouping sets", hint)
        names = [key.name for key in self.keys]
        columns = [self.find_key(self._dereference(one)) for one in node.expressions] or list(names)
        indexes = [names.index(name) for name in columns if name is not None]
        if len(indexes) < len(columns):
            hint = f"give some of {', '.join(names)}"
            self.scope.fail(node, "this isn't a key of the grouping sets", hint)
        if self.grouping_sets is None:
            return "0L"
        if columns == names:
            return GROUPING_ID
        bits = (
            f"shiftright({GROUPING_ID}, {len(names) - 1 - index}) % 2 * {2**bit}"
            for bit, index in enumerate(reversed(indexes))
        )
        return f"({' + '.join(bits)})"

    def _render_reference(self, node: exp.Column) -> str:
        column_name = self.scope.find_column_name(node)
        if column_name is not None and column_name.lower() in EMISSION_COLUMNS:
            return column_name.lower()
        outputs = {column.name.lower(): column for column in self.outputs}
        if column_name is not None and column_name.lower() in outputs:
            # HAVING and later items may use an alias.
            return f"({outputs[column_name.lower()].text})"
        hint = "add it to GROUP BY, or write an aggregate of it, such as max(...)"
        function = node.find_ancestor(exp.Anonymous)
        if function is not None and not find_aggregate_name(function):
            hint = f"{hint}; {function.name.lower()} isn't one here"
        nearest = find_close_name(column_name or "", [key.name for key in self.keys])
        if nearest is not None:
            hint = f"write {nearest}; or {hint}"
        problem = "this column isn't one value in a group"
        self.scope.fail(self.scope.locate_separable(node), problem, hint)


# A window of a regrouping begins at the end that the inner windows share and lasts a microsecond.
_SHARED_BOUNDS = {START: quote_name(FIRST), END: f"({END} - INTERVAL '0.000001' SECOND)"}


def lower_regrouping(
    scope: Scope, select: Select, resolved: ResolvedRelation
) -> tuple[WindowBinding, GroupedSelectList] | None:
    """Return windows and select list of a query that groups windows by their bounds.

    Returns:
        ``None`` if the query doesn't do so.

    Raises:
        SqlError: When the groups would never be complete, or the query has ``EMIT``.
    """
    end = find_bound_column(resolved.relation, END)
    names = [scope.find_column_name(node) for node in select.group]
    grouped_bounds = {
        resolve_bound_alias(resolved.relation, name).lower() for name in names if name is not None
    }
    if end is None or END not in grouped_bounds:
        return None
    if select.emit is not None:
        hint = "leave EMIT out: groups are emitted once, when their windows are complete"
        scope.fail(select.emit.spans["emit"], "groups of windows take no EMIT", hint)
    windowing = resolved.relation
    if isinstance(windowing, WindowRelation) and not windowing.spec.windows.is_numbered:
        hint = "window them in time: TABLE(TUMBLE(TABLE sessions, DESCRIPTOR(window_end), 1 HOUR))"
        scope.fail(select.group_span, "sessions don't share bounds", hint)
    windows = make_windows_by_end(end).windows
    return WindowBinding(windows, None, end, None, (), {}), RegroupedSelectList(
        scope, select, resolved
    )


class RegroupedSelectList(GroupedSelectList):
    """The keys, aggregates and output columns of groups of windows with the same bounds."""

    def __init__(self, scope: Scope, select: Select, resolved: ResolvedRelation) -> None:
        self._relation = resolved.relation
        super().__init__(scope, select, WindowCall("TUMBLE", (), select.group_span), True)

    def _find_bound(self, node: exp.Expr) -> str | None:
        column_name = self.scope.find_column_name(node)
        bound = (
            None
            if column_name is None
            else resolve_bound_alias(self._relation, column_name).lower()
        )
        return bound if bound in _SHARED_BOUNDS else super()._find_bound(node)

    def _render_part(self, node: exp.Expr) -> str | None:
        text = super()._render_part(node)
        return text if text is None else _SHARED_BOUNDS.get(text, text)

    def add_output(self, item: SelectItem, name: str, text: str) -> None:
        """Add an output column; bounds become those that the inner windows share."""
        super().add_output(item, name, text)
        output = self.outputs[-1]
        self.outputs[-1] = replace(output, text=_SHARED_BOUNDS.get(output.text, output.text))

    def build_spec(self, binding: WindowBinding, firing: Firing, **options: object) -> WindowSpec:
        """Return the spec of the query, with an aggregate for the start that the windows share."""
        self.aggregates[FIRST] = least(find_bound_column(self._relation, START) or START)
        spec = super().build_spec(binding, firing, **options)
        # A join may still emit pairs whose windows end at the watermark.
        return (
            spec
            if isinstance(self._relation, JoinRelation)
            else replace(spec, lateness=-MICROSECOND)
        )

    def build_columns(self) -> tuple[Column, ...]:
        """Return the output columns, with the bounds that the inner windows share."""
        columns = complete_columns(self.outputs, [*self._identity_columns, START, END])
        return tuple(
            replace(column, text=_SHARED_BOUNDS.get(column.text.strip("`"), column.text))
            for column in columns
        )
