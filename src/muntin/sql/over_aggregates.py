"""Lowers aggregates per row, ``OVER (... PRECEDING)``, to windows that slide with the messages.

The windows are as long as the longest frame; an aggregate over a shorter frame has its own length.
With frames of rows, every message has a window, in which its own columns are the last values. With
frames of time, every key and time has a window. With ``DISTINCT``, messages with the same key and
time are one row; without it, each message at the end of a window is a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from muntin.model import aggregates as model
from muntin.model import sliding
from muntin.model.aggregates import Aggregate
from muntin.model.axis import format_duration, rows
from muntin.model.errors import OptionError, SqlError
from muntin.model.pipeline import NUMBER, ROW, ROWS, Column, Expression, quote_name
from muntin.model.rolling import collect_own_messages
from muntin.model.sliding import ClosedSides
from muntin.sql.aggregates import find_aggregate_name, lower_aggregate
from muntin.sql.catalog import ResolvedRelation
from muntin.sql.cursor import IntervalNode, interval_of
from muntin.sql.expressions import Scope, normalize, walk
from muntin.sql.foreign_functions import is_processing_time
from muntin.sql.intervals import Interval
from muntin.sql.select_list import END, START, SelectList, complete_columns
from muntin.sql.syntax import Select, SelectItem
from muntin.sql.window_functions import WindowBinding

_AT = "__muntin_at"
# The fields of a row that selects no column of its message.
_NO_FIELDS = "'none', 0"
_FRAMES = (
    "write OVER (PARTITION BY key ORDER BY ts RANGE INTERVAL '2' MINUTE PRECEDING), "
    "or OVER (PARTITION BY key ROWS 9 PRECEDING)"
)


_NEIGHBOURS = ("LAG", "LEAD")
_NEIGHBOUR_HINT = (
    "write first(x) OVER (PARTITION BY key ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING), "
    "the row that arrived before"
)


@dataclass(frozen=True)
class Frame:
    """The frame of ``OVER``.

    Attributes:
        kind: ``ROWS`` or ``RANGE``.
        length: Length before the row, in microseconds or rows.
        includes_row: Whether the row itself belongs to the frame.
    """

    kind: str
    length: Interval
    includes_row: bool = True

    @property
    def size(self) -> int:
        """The size of the frame's windows, including the row itself if it belongs to the frame."""
        return self.length.value + (self.kind == "ROWS" and self.includes_row)


def lower_frame(scope: Scope, window: exp.Window) -> Frame:
    """Return the frame of ``OVER``; refuse a frame without bounds."""
    span, spec = scope.locate(window), window.args.get("spec")
    if find_aggregate_name(window.this) in _NEIGHBOURS:
        name = find_aggregate_name(window.this).lower()
        scope.fail(span, f"{name} isn't computed here", _NEIGHBOUR_HINT)
    if spec is None:
        scope.fail(span, "without a frame every row would be kept indefinitely", _FRAMES)
    kind = str(spec.args.get("kind")).upper()
    start, end = spec.args.get("start"), spec.args.get("end")
    sides = spec.args.get("start_side"), spec.args.get("end_side")
    if start == "UNBOUNDED":
        scope.fail(span, "a frame without a start grows forever", _FRAMES)
    if not isinstance(start, IntervalNode) or sides[0] != "PRECEDING":
        scope.fail(span, "the frame doesn't start an interval before its row", _FRAMES)
    length: Interval = interval_of(start)
    includes_row = end in (None, "CURRENT ROW")
    if not includes_row and not _ends_before(kind, end, sides[1]):
        scope.fail(span, "the frame ends neither with its row nor just before it", _FRAMES)
    if (excluded := spec.args.get("exclude")) is not None:
        if str(excluded).upper() != _EXCLUDED.get(kind) or not includes_row:
            hint = f"write EXCLUDE {_EXCLUDED.get(kind, 'GROUP')}, or leave it out"
            scope.fail(span, f"EXCLUDE {excluded} doesn't go with {kind}", hint)
        includes_row = False
    if (kind == "ROWS" and length.axis == "time") or (kind == "RANGE" and length.axis != "time"):
        scope.fail(length.span, f"{kind} isn't measured in this", _FRAMES)
    if kind not in ("ROWS", "RANGE"):
        scope.fail(span, f"{kind} frames aren't supported", _FRAMES)
    return Frame(kind, length, includes_row)


# A frame of time that excludes its row excludes all rows of the same time.
_EXCLUDED = {"ROWS": "CURRENT ROW", "RANGE": "GROUP"}


def _ends_before(kind: str, end: Any, side: Any) -> bool:
    """Return whether a frame of rows ends with the row before its own."""
    if not isinstance(end, IntervalNode) or side != "PRECEDING" or kind != "ROWS":
        return False
    length: Interval = interval_of(end)
    return length.axis in ("rows", "number") and length.value == 1


def find_order_column(scope: Scope, window: exp.Window) -> str | None:
    """Return the column that ``OVER`` orders by, ascending; ``None`` without ``ORDER BY``."""
    order = window.args.get("order")
    if order is None:
        return None
    ordered = order.expressions
    if len(ordered) == 1 and is_processing_time(ordered[0].this):
        # Rows are counted as they arrive, which is their order by processing time.
        return None
    one = ordered[0].this if len(ordered) == 1 and not ordered[0].args.get("desc") else None
    column_name = scope.find_column_name(one)
    if column_name is None:
        hint = "order by the event-time column alone, ascending"
        scope.fail(order, "OVER isn't ordered by the event time", hint)
    return column_name


def lower_over_aggregates(
    scope: Scope, select: Select, resolved: ResolvedRelation
) -> tuple[WindowBinding, OverSelectList]:
    """Return the windows and the select list of a query with aggregates per row."""
    if select.group or select.having is not None:
        scope.fail(select.group_span, "GROUP BY and OVER can't be combined", "write two queries")
    nodes = walk(*select.scalars)
    overs = [_resolve_window(scope, select, n) for n in nodes if isinstance(n, exp.Window)]
    window = overs[0]
    for other in overs[1:]:
        if not _have_same_order(scope, window, other):
            hint = "let them differ only in their length, or write two queries"
            scope.fail(other, "a query has one kind of frames", hint)
    frames = [lower_frame(scope, one) for one in overs]
    # The longest frame contains the messages of all others.
    longest = max(frames, key=lambda frame: frame.size)
    order = find_order_column(scope, window)
    try:
        if longest.kind == "ROWS":
            _check_rows(scope, window, order, resolved)
            closed: ClosedSides = "right" if longest.includes_row else "left"
            time, windows = None, sliding.rolling(rows(longest.size), closed)
        else:
            closed = "both" if longest.includes_row else "left"
            time = _check_range(scope, window, order)
            windows = sliding.rolling(format_duration(longest.size), closed)
    except OptionError as error:
        raise SqlError(scope.text, longest.length.span, error.problem, error.hint) from error
    binding = WindowBinding(windows, None, time, None, (), {"size": longest.length.span})
    return binding, OverSelectList(scope, select, window, binding, windows)


def _check_rows(
    scope: Scope, window: exp.Window, order: str | None, resolved: ResolvedRelation
) -> None:
    if resolved.input_options.offset is not None:
        hint = "read the table without OFFSET FOR, or use RANGE"
        scope.fail(window, "ROWS counts rows in the order of arrival, not by offset", hint)
    if order is not None:
        hint = "leave out ORDER BY, or use RANGE INTERVAL ... PRECEDING"
        scope.fail(window, "ROWS counts rows in the order of arrival", hint)


def _check_range(scope: Scope, window: exp.Window, order: str | None) -> str:
    if order is None:
        scope.fail(window, "RANGE needs the column of event times", _FRAMES)
    return order


def _resolve_window(scope: Scope, select: Select, window: exp.Window) -> exp.Window:
    """Return a window; one that ``OVER`` only names is looked up in ``WINDOW``."""
    alias = window.args.get("alias")
    if alias is None:
        return window
    definition = select.named_windows.get(alias.name.lower())
    if definition is None or window.args.get("spec"):
        hint = f"add WINDOW {alias.name} AS (...), and write OVER {alias.name}"
        scope.fail(window, f"there is no window {alias.name}", hint)
    return definition


def _have_same_order(scope: Scope, one: exp.Window, other: exp.Window) -> bool:
    """Return whether two windows differ in nothing but the length of their frames."""

    def describe(window: exp.Window) -> Any:
        parts = [normalize(node, scope) for node in window.args.get("partition_by") or []]
        frame = lower_frame(scope, window)
        return parts, find_order_column(scope, window), frame.kind, frame.includes_row

    return bool(describe(one) == describe(other))


def _name_field(number: int) -> str:
    """Return the name of a column in the struct that holds a message's row."""
    return f"c{number}"


class OverSelectList(SelectList):
    """The select list of a query of aggregates per row."""

    def __init__(
        self,
        scope: Scope,
        select: Select,
        window: exp.Window,
        binding: WindowBinding,
        windows: sliding.Sliding,
    ) -> None:
        super().__init__(scope, select)
        # Frames of rows have no event-time column.
        self.time = binding.time
        self.windows = windows
        self.includes_row = lower_frame(scope, window).includes_row
        self.spans = dict(binding.spans)
        # Without DISTINCT, each message with the same key and time is a row.
        self.each = self.time is not None and not select.distinct
        self._alone: str | None = None
        self._fields: list[str] = []
        for node in window.args.get("partition_by") or []:
            self.add_key(node, scope.locate(node))
        for item in select.items:
            self._lower_item(item)
        if self.each:
            fields = [f"'{_name_field(n)}', {text}" for n, text in enumerate(self._fields)]
            row = Expression(f"named_struct({', '.join(fields or [_NO_FIELDS])})")
            self.aggregates[ROWS] = collect_own_messages(self.windows, row)

    def build_columns(self) -> tuple[Column, ...] | None:
        """Return the output columns; the number of a row identifies it if each message is a row."""
        if not self.each:
            return super().build_columns()
        return complete_columns(self.outputs, [*self._identity_columns, START, END], each=True)

    def _lower_item(self, item: SelectItem) -> None:
        if item.scalar is None:
            self.scope.fail(item.span, "* isn't supported here", "name the columns")
        node = item.scalar
        name = item.alias or self._name_item(node)
        if self.each and name.lower() == NUMBER:
            problem = f"{NUMBER} is the number of a row with the same key and time"
            self.scope.fail(item.span, problem, "give it another name with AS")
        # An aggregate that is a whole item gets the item's name.
        self._alone = name if isinstance(node, exp.Window) else None
        self.add_output(item, name, self.render_over_results(node))

    def _name_item(self, node: exp.Expr) -> str:
        column_name = self.scope.find_column_name(node)
        return column_name or self.scope.render_with(node, {}).lower()

    def _render_part(self, node: exp.Expr) -> str | None:
        if isinstance(node, exp.Window):
            aggregate = self._lower_framed_aggregate(node)
            return quote_name(
                self.add_aggregate(aggregate, self.scope.locate_separable(node), self._alone)
            )
        return self._render_row_column(node) if isinstance(node, exp.Column) else None

    def _lower_framed_aggregate(self, node: exp.Window) -> Aggregate:
        aggregate = lower_aggregate(self.scope, node.this)
        frame = lower_frame(self.scope, _resolve_window(self.scope, self.select, node))
        if frame.size == self.windows.length:
            return aggregate
        try:
            return aggregate.over(
                rows(frame.size) if self.time is None else format_duration(frame.size)
            )
        except OptionError as error:
            span = frame.length.span
            raise SqlError(self.scope.text, span, error.problem, error.hint) from error

    def _render_row_column(self, node: exp.Column) -> str:
        """Return the text of a column of the row at a window's end."""
        column_name = self.scope.find_column_name(node)
        if self.time is not None:
            if column_name == self.time:
                last = self._aggregate_last_row(self.time)
                return quote_name(self.add_aggregate(last, self.scope.locate(node), _AT))
            if self.each:
                text = self.scope.render(node)
                if text not in self._fields:
                    self._fields.append(text)
                return f"{ROW}.{_name_field(self._fields.index(text))}"
            hint = "leave it out, or write an aggregate of it OVER the same frame"
            problem = "rows with the same key and time may differ in this"
            self.scope.fail(node, problem, hint)
        last = self._aggregate_last_row(column_name or Expression(self.scope.render(node)))
        return quote_name(self.add_aggregate(last, self.scope.locate(node)))

    def _aggregate_last_row(self, column: Any) -> Aggregate:
        """Return the aggregate for a column of the row at a window's end, even an excluded one."""
        last = model.last(column)
        return last if self.includes_row else replace(last, frame=0)
