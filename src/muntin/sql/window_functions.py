"""Window functions as they are written, and the windows that they mean."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.tokens import TokenType

from muntin.model.axis import HOUR, MICROSECOND, MINUTE, SECOND, Rows, instant, phrase
from muntin.model.errors import OptionError, SqlError
from muntin.model.kinds import Kind, cumulating_in, of_size
from muntin.model.pipeline import Expression
from muntin.model.sessions import CONDITIONS, session
from muntin.model.zones import ZonedWindows
from muntin.sql import intervals
from muntin.sql.cursor import Cursor, Span, find_span
from muntin.sql.foreign_functions import PROCTIME_ERROR
from muntin.sql.intervals import Interval
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
    "SESSION": ("CLOSED", "LONGEST", *map(str.upper, CONDITIONS)),
}
_ROUNDING_UNITS = {"HOUR": HOUR, "MINUTE": MINUTE, "SECOND": SECOND}
_LENGTHS = ("SIZE", "SLIDE", "STEP", "GAP", "LONGEST", "OFFSET")


def parse_window_call(
    cursor: Cursor, name: str, start: int, query: Callable[[Cursor], Select] | None = None
) -> WindowCall:
    """Read the arguments of a window call, up to the closing parenthesis."""
    found: list[Argument] = []
    while not cursor.sees_kind(TokenType.R_PAREN):
        if found and not cursor.takes_kind(TokenType.COMMA):
            cursor.fail(None, f"{name} isn't closed", f"write {_find_usage(name)}")
        found.append(_parse_argument(cursor, name, query))
    return WindowCall(name, tuple(found), (start, cursor.next_span[1]))


def parse_rounding(cursor: Cursor, name: str, start: int, time: exp.Expr) -> WindowCall:
    """Read the unit of ``FLOOR(ts TO HOUR)``, up to the closing parenthesis."""
    begin, unit = cursor.here, cursor.word
    if unit not in _ROUNDING_UNITS:
        hint = (
            f"write {name}(ts TO HOUR), MINUTE or SECOND; of whole days "
            "TUMBLE(TABLE t, DESCRIPTOR(ts), 1 DAY, ZONE => 'Europe/Berlin')"
        )
        cursor.fail(None, f"{name} goes to hours, minutes or seconds", hint)
    cursor.takes(unit)
    size = Interval(_ROUNDING_UNITS[unit], "time", cursor.since(begin))
    at = find_span(time) or size.span
    arguments = (Argument("scalar", time, at), Argument("length", size, size.span))
    return WindowCall(name, arguments, (start, cursor.next_span[1]))


def _find_usage(name: str) -> str:
    return USAGE[name if name in USAGE else name.rpartition("_")[0]]


def _parse_argument(
    cursor: Cursor, name: str, query: Callable[[Cursor], Select] | None
) -> Argument:
    start = cursor.here
    label = _parse_label(cursor, name) if cursor.second == "=>" else None
    kind, value = _parse_value(cursor, name, label, query)
    partition = _parse_partition(cursor) if kind == "table" else ()
    return Argument(kind, value, cursor.since(start), label, partition)


def _parse_value(
    cursor: Cursor, name: str, label: str | None, query: Callable[[Cursor], Select] | None
) -> tuple[ArgumentKind, object]:
    inner = cursor.sees_kind(TokenType.L_PAREN) and cursor.second in ("SELECT", "WITH")
    if label is not None and label.lower() in CONDITIONS:
        return "scalar", cursor.scalar(f"a condition of {name}")
    if cursor.takes("TABLE") or (inner and query is not None):
        if query is None or not cursor.takes_kind(TokenType.L_PAREN):
            return "table", cursor.name("a table")[0]
        table = query(cursor)
        cursor.closes("the query")
        return "table", table
    if cursor.sees("DESCRIPTOR", "("):
        return "columns", _parse_descriptor(cursor)
    timed = label == "ORIGIN" and cursor.takes("TIMESTAMP")
    if timed or (cursor.sees_kind(TokenType.STRING) and label in ("ZONE", "CLOSED", "ORIGIN")):
        return "text", cursor.filled(*cursor.text(str(label).lower()))
    if cursor.word == "TIME" and cursor.second[:1].isdigit():
        return "length", intervals.parse_time_of_day(cursor)
    if intervals.starts_interval(cursor):
        return "length", intervals.parse_interval(cursor, months=True)
    scalar = cursor.scalar(f"an argument of {name}")
    last = isinstance(scalar, exp.Anonymous) and scalar.name.lower() == "window_time"
    if last and len(scalar.expressions) == 1 and isinstance(scalar.expressions[0], exp.Column):
        # Windows over windows go by the last moments of those, whether the call says so or not.
        scalar = scalar.expressions[0]
    return "scalar", scalar


def _parse_partition(cursor: Cursor) -> tuple[exp.Expr, ...]:
    """Read ``PARTITION BY ...``, if it comes next, and return its columns."""
    found: list[exp.Expr] = []
    if cursor.takes_kind(TokenType.PARTITION_BY):
        if cursor.takes_kind(TokenType.L_PAREN):
            found = cursor.several(lambda: cursor.scalar("a column"))
            cursor.closes("PARTITION BY")
        else:
            # A comma may begin the next argument.
            found.append(cursor.scalar("a column"))
    return tuple(found)


def _parse_label(cursor: Cursor, name: str) -> str:
    """Read the name of an argument; return it in capitals, with or without quotes around it."""
    label = cursor.word
    if cursor.sees_kind(TokenType.IDENTIFIER):
        label = cursor._curr.text.upper()
    if not label:
        cursor.fail(None, "this is no name of an argument", f"write {_find_usage(name)}")
    cursor._advance(2)
    return label


def _parse_descriptor(cursor: Cursor) -> tuple[str, ...]:
    cursor.takes("DESCRIPTOR", "(")
    if cursor.sees("PROCTIME", "("):
        cursor.fail(None, *PROCTIME_ERROR)
    names = cursor.several(lambda: cursor.path("a column"))
    cursor.closes("DESCRIPTOR", "write DESCRIPTOR(ts)")
    return tuple(names)


@dataclass(frozen=True)
class WindowBinding:
    """The meaning of a window call.

    Attributes:
        windows: Windows of the call.
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


def bind_window_call(
    text: str, call: WindowCall, qualifiers: Collection[str] = ()
) -> WindowBinding:
    """Return the meaning of a call; its columns may be qualified by some names."""
    name = call.name.rpartition("_")[0] if call.name in BOUND_FUNCTIONS else call.name
    placed = _BoundArguments(text, name, call)
    table = placed.by_label.get("DATA")
    time, offset = placed.axis_columns()
    first, _, rest = (time or "").partition(".")
    if rest and first.lower() in qualifiers:
        time = rest
    spans = {label.lower(): a.span for label, a in placed.by_label.items()}
    if "zone" in spans:
        spans["zone_column"] = spans["zone"]
    for option in ("time", "offset"):
        if "timecol" in spans:
            spans.setdefault(option, spans["timecol"])
    try:
        windows = placed.windows()
    except OptionError as error:
        where = spans.get(error.option, call.span)
        problem = f"{error.option} {error.problem}"
        raise SqlError(text, where, problem, error.hint) from error
    if windows.axis == "time" and offset is not None:
        placed.refuse("TIMECOL", "names two columns", "write DESCRIPTOR(ts)")
    if windows.axis == "time" and time is None:
        raise SqlError(text, call.span, "has no time column", f"write {USAGE[name]}")
    if windows.axis == "rows" and time is not None:
        hint = "write DESCRIPTOR(partition, offset), or leave it out to count by arrival"
        placed.refuse("TIMECOL", "isn't needed by windows measured in rows", hint)
    if isinstance(windows, ZonedWindows):
        first, _, rest = windows.column.partition(".")
        if rest and first.lower() in qualifiers:
            windows = replace(windows, column=rest)
    named: Any = None if table is None else table.value
    return WindowBinding(windows, named, time, offset, table.partition if table else (), spans)


class _BoundArguments:
    """The arguments of a call by their names."""

    def __init__(self, text: str, name: str, call: WindowCall) -> None:
        self.text = text
        self.name = name
        self.call = call
        self.by_label: dict[str, Argument] = {}
        places, table = list(_POSITIONAL[name]), ("DATA", "TIMECOL")
        known = (*(table if name in _NAMED_ONLY else ()), *places, *_NAMED_ONLY.get(name, ()))
        for argument in call.arguments:
            label = argument.label or self._place(argument, places)
            if label not in (*table, *known):
                hint = f"it has {', '.join(known)}"
                self._fail(argument.span, f"{name} has no argument {label}", hint)
            if label in self.by_label:
                self._fail(argument.span, f"{label} is given twice", f"write {USAGE[name]}")
            self._check(label, argument)
            if label in table and argument.kind == "scalar":
                argument = replace(argument, value=self._column(label, argument))
            self.by_label[label] = argument

    def _place(self, argument: Argument, places: list[str]) -> str:
        if argument.kind == "table":
            return "DATA"
        if argument.kind == "columns":
            return "TIMECOL"
        if argument.kind == "scalar" and not {"DATA", "TIMECOL"} & self.by_label.keys():
            # In FROM TUMBLE(t, DESCRIPTOR(ts), ...), the table is written like a column.
            later = any(a.kind == "columns" for a in self.call.arguments)
            return "DATA" if later else "TIMECOL"
        own_gap = self.name == "SESSION_WINDOW" and places == ["GAP"]
        if (argument.kind == "scalar" and not own_gap) or not places:
            self._fail(argument.span, f"{self.name} can't take this", f"write {USAGE[self.name]}")
        return places.pop(0)

    def _check(self, label: str, argument: Argument) -> None:
        kinds = {"DATA": ("table", "scalar"), "TIMECOL": ("columns", "scalar")}
        wanted: tuple[str, ...] = kinds.get(label, ())
        if label in _LENGTHS:
            # Spark's sessions may compute a gap for each row.
            wanted = ("length", "scalar") if self.name == "SESSION_WINDOW" else ("length",)
        if wanted and argument.kind not in wanted:
            hint = intervals.INTERVAL_HINT if label in _LENGTHS else f"write {USAGE[self.name]}"
            self._fail(argument.span, f"this is no {label.lower()} of {self.name}", hint)
        calendar = isinstance(argument.value, Interval) and argument.value.axis == "months"
        if calendar and label not in ("SIZE", "SLIDE"):
            hint = "give days or less; a size or a slide may have months"
            self._fail(argument.span, f"as {label.lower()} a month has no fixed length", hint)
        if isinstance(argument.value, Interval) and argument.value.axis == "number":
            self._fail(argument.span, "a length needs a unit", intervals.INTERVAL_HINT)

    def _fail(self, span: Span, problem: str, hint: str) -> NoReturn:
        raise SqlError(self.text, span, problem, hint)

    def refuse(self, label: str, problem: str, hint: str) -> NoReturn:
        """Refuse an argument."""
        found = self.by_label.get(label)
        self._fail(found.span if found else self.call.span, problem, hint)

    def _column(self, label: str, argument: Argument) -> str | tuple[str, ...]:
        """Return the table, or the time column, that an argument names."""
        node = argument.value
        if isinstance(node, exp.Anonymous) and node.name.upper() == "PROCTIME":
            self._fail(argument.span, *PROCTIME_ERROR)
        if not isinstance(node, exp.Column):
            hint = "compute it first: WITH v AS (SELECT *, ... AS at FROM t), and name at here"
            self._fail(argument.span, "this isn't a column", hint)
        name = ".".join(part.name for part in node.parts)
        return name if label == "DATA" else (name,)

    def axis_columns(self) -> tuple[str | None, tuple[str, str] | None]:
        """Return the event-time column, or the columns of partition and offset."""
        found = self.by_label.get("TIMECOL")
        names: Any = () if found is None else found.value
        if len(names) > 2:
            self.refuse("TIMECOL", "names too many columns", "write DESCRIPTOR(ts)")
        if len(names) == 2:
            return None, (names[0], names[1])
        return (names[0] if names else None), None

    def length(self, label: str) -> Any:
        """Return a length in the form that the model takes."""
        found = self.by_label.get(label)
        if found is None:
            hint = f"write {USAGE[self.name]}"
            self._fail(self.call.span, f"{self.name} has no {label.lower()}", hint)
        length = found.value
        assert isinstance(length, Interval)
        if length.value == 0:
            self._fail(found.span, f"{label.lower()} is zero", "give more than nothing")
        if length.axis == "months":
            return f"{length.value} months"
        return Rows(length.value) if length.axis == "rows" else phrase(length.value)

    def condition(self, option: str) -> str | None:
        """Return the text of a condition of sessions, if the call has it."""
        argument = self.by_label.get(option.upper())
        if argument is None:
            return None
        return self.text[slice(*argument.span)].partition("=>")[2].strip()

    def origin(self) -> tuple[int | None, int]:
        """Return the start of some window, and the shift from the epoch or local midnight."""
        moment, shift = self.by_label.get("ORIGIN"), self.by_label.get("OFFSET")
        if moment is not None and shift is not None:
            self.refuse("OFFSET", "is given beside ORIGIN", "give one of them")
        if moment is not None:
            try:
                return instant("origin", str(moment.value)), 0
            except OptionError as error:
                self._fail(moment.span, error.problem, "write ORIGIN => '2026-01-01T00:00:00'")
        if shift is not None:
            assert isinstance(shift.value, Interval)
            return None, shift.value.value
        # A time that rounds up to a full hour lies after the previous hour, up to the hour itself.
        return None, MICROSECOND if self.name == "CEIL" else 0

    def windows(self) -> Kind:
        """Return the windows of the call."""
        if self.name in ("SESSION", "SESSION_WINDOW"):
            closed = self.by_label.get("CLOSED")
            ends: Any = "both" if closed is None else closed.value
            gap = self.by_label.get("GAP")
            if gap is not None and gap.kind == "scalar":
                return session(by=Expression(self.text[slice(*gap.span)]), closed=ends)
            longest: Any = self.length("LONGEST") if "LONGEST" in self.by_label else None
            conditions: Any = {option: self.condition(option) for option in CONDITIONS}
            return session(self.length("GAP"), closed=ends, longest=longest, **conditions)
        size, (origin, offset) = self.length("SIZE"), self.origin()
        zones: dict[str, Any] = {**self._zones(), "origin": origin, "offset": offset}
        if "zone_column" in zones and origin is not None:
            # In a zone per key the origin is a local time.
            zones["origin"] = str(self.by_label["ORIGIN"].value)
        if self.name == "CUMULATE":
            return cumulating_in(size, self.length("STEP"), **zones)
        slide = self.length("SLIDE") if self.name == "HOP" or "SLIDE" in self.by_label else None
        return of_size(size, slide, **zones)

    def _zones(self) -> dict[str, str]:
        """Return the zone that the call names as text, or the column with each key's zone."""
        zone = self.by_label.get("ZONE")
        if zone is None:
            return {}
        if zone.kind == "text":
            return {"zone": str(zone.value)}
        return {"zone_column": self._column("ZONE", zone)[0]}


def mean_same_windows(
    one: WindowCall, other: WindowCall, text: str, qualifiers: Collection[str]
) -> bool:
    """Return whether two calls mean the same windows over the same column, whatever the bound."""
    both = (bind_window_call(text, call, qualifiers) for call in (one, other))
    first, second = ((meant.windows, meant.time, meant.offset) for meant in both)
    return first == second
