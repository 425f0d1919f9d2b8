"""The clauses of ksqlDB: ``WINDOW TUMBLING (SIZE 1 HOUR)`` and ``WITHIN 1 HOUR``.

They mean the same as in ksqlDB's reference, with two exceptions. Bounds of windows are numbers in
ksqlDB and timestamps here. Without a grace period, ksqlDB takes late messages for a day.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot.tokens import TokenType

from muntin.model.axis import phrase
from muntin.sql import intervals
from muntin.sql.catalog import ResolvedRelation
from muntin.sql.cursor import Cursor
from muntin.sql.intervals import Interval
from muntin.sql.syntax import Argument, Emit, WindowCall, WindowClause, WithinClause

KSQL_COLUMNS = {"windowstart": "window_start", "windowend": "window_end"}
_WINDOW = (
    "write WINDOW TUMBLING (SIZE 1 HOUR), HOPPING (SIZE 1 HOUR, ADVANCE BY 5 MINUTES) or "
    "SESSION (5 MINUTES), with RETENTION 7 DAYS or GRACE PERIOD 10 MINUTES behind a comma"
)
_WITHIN = "write WITHIN 1 HOUR, or WITHIN (1 HOUR, 2 HOURS), and GRACE PERIOD 10 MINUTES behind it"
# The window function that each word means, and the words before each length.
_KINDS: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    "TUMBLING": ("TUMBLE", {"SIZE": ("SIZE",)}),
    "HOPPING": ("HOP", {"SIZE": ("SIZE",), "SLIDE": ("ADVANCE", "BY")}),
    "SESSION": ("SESSION", {"GAP": ()}),
}


def build_window_call(
    clause: WindowClause, cursor: Cursor, resolved: ResolvedRelation
) -> WindowCall:
    """Return the window function over a source."""
    time = resolved.marks.time
    if time is None:
        hint = "write WATERMARK ts DELAY OF INTERVAL '1' MINUTE behind the table"
        cursor.fail(clause.call.span, "the table has no column of event times", hint)
    column = Argument("columns", (time,), clause.call.span, "TIMECOL")
    return replace(clause.call, arguments=(*clause.call.arguments, column))


def add_window_lengths(clause: WindowClause, cursor: Cursor, emit: Emit | None) -> Emit:
    """Return ``EMIT`` with the grace and retention of the clause.

    With ``FINAL``, windows wait for their grace; it moves their watermark instead.
    """
    made = add_lengths(cursor, emit, "WINDOW", grace=clause.grace, retain=_find_retention(clause))
    return made if emit is None or "closes" not in emit.spans else emit


def add_lengths(cursor: Cursor, emit: Emit | None, word: str, **lengths: Interval | None) -> Emit:
    """Return ``EMIT`` with the lengths of another clause; refuse a length that both have."""
    emit = emit or Emit()
    given = {name: length for name, length in lengths.items() if length is not None}
    for name in given:
        if getattr(emit, name) is not None:
            cursor.fail(emit.spans[name], f"{word} says so already", "say it once")
    spans = {name: length.span for name, length in given.items()}
    return replace(emit, **given, spans={**emit.spans, **spans})  # type: ignore[arg-type]


def _find_retention(clause: WindowClause) -> Interval | None:
    """Return the retention, counted from a window's end instead of its start."""
    if clause.retention is None:
        return None
    return replace(clause.retention, value=clause.retention.value - _measure_size(clause))


def _measure_size(clause: WindowClause) -> int:
    """Return the length of a window, or the gap of sessions, in microseconds."""
    sizes = [a.value for a in clause.call.arguments if a.label in ("SIZE", "GAP")]
    return sum(length.value for length in sizes if isinstance(length, Interval))


def find_extra_lateness(clause: WindowClause, emit: Emit | None) -> int:
    """Return the additional lateness of the watermark, in microseconds."""
    final = emit is not None and "closes" in emit.spans
    return clause.grace.value if final and clause.grace is not None else 0


def parse_window(cursor: Cursor) -> WindowClause | None:
    """Read ``WINDOW TUMBLING (...)``, if it comes next; ``WINDOW w AS (...)`` is another clause."""
    start = cursor.here
    following = cursor._tokens[cursor._index + 2 : cursor._index + 3]
    opens = bool(following) and following[0].token_type == TokenType.L_PAREN
    if cursor.word != "WINDOW" or cursor.second not in _KINDS or not opens:
        return None
    name, parts = _KINDS[cursor.second]
    cursor._advance(3)
    arguments: list[Argument] = []
    for label, words in parts.items():
        if arguments:
            _expect_comma(cursor)
        if words:
            cursor.needs(*words, hint=_WINDOW)
        length = intervals.parse_duration(cursor, _WINDOW)
        arguments.append(Argument("length", length, length.span, label))
    given: dict[str, Interval] = {}
    while cursor.takes_kind(TokenType.COMMA):
        part = "retention" if cursor.takes("RETENTION") else "grace"
        if part == "grace":
            cursor.needs("GRACE", "PERIOD", hint=_WINDOW)
        if part in given:
            cursor.fail(None, f"WINDOW says its {part} twice", "say it once")
        given[part] = intervals.parse_duration(cursor, _WINDOW)
    cursor.closes("WINDOW", _WINDOW)
    call = WindowCall(name, tuple(arguments), cursor.since(start))
    clause = WindowClause(call, given.get("grace"), given.get("retention"))
    _refuse_short_retention(cursor, clause)
    return clause


def _refuse_short_retention(cursor: Cursor, clause: WindowClause) -> None:
    """Refuse a retention, counted by ksqlDB from a window's start, that ends before its grace."""
    least = _measure_size(clause) + (0 if clause.grace is None else clause.grace.value)
    if clause.retention is not None and clause.retention.value < least:
        hint = f"write RETENTION {phrase(least).upper()} or more"
        cursor.fail(clause.retention.span, "RETENTION is below the size and the grace", hint)


def parse_within(cursor: Cursor) -> WithinClause | None:
    """Read ``WITHIN ...``, if it comes next."""
    start = cursor.here
    if not cursor.takes("WITHIN"):
        return None
    if cursor.takes_kind(TokenType.L_PAREN):
        before = intervals.parse_duration(cursor, _WITHIN)
        _expect_comma(cursor)
        after = intervals.parse_duration(cursor, _WITHIN)
        cursor.closes("WITHIN", _WITHIN)
    else:
        before = after = intervals.parse_duration(cursor, _WITHIN)
    grace = intervals.parse_duration(cursor, _WITHIN) if cursor.takes("GRACE", "PERIOD") else None
    return WithinClause(before.value, after.value, grace, cursor.since(start))


def _expect_comma(cursor: Cursor) -> None:
    if not cursor.takes_kind(TokenType.COMMA):
        cursor.fail(None, "a comma is missing", "put one between the two lengths")
