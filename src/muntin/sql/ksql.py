"""Parses and lowers ksqlDB's clauses ``WINDOW TUMBLING (SIZE 1 HOUR)`` and ``WITHIN 1 HOUR``.

They mean the same as in ksqlDB's reference, with two exceptions. Bounds of windows are numbers in
ksqlDB and timestamps here. Without a grace period, ksqlDB accepts late messages for a day.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot.tokens import TokenType

from muntin.model.axis import HOUR, SECOND, format_duration
from muntin.sql.catalog import ResolvedRelation
from muntin.sql.cursor import Cursor
from muntin.sql.intervals import Interval, parse_time_interval
from muntin.sql.syntax import Argument, Emit, WindowCall, WindowClause, WithinClause

_PART = 12 * HOUR
KSQL_COLUMNS = {"windowstart": "window_start", "windowend": "window_end"}
_WINDOW = (
    "write WINDOW TUMBLING (SIZE 1 HOUR), HOPPING (SIZE 1 HOUR, ADVANCE BY 5 MINUTES) or "
    "SESSION (5 MINUTES), with RETENTION 7 DAYS or GRACE PERIOD 10 MINUTES behind a comma"
)
_WITHIN = "write WITHIN 1 HOUR, or WITHIN (1 HOUR, 2 HOURS), and GRACE PERIOD 10 MINUTES behind it"
# The window function of each word, with the words before each of its intervals.
_KINDS: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    "TUMBLING": ("TUMBLE", {"SIZE": ("SIZE",)}),
    "HOPPING": ("HOP", {"SIZE": ("SIZE",), "SLIDE": ("ADVANCE", "BY")}),
    "SESSION": ("SESSION", {"GAP": ()}),
}


def build_window_call(
    clause: WindowClause, cursor: Cursor, resolved: ResolvedRelation
) -> WindowCall:
    """Return the window function that ``WINDOW`` means over a table."""
    time = resolved.input_options.time
    if time is None:
        hint = "write WATERMARK ts DELAY OF INTERVAL '1' MINUTE behind the table"
        cursor.fail(clause.call.span, "the table has no column of event times", hint)
    column = Argument("columns", (time,), clause.call.span, "TIMECOL")
    return replace(clause.call, arguments=(*clause.call.arguments, column))


def add_window_intervals(clause: WindowClause, cursor: Cursor, emit: Emit | None) -> Emit:
    """Return ``EMIT`` with the grace and retention of ``WINDOW``.

    With ``EMIT FINAL``, windows wait for the grace, which adds to the lateness instead.
    """
    merged = add_intervals(
        cursor, emit, "WINDOW", grace=clause.grace, retain=_find_retention(clause)
    )
    return merged if emit is None or "closes" not in emit.spans else emit


def add_intervals(
    cursor: Cursor, emit: Emit | None, word: str, **intervals: Interval | None
) -> Emit:
    """Return ``EMIT`` with the intervals of another clause; refuse an interval that both have.

    ``word`` names the other clause, and ``intervals`` are by the attributes of ``Emit``.
    """
    emit = emit or Emit()
    present = {name: interval for name, interval in intervals.items() if interval is not None}
    for name in present:
        if getattr(emit, name) is not None:
            cursor.fail(emit.spans[name], f"{word} appears twice", "write it once")
    spans = {name: interval.span for name, interval in present.items()}
    return replace(emit, **present, spans={**emit.spans, **spans})  # type: ignore[arg-type]


def _find_retention(clause: WindowClause) -> Interval | None:
    """Return the retention from a window's end; ksqlDB counts it from the start."""
    if clause.retention is None:
        return None
    return replace(clause.retention, value=clause.retention.value - _measure_size(clause))


def _measure_size(clause: WindowClause) -> int:
    """Return the size of a window, or the gap of sessions, in microseconds."""
    sizes = [a.value for a in clause.call.arguments if a.label in ("SIZE", "GAP")]
    return sum(size.value for size in sizes if isinstance(size, Interval))


def find_session_end(clause: WindowClause | None) -> str | None:
    """Return ksqlDB's end of a session over results, which is its last message, if it has one."""
    if clause is None or clause.call.name != "SESSION":
        return None
    # SQL subtracts a whole day by the calendar of the session's zone, and a shorter time exactly.
    parts, rest = divmod(_measure_size(clause), _PART)
    lengths = [*[_PART] * parts, rest]
    texts = (f"INTERVAL '{n // SECOND}.{n % SECOND:06d}' SECOND" for n in lengths)
    return f"(window_end - {' - '.join(texts)})"


def find_extra_lateness(clause: WindowClause, emit: Emit | None) -> int:
    """Return the lateness that the grace adds with ``EMIT FINAL``, in microseconds."""
    final = emit is not None and "closes" in emit.spans
    return clause.grace.value if final and clause.grace is not None else 0


def parse_window(cursor: Cursor) -> WindowClause | None:
    """Parse ``WINDOW TUMBLING (...)``, if it comes next, and not ``WINDOW w AS (...)``."""
    start = cursor.position
    third = cursor.token_at(2)
    is_clause = third is not None and third.token_type == TokenType.L_PAREN
    if cursor.next_word != "WINDOW" or cursor.second_word not in _KINDS or not is_clause:
        return None
    name, labels = _KINDS[cursor.second_word]
    cursor.skip(3)
    arguments: list[Argument] = []
    for label, words in labels.items():
        if arguments:
            _expect_comma(cursor)
        if words:
            cursor.expect(*words, hint=_WINDOW)
        interval = parse_time_interval(cursor, _WINDOW)
        arguments.append(Argument("interval", interval, interval.span, label))
    options: dict[str, Interval] = {}
    while cursor.accept_kind(TokenType.COMMA):
        part = "retention" if cursor.accept("RETENTION") else "grace"
        if part == "grace":
            cursor.expect("GRACE", "PERIOD", hint=_WINDOW)
        if part in options:
            cursor.fail(None, f"WINDOW has two intervals for {part}", "write one")
        options[part] = parse_time_interval(cursor, _WINDOW)
    cursor.expect_close("WINDOW", _WINDOW)
    call = WindowCall(name, tuple(arguments), cursor.span_from(start))
    clause = WindowClause(call, options.get("grace"), options.get("retention"))
    _refuse_short_retention(cursor, clause)
    return clause


def _refuse_short_retention(cursor: Cursor, clause: WindowClause) -> None:
    """Refuse a retention that ends before the grace of a window."""
    least = _measure_size(clause) + (0 if clause.grace is None else clause.grace.value)
    if clause.retention is not None and clause.retention.value < least:
        hint = f"write RETENTION {format_duration(least).upper()} or more"
        cursor.fail(clause.retention.span, "RETENTION is below the size and the grace", hint)


def parse_within(cursor: Cursor) -> WithinClause | None:
    """Parse ``WITHIN ...``, if it comes next."""
    start = cursor.position
    if not cursor.accept("WITHIN"):
        return None
    if cursor.accept_kind(TokenType.L_PAREN):
        before = parse_time_interval(cursor, _WITHIN)
        _expect_comma(cursor)
        after = parse_time_interval(cursor, _WITHIN)
        cursor.expect_close("WITHIN", _WITHIN)
    else:
        before = after = parse_time_interval(cursor, _WITHIN)
    grace = parse_time_interval(cursor, _WITHIN) if cursor.accept("GRACE", "PERIOD") else None
    return WithinClause(before.value, after.value, grace, cursor.span_from(start))


def _expect_comma(cursor: Cursor) -> None:
    if not cursor.accept_kind(TokenType.COMMA):
        cursor.fail(None, "a comma is missing", "put one between the two intervals")
