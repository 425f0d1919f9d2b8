"""Parses calls of window functions, and binds them to the windows of the model."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.tokens import TokenType

from muntin.model.axis import HOUR, MICROSECOND, MINUTE, SECOND, Rows, format_duration, parse_time
from muntin.model.errors import OptionError, SqlError
from muntin.model.kinds import Kind, cumulating_in, of_size
from muntin.model.pipeline import Expression
from muntin.model.sessions import CONDITION_OPTIONS, make_sessions
from muntin.sql.cursor import Cursor, Span, find_span
from muntin.sql.foreign_functions import PROCTIME_ERROR, is_processing_time
from muntin.sql.intervals import (
    INTERVAL_HINT,
    Interval,
    parse_interval,
    parse_time_of_day,
    starts_interval,
)
from muntin.sql.syntax import Argument, ArgumentKind, Select, WindowCall

TABLE_FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION")
ROUNDING_FUNCTIONS = ("FLOOR", "CEIL")
BOUND_FUNCTIONS = tuple(
    f"{kind}_{end}" for kind in TABLE_FUNCTIONS for end in ("START", "END", "ROWTIME")
)
SPARK_FUNCTIONS = ("WINDOW", "SESSION_WINDOW")
USAGE = {
    "TUMBLE": "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' MINUTE)",
    "HOP": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '1' HOUR), slide then size",
    "CUMULATE": "CUMULATE(TABLE t, DESCRIPTOR(ts), 1 HOUR, 1 DAY), step then size",
    "SESSION": "SESSION(TABLE t PARTITION BY user, DESCRIPTOR(ts), INTERVAL '30' MINUTE)",
    "WINDOW": "window(ts, '10 minutes', '5 minutes'), size then slide",
    "SESSION_WINDOW": "session_window(ts, '5 minutes'), or an expression of each row's own gap",
    "FLOOR": "FLOOR(ts TO HOUR)",
    "CEIL": "CEIL(ts TO HOUR)",
}
# The positional arguments after the table and the descriptor, or after the time column.
_POSITIONAL = {
    "TUMBLE": ("SIZE", "OFFSET"),
    "HOP": ("SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("STEP", "SIZE", "OFFSET"),
    "SESSION": ("GAP",),
    "WINDOW": ("SIZE", "SLIDE", "OFFSET"),
    "SESSION_WINDOW": ("GAP",),
    "FLOOR": ("SIZE",),
    "CEIL": ("SIZE",),
}
# The arguments of table functions that are passed by name only.
_NAMED_ONLY = {
    "TUMBLE": ("ORIGIN", "ZONE"),
    "HOP": ("ORIGIN", "ZONE"),
    "CUMULATE": ("ORIGIN", "ZONE"),
    "SESSION": ("CLOSED", "LONGEST", *map(str.upper, CONDITION_OPTIONS)),
}
_ROUNDING_UNITS = {"HOUR": HOUR, "MINUTE": MINUTE, "SECOND": SECOND}
_LENGTHS = ("SIZE", "SLIDE", "STEP", "GAP", "LONGEST", "OFFSET")


def parse_window_call(
    cursor: Cursor, name: str, start: int, parse_query: Callable[[Cursor], Select] | None = None
) -> WindowCall:
    """Parse the arguments of a window call, up to the closing parenthesis.

    ``parse_query`` parses a query that is the first argument; ``None`` if the call is part of an
    expression, where only a table's name may stand.
    """
    arguments: list[Argument] = []
    while not cursor.peek_kind(TokenType.R_PAREN):
        if arguments and not cursor.accept_kind(TokenType.COMMA):
            cursor.fail(None, f"{name} isn't closed", f"write {_find_usage(name)}")
        arguments.append(_parse_argument(cursor, name, parse_query))
    return WindowCall(name, tuple(arguments), (start, cursor.next_span[1]))


def parse_rounding(cursor: Cursor, name: str, start: int, time: exp.Expr) -> WindowCall:
    """Parse the unit of ``FLOOR(ts TO HOUR)``, up to the closing parenthesis."""
    unit_start, unit = cursor.position, cursor.next_word
    if unit not in _ROUNDING_UNITS:
        hint = (
            f"write {name}(ts TO HOUR), MINUTE or SECOND; for whole days "
            "TUMBLE(TABLE t, DESCRIPTOR(ts), 1 DAY, ZONE => 'Europe/Berlin')"
        )
        cursor.fail(None, f"{name} rounds to hours, minutes or seconds", hint)
    cursor.accept(unit)
    size = Interval(_ROUNDING_UNITS[unit], "time", cursor.span_from(unit_start))
    time_span = find_span(time) or size.span
    arguments = (Argument("scalar", time, time_span), Argument("interval", size, size.span))
    return WindowCall(name, arguments, (start, cursor.next_span[1]))


def _find_usage(name: str) -> str:
    return USAGE[name if name in USAGE else name.rpartition("_")[0]]


def _parse_argument(
    cursor: Cursor, name: str, parse_query: Callable[[Cursor], Select] | None
) -> Argument:
    start = cursor.position
    label = _parse_label(cursor, name) if cursor.second_word == "=>" else None
    kind, value = _parse_value(cursor, name, label, parse_query)
    partition = _parse_partition(cursor) if kind == "table" else ()
    return Argument(kind, value, cursor.span_from(start), label, partition)


def _parse_value(
    cursor: Cursor, name: str, label: str | None, parse_query: Callable[[Cursor], Select] | None
) -> tuple[ArgumentKind, object]:
    starts_query = cursor.peek_kind(TokenType.L_PAREN) and cursor.second_word in ("SELECT", "WITH")
    if label is not None and label.lower() in CONDITION_OPTIONS:
        return "scalar", cursor.parse_scalar(f"a condition of {name}")
    if cursor.accept("TABLE") or (starts_query and parse_query is not None):
        if parse_query is None or not cursor.accept_kind(TokenType.L_PAREN):
            return "table", cursor.parse_name("a table")[0]
        table = parse_query(cursor)
        cursor.expect_close("the query")
        return "table", table
    if cursor.peek("DESCRIPTOR", "("):
        return "columns", _parse_descriptor(cursor)
    is_timestamp = label == "ORIGIN" and (cursor.accept("TIMESTAMP") or cursor.accept("DATE"))
    if is_timestamp or (
        cursor.peek_kind(TokenType.STRING) and label in ("ZONE", "CLOSED", "ORIGIN")
    ):
        return "text", cursor.fill_placeholders(*cursor.parse_string(str(label).lower()))
    if cursor.next_word == "TIME" and cursor.second_word[:1].isdigit():
        return "interval", parse_time_of_day(cursor)
    if starts_interval(cursor):
        return "interval", parse_interval(cursor, months=True, signed=True)
    scalar = cursor.parse_scalar(f"an argument of {name}")
    is_window_time = isinstance(scalar, exp.Anonymous) and scalar.name.lower() == "window_time"
    if (
        is_window_time
        and len(scalar.expressions) == 1
        and isinstance(scalar.expressions[0], exp.Column)
    ):
        # Windows over windows always use the last microsecond of the inner windows.
        scalar = scalar.expressions[0]
    return "scalar", scalar


def _parse_partition(cursor: Cursor) -> tuple[exp.Expr, ...]:
    """Parse ``PARTITION BY ...``, if it comes next; return its columns."""
    columns: list[exp.Expr] = []
    if cursor.accept_kind(TokenType.PARTITION_BY):
        if cursor.accept_kind(TokenType.L_PAREN):
            columns = cursor.parse_list(lambda: cursor.parse_scalar("a column"))
            cursor.expect_close("PARTITION BY")
        else:
            # A comma may begin the next argument.
            columns.append(cursor.parse_scalar("a column"))
    return tuple(columns)


def _parse_label(cursor: Cursor, name: str) -> str:
    """Parse the name of an argument and its arrow; return the name in capitals."""
    label = cursor.next_identifier.upper()
    if not label:
        cursor.fail(None, "this isn't the name of an argument", f"write {_find_usage(name)}")
    cursor.skip(2)
    return label


def _parse_descriptor(cursor: Cursor) -> tuple[str, ...]:
    cursor.accept("DESCRIPTOR", "(")
    if cursor.peek("PROCTIME", "("):
        cursor.fail(None, *PROCTIME_ERROR)
    names = cursor.parse_list(lambda: cursor.parse_path("a column"))
    cursor.expect_close("DESCRIPTOR", "write DESCRIPTOR(ts)")
    return tuple(names)


@dataclass(frozen=True)
class WindowBinding:
    """The windows, table and columns that a window call names.

    Attributes:
        table: Table that it reads, if it names one.
        time: Event-time column, if it names one.
        offset: Columns of partition and offset, for windows counted by offset.
        partition: Columns that the table is partitioned by.
        spans: Spans of the arguments, by the model's names of options.
    """

    windows: Kind
    table: str | None
    time: str | None
    offset: tuple[str, str] | None
    partition: tuple[exp.Expr, ...]
    spans: dict[str, Span]

    def check_time(self, text: str, watermark: str | None, span: Span) -> None:
        """Refuse windows on another time than that which the watermark follows, if it has one."""
        if watermark not in (None, self.time):
            hint = f"measure windows on {watermark}, or give {self.time} the watermark"
            problem = f"the watermark follows {watermark}, the windows {self.time}"
            raise SqlError(text, self.spans.get("timecol", span), problem, hint)


def bind_window_call(
    text: str, call: WindowCall, qualifiers: Collection[str] = ()
) -> WindowBinding:
    """Return the windows, table and columns that a call names, maybe with a qualifier.

    Raises:
        SqlError: When an argument is missing, unknown, of the wrong kind, or refused by the model.
    """
    name = call.name.rpartition("_")[0] if call.name in BOUND_FUNCTIONS else call.name
    arguments = _BoundArguments(text, name, call)
    table = arguments.by_label.get("DATA")
    time, offset = arguments.find_axis_columns()
    first, _, rest = (time or "").partition(".")
    if rest and first.lower() in qualifiers:
        time = rest
    spans = {label.lower(): a.span for label, a in arguments.by_label.items()}
    if "zone" in spans:
        spans["zone_column"] = spans["zone"]
    for option in ("time", "offset"):
        if "timecol" in spans:
            spans.setdefault(option, spans["timecol"])
    try:
        windows = arguments.build_windows()
    except OptionError as error:
        problem = f"{error.option} {error.problem}"
        span = spans.get(error.option, call.span)
        raise SqlError(text, span, problem, error.hint) from error
    if windows.axis == "time" and offset is not None:
        arguments.refuse("TIMECOL", "names two columns", "write DESCRIPTOR(ts)")
    if windows.axis == "time" and time is None:
        raise SqlError(text, call.span, f"{name} has no time column", f"write {USAGE[name]}")
    if windows.axis == "rows" and time is not None:
        hint = "write DESCRIPTOR(partition, offset), or leave it out to count by arrival"
        arguments.refuse("TIMECOL", "isn't needed by windows measured in rows", hint)
    if windows.zone_column is not None:
        first, _, rest = windows.zone_column.partition(".")
        if rest and first.lower() in qualifiers:
            windows = windows.map_columns(lambda *_: rest)
    table_value: Any = None if table is None else table.value
    return WindowBinding(
        windows, table_value, time, offset, table.partition if table else (), spans
    )


class _BoundArguments:
    """The arguments of a window call, checked and stored by their names."""

    def __init__(self, text: str, name: str, call: WindowCall) -> None:
        self.text = text
        self.name = name
        self.call = call
        self.by_label: dict[str, Argument] = {}
        positional, table = list(_POSITIONAL[name]), ("DATA", "TIMECOL")
        accepted = (
            *(table if name in _NAMED_ONLY else ()),
            *positional,
            *_NAMED_ONLY.get(name, ()),
        )
        for argument in call.arguments:
            label = argument.label or self._label_argument(argument, positional)
            if label not in (*table, *accepted):
                hint = f"it has {', '.join(accepted)}"
                self._fail(argument.span, f"{name} has no argument {label}", hint)
            if label in self.by_label:
                self._fail(argument.span, f"{label} appears twice", f"write {USAGE[name]}")
            self._check_kind(label, argument)
            if label in table and argument.kind == "scalar":
                argument = replace(argument, value=self._read_column(label, argument))
            self.by_label[label] = argument

    def _label_argument(self, argument: Argument, positional: list[str]) -> str:
        if argument.kind == "table":
            return "DATA"
        if argument.kind == "columns":
            return "TIMECOL"
        if argument.kind == "scalar" and not {"DATA", "TIMECOL"} & self.by_label.keys():
            # In FROM TUMBLE(t, DESCRIPTOR(ts), ...), the table parses as a column.
            has_descriptor = any(a.kind == "columns" for a in self.call.arguments)
            return "DATA" if has_descriptor else "TIMECOL"
        takes_gap_expression = self.name == "SESSION_WINDOW" and positional == ["GAP"]
        if (argument.kind == "scalar" and not takes_gap_expression) or not positional:
            self._fail(argument.span, f"{self.name} can't take this", f"write {USAGE[self.name]}")
        return positional.pop(0)

    def _check_kind(self, label: str, argument: Argument) -> None:
        expected_kinds_by_label = {"DATA": ("table", "scalar"), "TIMECOL": ("columns", "scalar")}
        expected_kinds: tuple[str, ...] = expected_kinds_by_label.get(label, ())
        if label in _LENGTHS:
            # Spark's sessions may compute a gap for each row.
            expected_kinds = (
                ("interval", "scalar") if self.name == "SESSION_WINDOW" else ("interval",)
            )
        if expected_kinds and argument.kind not in expected_kinds:
            hint = INTERVAL_HINT if label in _LENGTHS else f"write {USAGE[self.name]}"
            self._fail(argument.span, f"this can't be the {label.lower()} of {self.name}", hint)
        has_months = isinstance(argument.value, Interval) and argument.value.axis == "months"
        if has_months and label not in ("SIZE", "SLIDE"):
            hint = "write days or less; only a size or a slide may have months"
            self._fail(argument.span, f"a {label.lower()} can't have months", hint)
        if isinstance(argument.value, Interval) and argument.value.axis == "number":
            self._fail(argument.span, "an interval needs a unit", INTERVAL_HINT)
        is_negative = isinstance(argument.value, Interval) and argument.value.value < 0
        if is_negative and label != "OFFSET":
            self._fail(argument.span, f"a {label.lower()} can't be negative", INTERVAL_HINT)

    def _fail(self, span: Span, problem: str, hint: str) -> NoReturn:
        raise SqlError(self.text, span, problem, hint)

    def refuse(self, label: str, problem: str, hint: str) -> NoReturn:
        """Refuse an argument, or the whole call if it has no such argument."""
        argument = self.by_label.get(label)
        self._fail(argument.span if argument else self.call.span, problem, hint)

    def _read_column(self, label: str, argument: Argument) -> str | tuple[str, ...]:
        """Return the name of the table, or of the time column, that an argument names."""
        node = argument.value
        if is_processing_time(node):
            self._fail(argument.span, *PROCTIME_ERROR)
        if not isinstance(node, exp.Column):
            hint = "compute it first: WITH v AS (SELECT *, ... AS at FROM t), and name at here"
            self._fail(argument.span, "this isn't a column", hint)
        name = ".".join(part.name for part in node.parts)
        return name if label == "DATA" else (name,)

    def find_axis_columns(self) -> tuple[str | None, tuple[str, str] | None]:
        """Return the event-time column, or the columns of partition and offset."""
        argument = self.by_label.get("TIMECOL")
        names: Any = () if argument is None else argument.value
        if len(names) > 2:
            self.refuse("TIMECOL", "names too many columns", "write DESCRIPTOR(ts)")
        if len(names) == 2:
            return None, (names[0], names[1])
        return (names[0] if names else None), None

    def read_length(self, label: str) -> Any:
        """Return the interval of an argument as the model takes it; refuse zero."""
        argument = self.by_label.get(label)
        if argument is None:
            hint = f"write {USAGE[self.name]}"
            self._fail(self.call.span, f"{self.name} has no {label.lower()}", hint)
        interval = argument.value
        assert isinstance(interval, Interval)
        if interval.value == 0:
            self._fail(argument.span, f"{label.lower()} is zero", "write more than zero")
        if interval.axis == "months":
            return f"{interval.value} months"
        return Rows(interval.value) if interval.axis == "rows" else format_duration(interval.value)

    def read_condition(self, option: str) -> str | None:
        """Return the text of a condition of sessions; ``None`` if the call doesn't have it."""
        argument = self.by_label.get(option.upper())
        if argument is None:
            return None
        return self.text[slice(*argument.span)].partition("=>")[2].strip()

    def read_origin(self) -> tuple[str | None, int]:
        """Return the origin as text, and the offset from the epoch or local midnight."""
        origin, offset = self.by_label.get("ORIGIN"), self.by_label.get("OFFSET")
        if origin is not None and offset is not None:
            self.refuse("OFFSET", "and ORIGIN can't be combined", "write one of them")
        if origin is not None:
            try:
                _ = parse_time("origin", str(origin.value))
            except OptionError as error:
                hint = "write ORIGIN => '2026-01-01T00:00:00'"
                self._fail(origin.span, f"the origin {error.problem}", hint)
            # A plain date is a day of the zone; a time is in UTC, or in the zone of each key.
            return str(origin.value), 0
        if offset is not None:
            assert isinstance(offset.value, Interval)
            return None, offset.value.value
        # A time that rounds up to a full hour lies after the previous hour, up to the hour itself.
        return None, MICROSECOND if self.name == "CEIL" else 0

    def build_windows(self) -> Kind:
        """Return the windows of the model that the call means."""
        if self.name in ("SESSION", "SESSION_WINDOW"):
            closed = self.by_label.get("CLOSED")
            closed_ends: Any = "both" if closed is None else closed.value
            gap = self.by_label.get("GAP")
            if gap is not None and gap.kind == "scalar":
                return make_sessions(by=Expression(self.text[slice(*gap.span)]), closed=closed_ends)
            longest: Any = self.read_length("LONGEST") if "LONGEST" in self.by_label else None
            conditions: Any = {option: self.read_condition(option) for option in CONDITION_OPTIONS}
            return make_sessions(
                self.read_length("GAP"), closed=closed_ends, longest=longest, **conditions
            )
        size, (origin, offset) = self.read_length("SIZE"), self.read_origin()
        zones: dict[str, Any] = {**self._read_zone(), "origin": origin, "offset": offset}
        if self.name == "CUMULATE":
            return cumulating_in(size, self.read_length("STEP"), **zones)
        slide = (
            self.read_length("SLIDE") if self.name == "HOP" or "SLIDE" in self.by_label else None
        )
        return of_size(size, slide, **zones)

    def _read_zone(self) -> dict[str, str]:
        """Return the zone that the call names as text, or the column with each key's zone."""
        zone = self.by_label.get("ZONE")
        if zone is None:
            return {}
        if zone.kind == "text":
            return {"zone": str(zone.value)}
        return {"zone_column": self._read_column("ZONE", zone)[0]}


def mean_same_windows(
    one: WindowCall, other: WindowCall, text: str, qualifiers: Collection[str]
) -> bool:
    """Return whether two calls have the same windows and columns, whatever bound they return."""
    bindings = (bind_window_call(text, call, qualifiers) for call in (one, other))
    first, second = ((binding.windows, binding.time, binding.offset) for binding in bindings)
    return first == second
