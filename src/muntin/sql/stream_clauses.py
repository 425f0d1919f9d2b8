"""Parses the clauses of streams: ``EMIT``, ``WATERMARK`` and ``OFFSET FOR``."""

from __future__ import annotations

from typing import Any

from sqlglot.tokens import TokenType

from muntin.model.axis import Axis
from muntin.model.fill import FILL_WORDS, Fill
from muntin.model.inputs import (
    ANY_TIME,
    BY_GREATEST,
    BY_SOURCE,
    DURATIONS,
    DurationOption,
    InputOptions,
    WatermarkBy,
)
from muntin.model.policies import (
    After,
    Each,
    Every,
    EveryRows,
    Never,
    OnePolicy,
    RowsOrEvery,
    WaitingLimit,
)
from muntin.sql.cursor import Cursor, Span
from muntin.sql.intervals import Interval, parse_interval, parse_time_interval
from muntin.sql.syntax import Emit, FromItem, PolicyClause, ThenClause, Watermark, WhenClause

_EMIT = (
    "write EMIT with some of EARLY EVERY 5 SECONDS, LATE EVERY 10 SECONDS, GRACE 1 HOUR, "
    "RETAIN 1 DAY ROWS 1000000, DELTAS, FULL IF CHANGED, FILL ZERO UP TO 1 DAY, "
    "or ON CLOSE, or CHANGES"
)
_FILL = (
    "write for example FILL ZERO UP TO 1 DAY, or NULL, PREVIOUS or LINEAR instead of ZERO, or "
    "FILL PREVIOUS (n = 0, price = LINEAR, city = 'none') UP TO 1 DAY"
)
_POLICY = (
    "write EVERY 5 SECONDS, EVERY 100 ROWS, EVERY 5 SECONDS OR 100 ROWS, "
    "EVERY 5 SECONDS AT LEAST 100 ROWS, AFTER 5 SECONDS, OVER 100000 WINDOWS, "
    "AFTER 5 SECONDS SINCE LAST, WHEN count(*) > 5, or EACH; "
    "or one policy and then another, EACH THEN EVERY 1 MINUTE, or EACH THEN NEVER"
)
_WATERMARK = (
    "write WATERMARK FOR ts AS ts - INTERVAL '30' SECOND, "
    "or WATERMARK ts DELAY OF INTERVAL 30 SECONDS"
)


def parse_emit(cursor: Cursor) -> Emit | None:
    """Parse ``EMIT ...``, if it comes next."""
    if not cursor.accept("EMIT"):
        return None
    start = cursor.last_token.start
    parts: dict[str, Any] = {}
    spans: dict[str, Span] = {}
    closes_span: Span | None = None
    while True:
        part_start, word = cursor.position, cursor.next_word
        cursor.accept_kind(TokenType.COMMA)
        if (
            cursor.accept("ON", "CLOSE")
            or cursor.accept("ON", "WINDOW", "CLOSE")
            or cursor.accept("FINAL")
        ):
            closes_span = cursor.span_from(part_start)
        else:
            part = _parse_emit_part(cursor)
            if part is None:
                break
            repeated = part.keys() & parts.keys()
            if repeated:
                span = part_start, cursor.position
                cursor.fail(span, f"EMIT has {word} twice", "write it once")
            parts |= part
            spans |= dict.fromkeys(part, cursor.span_from(part_start))
    if not parts and closes_span is None:
        cursor.fail(None, "EMIT has no clause", _EMIT)
    if closes_span is not None and ("early" in parts or "changes" in parts):
        hint = "leave one of them out: on close, a window emits when it is full"
        cursor.fail(closes_span, "ON CLOSE and EARLY can't be combined", hint)
    spans["emit"] = cursor.span_from(start)
    if closes_span is not None:
        spans["closes"] = closes_span
    return Emit(**parts, spans=spans)


def _parse_emit_part(cursor: Cursor) -> dict[str, Any] | None:
    if cursor.accept("EARLY"):
        early = Never() if cursor.peek("OVER") else _parse_policy(cursor)
        return {"early": early, **_parse_limit(cursor)}
    if cursor.accept("LATE"):
        return {"late": _parse_policy(cursor)}
    if cursor.accept("GRACE"):
        return {"grace": parse_interval(cursor)}
    if cursor.accept("RETAIN"):
        return _parse_retention(cursor)
    if cursor.accept("DELTAS"):
        return {"deltas": True}
    if cursor.accept("FULL"):
        cursor.expect("IF", "CHANGED", hint=_EMIT)
        return {"repeat": False}
    if cursor.accept("FILL"):
        return {"fill": _parse_fill(cursor)}
    if cursor.accept("CHANGES"):
        return {"changes": True}
    return None


def _parse_fill(cursor: Cursor) -> Fill:
    word = _parse_fill_word(cursor)
    if word is None and not cursor.peek("("):
        cursor.fail(None, "FILL has no value", _FILL)
    values: dict[str, Any] = {}
    if cursor.accept_kind(TokenType.L_PAREN):
        for name, value, span in cursor.parse_list(lambda: _parse_fill_value(cursor)):
            if name in values:
                cursor.fail(span, f"FILL names {name} twice", "name it once")
            values[name] = value
        cursor.expect_close("FILL")
    cursor.expect("UP", "TO", hint=_FILL)
    length = parse_interval(cursor)
    if length.axis != "time" or not length.value:
        cursor.fail(length.span, "UP TO needs a duration", _FILL)
    return Fill(word or "null", length.value, tuple(values.items()))


def _parse_fill_word(cursor: Cursor) -> str | None:
    return next((word for word in FILL_WORDS if cursor.accept(word.upper())), None)


def _parse_fill_value(cursor: Cursor) -> tuple[str, Any, Span]:
    """Parse ``n = 0``, with a word or a constant on the right."""
    name, span = cursor.parse_name("an aggregate")
    cursor.expect("=", hint=_FILL)
    word = _parse_fill_word(cursor)
    if word is not None:
        return name, word, span
    if cursor.peek_kind(TokenType.STRING):
        text = cursor.fill_placeholders(*cursor.parse_string("a text"))
        return name, f"'{text}'", span
    if cursor.accept("TRUE") or cursor.accept("FALSE"):
        return name, cursor.last_token.text.upper() == "TRUE", span
    minus = cursor.accept_kind(TokenType.DASH)
    number = cursor.accept_kind(TokenType.NUMBER)
    if number is None:
        cursor.fail(None, f"{cursor.next_text} can't fill a window", _FILL)
    text = f"{'-' if minus else ''}{number.text}"
    return name, int(text) if number.text.isdecimal() else float(text), span


def _parse_retention(cursor: Cursor) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if cursor.next_word != "ROWS":
        options["retain"] = parse_interval(cursor)
    if cursor.next_word == "ROWS":
        options["retain_rows"] = parse_interval(cursor).value
    return options


def _parse_policy(cursor: Cursor) -> PolicyClause:
    first = _parse_single_policy(cursor)
    if not cursor.accept("THEN"):
        return first
    return ThenClause(first, Never() if cursor.accept("NEVER") else _parse_single_policy(cursor))


def _parse_limit(cursor: Cursor) -> dict[str, WaitingLimit]:
    """Parse ``OVER 1000 WINDOWS`` after a policy, with ``OR STOP``, if it comes next."""
    if not cursor.accept("OVER"):
        return {}
    hint = "write OVER 100000 WINDOWS, or OVER 100000 WINDOWS OR STOP"
    number = cursor.accept_kind(TokenType.NUMBER)
    if number is None or not number.text.isdecimal() or not int(number.text):
        cursor.fail(number, "OVER needs a number of windows that may wait", hint)
    cursor.expect("WINDOWS", hint=hint)
    return {"over": WaitingLimit(int(number.text), cursor.accept("OR", "STOP"))}


def _parse_single_policy(cursor: Cursor) -> OnePolicy | WhenClause:
    start = cursor.position
    if cursor.accept("WHEN"):
        return WhenClause(cursor.parse_scalar("a condition"), cursor.span_from(start))
    if cursor.accept("EACH"):
        cursor.accept("MESSAGE") or cursor.accept("ROW")
        return Each()
    is_after = cursor.accept("AFTER")
    if not is_after:
        cursor.expect("EVERY", hint=_POLICY)
        if cursor.accept("ROW") or cursor.accept("MESSAGE"):
            return Each()
    lengths_by_axis: dict[str, int] = {}
    since = None
    while True:
        length = _parse_period(cursor, lengths_by_axis, is_after=is_after)
        lengths_by_axis[length.axis] = length.value
        since = _parse_since(cursor) if is_after else since
        if not cursor.accept("OR"):
            break
        is_after = cursor.accept("AFTER")
        is_after or cursor.accept("EVERY")
    rows, period = lengths_by_axis.get("rows"), lengths_by_axis.get("time")
    if since is not None and period is not None:
        return After(period, since, rows)
    if period is None:
        return EveryRows(lengths_by_axis["rows"])
    return Every(period, _parse_at_least(cursor)) if rows is None else RowsOrEvery(rows, period)


def _parse_period(cursor: Cursor, lengths_by_axis: dict[str, int], *, is_after: bool) -> Interval:
    """Parse the interval after ``EVERY`` or ``AFTER``; refuse a second one on the same axis."""
    length = parse_interval(cursor)
    if length.axis == "number":
        cursor.fail(length.span, "a period needs a unit", _POLICY)
    if length.value == 0:
        cursor.fail(length.span, "the period is zero", _POLICY)
    if is_after and length.axis != "time":
        cursor.fail(length.span, "AFTER needs a duration", _POLICY)
    if length.axis in lengths_by_axis:
        cursor.fail(length.span, "EVERY has two periods of one kind", _POLICY)
    return length


def _parse_since(cursor: Cursor) -> str:
    """Parse ``SINCE LAST MESSAGE``, if it comes next; the default is ``first``."""
    if not cursor.accept("SINCE"):
        return "first"
    since = "last" if cursor.accept("LAST") else "first"
    if since == "first":
        cursor.expect("FIRST", hint=_POLICY)
    cursor.accept("MESSAGE") or cursor.accept("ROW")
    return since


def _parse_at_least(cursor: Cursor) -> int:
    """Parse ``AT LEAST 100 ROWS``, if it comes next; the default is 1."""
    if not cursor.accept("AT", "LEAST"):
        return 1
    minimum = parse_interval(cursor)
    if minimum.axis != "rows" or minimum.value < 1:
        cursor.fail(minimum.span, "AT LEAST needs a number of rows", _POLICY)
    return minimum.value


def parse_table_watermark(cursor: Cursor) -> Watermark:
    """Parse ``FOR ts AS ts - INTERVAL ...``, after ``WATERMARK`` in ``CREATE TABLE``."""
    start = cursor.last_token.start
    if not cursor.accept("FOR"):
        return _parse_delayed_watermark(cursor, start)
    column, _ = cursor.parse_name("a column")
    cursor.expect("AS", hint=_WATERMARK)
    repeated_column, span = cursor.parse_name("a column")
    if repeated_column != column:
        hint = f"write WATERMARK FOR {column} AS {column} - INTERVAL '30' SECOND"
        cursor.fail(span, f"the watermark of {column} names {repeated_column}", hint)
    delay = _parse_delay(cursor) if cursor.accept_kind(TokenType.DASH) else 0
    return _parse_watermark_options(cursor, column, delay, start)


def parse_source_watermark(cursor: Cursor) -> Watermark | None:
    """Parse ``WATERMARK ts DELAY OF INTERVAL ...`` after a table, if it comes next."""
    if cursor.next_word != "WATERMARK" or cursor.second_word in (",", ")", ""):
        return None
    cursor.accept("WATERMARK")
    return _parse_delayed_watermark(cursor, cursor.last_token.start)


def parse_offset_columns(cursor: Cursor) -> tuple[str, str] | None:
    """Parse ``OFFSET FOR (partition, offset)``, if it comes next."""
    if not cursor.accept("OFFSET", "FOR"):
        return None
    hint = "write OFFSET FOR (partition, offset)"
    cursor.expect("(", hint=hint)
    first, _ = cursor.parse_name("a column")
    if not cursor.accept_kind(TokenType.COMMA):
        cursor.fail(None, "OFFSET FOR needs two columns", hint)
    second, _ = cursor.parse_name("a column")
    cursor.expect_close("OFFSET FOR")
    return first, second


def _parse_delayed_watermark(cursor: Cursor, start: int) -> Watermark:
    column, _ = cursor.parse_name("a column")
    cursor.expect("DELAY", "OF", hint=_WATERMARK)
    return _parse_watermark_options(cursor, column, _parse_delay(cursor), start)


def _parse_delay(cursor: Cursor) -> int:
    return parse_time_interval(cursor, _WATERMARK, "the watermark's delay").value


def _parse_watermark_options(cursor: Cursor, column: str, delay: int, start: int) -> Watermark:
    durations: dict[str, Any] = {}
    for option in DURATIONS:
        if option.sql and cursor.accept(*option.sql.split()):
            durations[option.name] = _parse_duration(cursor, option)
    rule, clocks = _parse_clocks(cursor) if cursor.accept("BY") else (None, ())
    options = InputOptions(column, lateness=delay, watermark=rule, clocks=clocks, **durations)
    return Watermark(options, cursor.span_from(start))


def refuse_watermark(cursor: Cursor, source: FromItem, axis: Axis) -> None:
    """Refuse the watermark of a table in a query that counts its rows."""
    if source.watermark is not None and axis == "rows":
        hint = "leave it out, or measure the windows in time"
        problem = "a watermark has no effect on rows, which are counted as they come"
        cursor.fail(source.watermark.span, problem, hint)


def _parse_duration(cursor: Cursor, option: DurationOption) -> int | None:
    """Parse the value of an option of a watermark, after its words."""
    hint = f"write {option.sql} INTERVAL '1' MINUTE"
    if option.takes_any:
        hint = f"{hint}, or {option.sql} {ANY_TIME.upper()}"
        if cursor.accept(ANY_TIME.upper()):
            return None
    length = parse_time_interval(cursor, hint, option.sql)
    if option.is_positive and not length.value:
        cursor.fail(length.span, f"{option.sql} is zero", hint)
    return length.value


def _parse_clocks(cursor: Cursor) -> tuple[WatermarkBy | None, tuple[str, ...]]:
    """Parse ``SOURCE``, ``GREATEST``, or columns in parentheses, after ``BY`` of a watermark.

    Returns:
        The rule that the word means, and the columns.
    """
    for word in (BY_SOURCE, BY_GREATEST):
        if cursor.accept(word.upper()):
            return word, ()
    cursor.expect("(", hint="write BY SOURCE, BY GREATEST, or BY (device)")
    columns = cursor.parse_list(lambda: cursor.parse_name("a column")[0])
    cursor.expect_close("BY")
    return None, tuple(columns)
