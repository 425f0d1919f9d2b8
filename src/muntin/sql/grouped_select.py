"""The select list of a query with ``GROUP BY``: its keys, its aggregates, and its output."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from muntin.model.grouping_sets import GROUPING_ID, number_set
from muntin.model.pipeline import quote_name
from muntin.sql import ksql
from muntin.sql.aggregates import find_aggregate_name, lower_aggregate
from muntin.sql.cursor import WindowNode, window_call_of
from muntin.sql.expressions import Scope, normalize, walk
from muntin.sql.select_list import EMISSION_COLUMNS, END, START, SelectList, find_item_by_ordinal
from muntin.sql.syntax import Select, SelectItem, WindowCall
from muntin.sql.window_functions import BOUND_FUNCTIONS, ROUNDING_FUNCTIONS, SPARK_FUNCTIONS

# The last moment of a window, as Flink's and Spark's functions return it.
_ROWTIME = f"({END} - INTERVAL '0.001' SECOND)"
_WINDOW_TIME = f"({END} - INTERVAL '0.000001' SECOND)"
_SET_FUNCTIONS = ("grouping", "grouping_id")
_STRUCT = f"named_struct('start', {START}, 'end', {END})"


def _render_window_function(name: str) -> str:
    """Return a window function outside of ``FROM`` as a text over columns of results."""
    if name in BOUND_FUNCTIONS:
        ends = {"START": START, "END": END, "ROWTIME": _ROWTIME}
        return ends[name.rpartition("_")[2]]
    if name in ROUNDING_FUNCTIONS:
        # Windows that are rounded up begin a microsecond after a full hour and end a microsecond
        # after the next.
        return START if name == "FLOOR" else _WINDOW_TIME
    return _STRUCT


class GroupedSelectList(SelectList):
    """The keys, aggregates and output from ``GROUP BY``, the select list and ``HAVING``."""

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
        self._aliases = {i.alias.lower(): i for i in select.items if i.alias and i.scalar}
        self._struct_names = (
            {"window", "session_window"} if window.name in SPARK_FUNCTIONS else set()
        )
        for name, item in self._aliases.items():
            if isinstance(item.scalar, WindowNode) and self._struct(item.scalar):
                self._struct_names.add(name)
        self._group()
        if partition:
            self._check_partition(partition)
        for item in select.items:
            self._output(item)
        if select.having is not None:
            self.having = self.over_results(select.having)

    def _group(self) -> None:
        """Separate the keys from the bounds of windows."""
        bounds: set[str] = set()
        for written in self.select.group:
            node = self._meant(written)
            bound = self._bound(node)
            if bound == _STRUCT:
                bounds |= {START, END}
            elif bound is not None:
                bounds.add(bound)
            else:
                self._key(written, node)
        if not bounds and self.select.window is None:
            hint = f"add {self._form()} to GROUP BY"
            self.scope.fail(self.select.group_span, "the query isn't grouped by windows", hint)
        if self.select.sets is not None:
            self.sets = self._numbered(self.select.sets, bounds)
        missing = [name for name in (START, END) if name not in bounds]
        if self.from_call and missing:
            hint = f"add {', '.join(missing)} to GROUP BY"
            self.scope.fail(self.select.group_span, "windows aren't grouped by their bounds", hint)

    def _numbered(
        self, sets: Sequence[Sequence[exp.Expr]], bounds: set[str]
    ) -> tuple[int, ...] | None:
        """Return the numbers of grouping sets, each of which must have all bounds of windows."""
        found: list[int] = []
        span = self.select.group_span
        for written in sets:
            mine: set[str | None] = set()
            keys: set[str | None] = set()
            for node in map(self._meant, written):
                bound = self._bound(node)
                if bound is None:
                    keys.add(self.key_of(node))
                else:
                    mine |= {START, END} if bound == _STRUCT else {bound}
            if mine != bounds:
                hint = "put them beside the sets, or into each of them"
                self.scope.fail(span, "the bounds of windows aren't in each grouping set", hint)
            number = number_set([key.name in keys for key in self.keys])
            if number in found:
                self.scope.fail(span, "two grouping sets are the same", "leave one out")
            found.append(number)
        return None if found == [0] else tuple(found)

    def _form(self) -> str:
        if self.from_call:
            return f"{START}, {END}"
        start, end = self.window.span
        written = self.scope.text[start:end]
        return re.sub(r"(?i)_(START|END|ROWTIME)\(", "(", written)

    def _meant(self, node: exp.Expr) -> exp.Expr:
        """Return the expression that an ordinal or alias in ``GROUP BY`` means, unnested."""
        node = node.unnest()
        item = find_item_by_ordinal(self.scope, self.select, node)
        if item is not None and item.scalar is not None:
            return item.scalar.unnest()
        if isinstance(node, exp.Column) and len(node.parts) == 1:
            item = self._aliases.get(node.name.lower())
            if item is not None and item.scalar is not None and self._groups(node, item.scalar):
                return item.scalar.unnest()
        return node

    def _groups(self, named: exp.Column, scalar: exp.Expr) -> bool:
        """Return whether a name in ``GROUP BY`` means a select item rather than a column."""
        columns = [n for n in walk(scalar) if isinstance(n, exp.Column)]
        same = any((self.scope.own(c) or "").lower() == named.name.lower() for c in columns)
        return not same and not any(find_aggregate_name(n) for n in walk(scalar))

    def _key(self, written: exp.Expr, node: exp.Expr) -> None:
        span = self.scope.span(written)
        for inner in walk(node):
            if find_aggregate_name(inner):
                self.scope.fail(span, "an aggregate isn't grouped by", "leave it out")
            if isinstance(inner, WindowNode):
                self.scope.fail(span, "a window isn't part of a key", "group by the window alone")
        self.key(node, span)

    def _check_partition(self, partition: Sequence[exp.Expr]) -> None:
        for node in partition:
            if self.key_of(node) is None:
                hint = "add it to GROUP BY"
                self.scope.fail(self.scope.span(node), "sessions are partitioned by this", hint)
        if self.window.name != "SESSION":
            return
        # A session belongs to one group: another key would make sessions shorter than those of the
        # call.
        partitioned = [normalize(node, self.scope) for node in partition]
        for written in self.select.group:
            node = self._meant(written)
            if self._bound(node) is None and normalize(node, self.scope) not in partitioned:
                hint = "add it there, as in PARTITION BY (a, b), or leave it out here"
                span = self.scope.span(written)
                self.scope.fail(span, "PARTITION BY doesn't divide sessions by this", hint)

    def _struct(self, node: WindowNode) -> bool:
        return window_call_of(node).name in SPARK_FUNCTIONS

    def _is_window(self, arguments: Sequence[exp.Expr]) -> bool:
        return len(arguments) == 1 and self._bound(arguments[0]) == _STRUCT

    def _bound(self, node: exp.Expr) -> str | None:
        """Return the bound of windows that a node names, in results; ``None`` if it isn't one."""
        if isinstance(node, WindowNode):
            return _render_window_function(window_call_of(node).name)
        if isinstance(node, exp.Anonymous) and node.name.lower() == "window_time":
            return _WINDOW_TIME if self._is_window(node.expressions) else None
        if not isinstance(node, exp.Column):
            return None
        parts = [part.name.lower() for part in node.parts]
        if len(parts) == 2 and parts[0] in self._struct_names and parts[1] in ("start", "end"):
            return START if parts[1] == "start" else END
        own = self.scope.own(node)
        if own is None:
            return None
        if own.lower() in self._struct_names:
            return _STRUCT
        if own.lower() == "window_time" and self.from_call:
            return _ROWTIME
        if self.select.window is not None and own.lower() in ksql.KSQL_COLUMNS:
            return ksql.KSQL_COLUMNS[own.lower()]
        return own.lower() if own.lower() in (START, END) else None

    def _output(self, item: SelectItem) -> None:
        if item.scalar is None:
            hint = "name the columns, as in SELECT key, window_start, count(*) AS n"
            self.scope.fail(item.span, "* is no column of a group", hint)
        bound = self._bound(item.scalar)
        name = item.alias
        if bound is not None:
            default = self.window.name.lower() if bound == _STRUCT else bound
            if bound in (_ROWTIME, _WINDOW_TIME):
                default = "window_time"
            elif isinstance(item.scalar, exp.Column) and bound != _STRUCT:
                written = item.scalar.name.lower()
                default = ksql.KSQL_COLUMNS.get(written, written)
            self.show(item, name or default, bound)
            return
        if find_aggregate_name(item.scalar):
            shown = name or self.scope.plain(item.scalar).lower()
            asked = lower_aggregate(self.scope, item.scalar)
            self.show(item, shown, quote_name(self.computed(asked, item.span, shown)))
            return
        text = self.over_results(item.scalar)
        key = self.key_of(item.scalar)
        self.show(item, name or key or self.scope.plain(item.scalar).lower(), text)

    def _named_there(self, node: exp.Expr) -> str | None:
        bound = self._bound(node)
        if bound is not None:
            return bound
        if isinstance(node, exp.Anonymous) and node.name.lower() in _SET_FUNCTIONS:
            return self._set_bits(node)
        if isinstance(node, exp.Window):
            hint = "compute it from the table that you write to"
            self.scope.fail(self.scope.span(node), "OVER can't stand beside GROUP BY", hint)
        if find_aggregate_name(node):
            asked = lower_aggregate(self.scope, node)
            return quote_name(self.computed(asked, self.scope.standing(node)))
        return self._reference(node) if isinstance(node, exp.Column) else None

    def _set_bits(self, node: exp.Anonymous) -> str:
        """Return the text of ``GROUPING(a)`` or ``GROUPING_ID(a, b)``: a bit for each column."""
        if self.select.sets is None:
            hint = "group by ROLLUP, CUBE or GROUPING SETS, or leave it out"
            self.scope.fail(self.scope.span(node), "there are no grouping sets", hint)
        names = [key.name for key in self.keys]
        asked = [self.key_of(self._meant(one)) for one in node.expressions] or list(names)
        places = [names.index(name) for name in asked if name is not None]
        if len(places) < len(asked):
            hint = f"give some of {', '.join(names)}"
            self.scope.fail(self.scope.span(node), "this isn't a column of the sets", hint)
        if self.sets is None:
            return "0L"
        if asked == names:
            return GROUPING_ID
        bits = (
            f"shiftright({GROUPING_ID}, {len(names) - 1 - place}) % 2 * {2**worth}"
            for worth, place in enumerate(reversed(places))
        )
        return f"({' + '.join(bits)})"

    def _reference(self, node: exp.Column) -> str:
        own = self.scope.own(node)
        if own is not None and own.lower() in EMISSION_COLUMNS:
            return own.lower()
        shown = {column.name.lower(): column for column in self.outputs}
        if own is not None and own.lower() in shown:
            # An alias in HAVING, or of an item that precedes this one.
            return f"({shown[own.lower()].text})"
        hint = "add it to GROUP BY, or write an aggregate of it, such as max(...)"
        problem = "this column isn't one value in a group"
        self.scope.fail(self.scope.standing(node), problem, hint)
