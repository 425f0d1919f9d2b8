"""Aggregates per row, ``OVER (... PRECEDING)``: windows that slide with the messages.

The windows are as long as the longest frame; an aggregate over a shorter frame has its own length.
With frames of rows, every message has a window, in which its own columns are the last values. With
frames of time, every key and time has a window. With ``DISTINCT``, rows that share key and time are
emitted once; without it, each message at the end of a window is a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from muntin.model import aggregates as model
from muntin.model import sliding
from muntin.model.aggregates import Aggregate
from muntin.model.axis import phrase, rows
from muntin.model.errors import OptionError, SqlError
from muntin.model.pipeline import NUMBER, ROW, ROWS, Column, Expression, quote_name
from muntin.model.rolling import collect_own_messages
from muntin.model.sliding import ClosedSides, Sliding
from muntin.sql.aggregates import lower_aggregate
from muntin.sql.catalog import ResolvedRelation
from muntin.sql.cursor import IntervalNode, interval_of
from muntin.sql.expressions import Scope, normalize, walk
from muntin.sql.intervals import Interval
from muntin.sql.select_list import END, START, SelectList, complete_columns
from muntin.sql.syntax import Select, SelectItem
from muntin.sql.window_functions import WindowBinding

_AT = "__muntin_at"
# The fields of a row that shows no column of its message.
_NO_FIELDS = "'none', 0"
_FRAMES = (
    "write OVER (PARTITION BY key ORDER BY ts RANGE INTERVAL '2' MINUTE PRECEDING), "
    "or OVER (PARTITION BY key ROWS 9 PRECEDING)"
)


@dataclass(frozen=True)
class Frame:
    """The frame of ``OVER``.

    Attributes:
        kind: ``ROWS`` or ``RANGE``.
        length: Length before the row, in microseconds or rows.
        includes_row: Whether its own row belongs to it.
    """

    kind: str
    length: Interval
    includes_row: bool = True

    @property
    def size(self) -> int:
        """The size of the frame's windows, including the row itself if it belongs to the frame."""
        return self.length.value + (self.kind == "ROWS" and self.includes_row)


def lower_frame(scope: Scope, window: exp.Window) -> Frame:
    """Return the frame of ``OVER``; refuse one without bounds."""
    span, spec = scope.span(window), window.args.get("spec")
    if spec is None:
        scope.fail(span, "without a frame every row would be kept indefinitely", _FRAMES)
    kind = str(spec.args.get("kind")).upper()
    start, end = spec.args.get("start"), spec.args.get("end")
    sides = spec.args.get("start_side"), spec.args.get("end_side")
    if start == "UNBOUNDED":
        scope.fail(span, "a frame without a beginning grows without end", _FRAMES)
    if not isinstance(start, IntervalNode) or sides[0] != "PRECEDING":
        scope.fail(span, "the frame doesn't begin a length before its row", _FRAMES)
    length: Interval = interval_of(start)
    includes_row = end in (None, "CURRENT ROW")
    if not includes_row and not _ends_before(kind, end, sides[1]):
        scope.fail(span, "the frame ends neither with its row nor just before it", _FRAMES)
    if (excluded := spec.args.get("exclude")) is not None:
        if str(excluded).upper() != _EXCLUDED.get(kind) or not includes_row:
            hint = f"write EXCLUDE {_EXCLUDED.get(kind, 'GROUP')}, or leave it out"
            scope.fail(span, f"EXCLUDE {excluded} isn't taken with {kind}", hint)
        includes_row = False
    if (kind == "ROWS" and length.axis == "time") or (kind == "RANGE" and length.axis != "time"):
        scope.fail(length.span, f"{kind} isn't measured so", _FRAMES)
    if kind not in ("ROWS", "RANGE"):
        scope.fail(span, f"{kind} isn't a frame that is taken", _FRAMES)
    return Frame(kind, length, includes_row)


# EXCLUDE leaves out all rows of the row's time if the frame is measured in time.
_EXCLUDED = {"ROWS": "CURRENT ROW", "RANGE": "GROUP"}


def _ends_before(kind: str, end: Any, side: Any) -> bool:
    """Return whether a frame of rows ends with the row before its own."""
    if not isinstance(end, IntervalNode) or side != "PRECEDING" or kind != "ROWS":
        return False
    length: Interval = interval_of(end)
    return length.axis in ("rows", "number") and length.value == 1


def find_order_column(scope: Scope, window: exp.Window) -> str | None:
    """Return the one column that ``OVER`` orders by, ascending; ``None`` without ``ORDER BY``."""
    order = window.args.get("order")
    if order is None:
        return None
    ordered = order.expressions
    one = ordered[0].this if len(ordered) == 1 and not ordered[0].args.get("desc") else None
    own = scope.own(one) if isinstance(one, exp.Column) else None
    if own is None:
        hint = "order by the event-time column alone, ascending"
        scope.fail(scope.span(order), "OVER is ordered by something else", hint)
    return own


def lower_over_aggregates(
    scope: Scope, select: Select, resolved: ResolvedRelation
) -> tuple[WindowBinding, OverSelectList]:
    """Lower the aggregates per row of a query."""
    if select.group or select.having is not None:
        scope.fail(select.group_span, "GROUP BY can't stand beside OVER", "write two queries")
    found = [n for i in select.items if i.scalar for n in walk(i.scalar)]
    overs = [_resolve_window(scope, select, n) for n in found if isinstance(n, exp.Window)]
    first = overs[0]
    for other in overs[1:]:
        if not _have_same_order(scope, first, other):
            hint = "let them differ only in how far they reach back, or write two queries"
            scope.fail(scope.span(other), "a query has frames of one kind", hint)
    frames = [lower_frame(scope, one) for one in overs]
    # The longest frame contains the messages of all others.
    longest = max(frames, key=lambda frame: frame.size)
    order = find_order_column(scope, first)
    try:
        if longest.kind == "ROWS":
            _check_rows(scope, first, order, resolved)
            closed: ClosedSides = "right" if longest.includes_row else "left"
            time, windows = None, sliding.rolling(rows(longest.size), closed)
        else:
            closed = "both" if longest.includes_row else "left"
            time = _check_range(scope, first, order)
            windows = sliding.rolling(phrase(longest.size), closed)
    except OptionError as error:
        raise SqlError(scope.text, longest.length.span, error.problem, error.hint) from error
    meant = WindowBinding(windows, None, time, None, (), {"size": longest.length.span})
    return meant, OverSelectList(scope, select, first, meant)


def _check_rows(
    scope: Scope, window: exp.Window, order: str | None, resolved: ResolvedRelation
) -> None:
    if resolved.marks.offset is not None:
        hint = "read the table without OFFSET FOR, or use RANGE"
        scope.fail(scope.span(window), "ROWS counts rows as they arrive, not offsets", hint)
    if order is not None:
        hint = "leave ORDER BY away, or use RANGE INTERVAL ... PRECEDING"
        scope.fail(scope.span(window), "ROWS counts rows as they arrive, in no other order", hint)


def _check_range(scope: Scope, window: exp.Window, order: str | None) -> str:
    if order is None:
        scope.fail(scope.span(window), "RANGE needs the column of event times", _FRAMES)
    return order


def _resolve_window(scope: Scope, select: Select, window: exp.Window) -> exp.Window:
    """Return a window; one that is written by its name is looked up in ``WINDOW``."""
    alias = window.args.get("alias")
    if alias is None:
        return window
    found = select.named.get(alias.name.lower())
    if found is None or window.args.get("spec"):
        hint = f"add WINDOW {alias.name} AS (...), and write OVER {alias.name}"
        scope.fail(scope.span(window), f"there is no window {alias.name}", hint)
    return found


def _have_same_order(scope: Scope, one: exp.Window, other: exp.Window) -> bool:
    """Return whether frames differ in nothing but how far before a row they begin."""

    def part_of(window: exp.Window) -> Any:
        parts = [normalize(node, scope) for node in window.args.get("partition_by") or []]
        frame = lower_frame(scope, window)
        return parts, find_order_column(scope, window), frame.kind, frame.includes_row

    return bool(part_of(one) == part_of(other))


def _name_field(number: int) -> str:
    """Return the name of a message's column in the struct that holds its row."""
    return f"c{number}"


class OverSelectList(SelectList):
    """The select list of a query of aggregates per row."""

    def __init__(
        self, scope: Scope, select: Select, window: exp.Window, meant: WindowBinding
    ) -> None:
        super().__init__(scope, select)
        # Frames of rows have no event-time column.
        self.time = meant.time
        assert isinstance(meant.windows, Sliding)
        self.windows = meant.windows
        self.includes_row = lower_frame(scope, window).includes_row
        self.spans = dict(meant.spans)
        # Rows that share key and time are emitted one by one.
        self.each = self.time is not None and not select.distinct
        self._alone: str | None = None
        self._fields: list[str] = []
        for node in window.args.get("partition_by") or []:
            self.key(node, scope.span(node))
        for item in select.items:
            self._output(item)
        if self.each:
            fields = [f"'{_name_field(n)}', {text}" for n, text in enumerate(self._fields)]
            row = Expression(f"named_struct({', '.join(fields or [_NO_FIELDS])})")
            self.aggregates[ROWS] = collect_own_messages(self.windows, row)

    def shown(self) -> tuple[Column, ...] | None:
        """Return the output columns; with a row per message, its number identifies it."""
        if not self.each:
            return super().shown()
        return complete_columns(self.outputs, [*self._identity, START, END], each=True)

    def _output(self, item: SelectItem) -> None:
        if item.scalar is None:
            self.scope.fail(item.span, "* isn't taken here", "name the columns")
        node = item.scalar
        name = item.alias or self._name(node)
        if self.each and name.lower() == NUMBER:
            problem = f"{NUMBER} is what numbers the rows of one key and time"
            self.scope.fail(item.span, problem, "give it another name with AS")
        # An aggregate that stands by itself is computed under the item's name.
        self._alone = name if isinstance(node, exp.Window) else None
        self.show(item, name, self.over_results(node))

    def _name(self, node: exp.Expr) -> str:
        own = self.scope.own(node) if isinstance(node, exp.Column) else None
        return own or self.scope.rendered(node, {}).lower()

    def _named_there(self, node: exp.Expr) -> str | None:
        if isinstance(node, exp.Window):
            asked = self._framed(node)
            return quote_name(self.computed(asked, self.scope.standing(node), self._alone))
        return self._of_row(node) if isinstance(node, exp.Column) else None

    def _framed(self, node: exp.Window) -> Aggregate:
        """Return an aggregate over its frame if that is shorter than the longest."""
        asked = lower_aggregate(self.scope, node.this)
        frame = lower_frame(self.scope, _resolve_window(self.scope, self.select, node))
        if frame.size == self.windows.length:
            return asked
        try:
            return asked.over(rows(frame.size) if self.time is None else phrase(frame.size))
        except OptionError as error:
            span = frame.length.span
            raise SqlError(self.scope.text, span, error.problem, error.hint) from error

    def _of_row(self, node: exp.Column) -> str:
        """Return a column of the row that a window ends with."""
        own = self.scope.own(node)
        if self.time is not None:
            if own is not None and own == self.time:
                return quote_name(
                    self.computed(self._of_last(self.time), self.scope.span(node), _AT)
                )
            if self.each:
                text = self.scope.plain(node)
                if text not in self._fields:
                    self._fields.append(text)
                return f"{ROW}.{_name_field(self._fields.index(text))}"
            hint = "leave it out, or write an aggregate of it OVER the same frame"
            problem = "rows that share key and time may differ in this"
            self.scope.fail(self.scope.span(node), problem, hint)
        column: Any = own if own is not None else Expression(self.scope.plain(node))
        return quote_name(self.computed(self._of_last(column), self.scope.span(node)))

    def _of_last(self, column: Any) -> Aggregate:
        """Return the aggregate for a column of the row at a window's end, even if excluded."""
        last = model.last(column)
        return last if self.includes_row else replace(last, frame=0)
