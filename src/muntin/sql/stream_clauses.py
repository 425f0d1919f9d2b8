"""The clauses of streams: ``EMIT`` and ``WATERMARK``."""

from __future__ import annotations

from typing import Any

from sqlglot.tokens import TokenType

from muntin.model.fill import FILL_WORDS, Fill
from muntin.model.inputs import AHEAD, BY_GREATEST, BY_SOURCE, InputOptions, WatermarkBy
from muntin.model.policies import After, Each, Every, EveryRows, OnePolicy, RowsOrEvery
from muntin.sql import intervals
from muntin.sql.cursor import Cursor, Span
from muntin.sql.syntax import Emit, PolicyClause, ThenClause, Watermark, WhenClause

_EMIT = (
    "write EMIT with some of EARLY EVERY 5 SECONDS, LATE EVERY 10 SECONDS, GRACE 1 HOUR, "
    "RETAIN 1 DAY ROWS 1000000, DELTAS, FULL IF CHANGED, FILL ZERO UP TO 1 DAY, "
    "or ON CLOSE, or CHANGES"
)
_FILL = (
    "write for example FILL ZERO UP TO 1 DAY, with NULL, PREVIOUS or LINEAR likewise, or "
    "FILL PREVIOUS (n = 0, price = LINEAR, city = 'none') UP TO 1 DAY"
)
_POLICY = (
    "write EVERY 5 SECONDS, EVERY 100 ROWS, EVERY 5 SECONDS OR 100 ROWS, "
    "EVERY 5 SECONDS AT LEAST 100 ROWS, AFTER 5 SECONDS, "
    "AFTER 5 SECONDS SINCE LAST, WHEN count(*) > 5, or EACH; "
    "or one first and another from then on, EACH THEN EVERY 1 MINUTE"
)
_WATERMARK = (
    "write WATERMARK FOR ts AS ts - INTERVAL '30' SECOND, "
    "or WATERMARK ts DELAY OF INTERVAL 30 SECONDS"
)


def parse_emit(cursor: Cursor) -> Emit | None:
    """Read ``EMIT ...``, if it comes next."""
    if not cursor.takes("EMIT"):
        return None
    start = cursor._prev.start
    found: dict[str, Any] = {}
    spans: dict[str, Span] = {}
    closes: Span | None = None
    while True:
        begin, word = cursor.here, cursor.word
        cursor.takes_kind(TokenType.COMMA)
        if (
            cursor.takes("ON", "CLOSE")
            or cursor.takes("ON", "WINDOW", "CLOSE")
            or cursor.takes("FINAL")
        ):
            closes = cursor.since(begin)
        else:
            part = _parse_emit_part(cursor)
            if part is None:
                break
            twice = part.keys() & found.keys()
            if twice:
                cursor.fail((begin, cursor.here), f"EMIT says {word} twice", "say it once")
            found |= part
            spans |= dict.fromkeys(part, cursor.since(begin))
    if not found and closes is None:
        cursor.fail(None, "EMIT doesn't say when", _EMIT)
    if closes is not None and ("early" in found or "changes" in found):
        hint = "leave one of them out: on close, a window emits when it is full"
        cursor.fail(closes, "ON CLOSE and early firings exclude each other", hint)
    spans["emit"] = cursor.since(start)
    if closes is not None:
        spans["closes"] = closes
    return Emit(**found, spans=spans)


def _parse_emit_part(cursor: Cursor) -> dict[str, Any] | None:
    if cursor.takes("EARLY"):
        return {"early": _parse_policy(cursor)}
    if cursor.takes("LATE"):
        return {"late": _parse_policy(cursor)}
    if cursor.takes("GRACE"):
        return {"grace": intervals.parse_interval(cursor)}
    if cursor.takes("RETAIN"):
        return _parse_retention(cursor)
    if cursor.takes("DELTAS"):
        return {"deltas": True}
    if cursor.takes("FULL"):
        cursor.needs("IF", "CHANGED", hint=_EMIT)
        return {"repeat": False}
    if cursor.takes("FILL"):
        return {"fill": _parse_fill(cursor)}
    if cursor.takes("CHANGES"):
        return {"changes": True}
    return None


def _parse_fill(cursor: Cursor) -> Fill:
    value = _parse_fill_word(cursor)
    if value is None and not cursor.sees("("):
        cursor.fail(None, "FILL doesn't say with what", _FILL)
    ways: dict[str, Any] = {}
    if cursor.takes_kind(TokenType.L_PAREN):
        for name, way, span in cursor.several(lambda: _parse_fill_way(cursor)):
            if name in ways:
                cursor.fail(span, f"FILL names {name} twice", "name it once")
            ways[name] = way
        cursor.closes("FILL")
    cursor.needs("UP", "TO", hint=_FILL)
    length = intervals.parse_interval(cursor)
    if length.axis != "time" or not length.value:
        cursor.fail(length.span, "what is filled is measured in time", _FILL)
    return Fill(value or "null", length.value, tuple(ways.items()))


def _parse_fill_word(cursor: Cursor) -> str | None:
    return next((word for word in FILL_WORDS if cursor.takes(word.upper())), None)


def _parse_fill_way(cursor: Cursor) -> tuple[str, Any, Span]:
    """Read ``n = 0``, with a word or a constant on the right."""
    name, span = cursor.name("an aggregate")
    cursor.needs("=", hint=_FILL)
    word = _parse_fill_word(cursor)
    if word is not None:
        return name, word, span
    if cursor.sees_kind(TokenType.STRING):
        return name, f"'{cursor.filled(*cursor.text('a text'))}'", span
    if cursor.takes("TRUE") or cursor.takes("FALSE"):
        return name, cursor._prev.text.upper() == "TRUE", span
    minus = cursor.takes_kind(TokenType.DASH)
    number = cursor.takes_kind(TokenType.NUMBER)
    if number is None:
        cursor.fail(None, f"{cursor.shown} isn't what fills a window", _FILL)
    text = f"{'-' if minus else ''}{number.text}"
    return name, int(text) if number.text.isdecimal() else float(text), span


def _parse_retention(cursor: Cursor) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if cursor.word != "ROWS":
        found["retain"] = intervals.parse_interval(cursor)
    if cursor.word == "ROWS":
        found["retain_rows"] = intervals.parse_interval(cursor).value
    return found


def _parse_policy(cursor: Cursor) -> PolicyClause:
    first = _parse_single_policy(cursor)
    return ThenClause(first, _parse_single_policy(cursor)) if cursor.takes("THEN") else first


def _parse_single_policy(cursor: Cursor) -> OnePolicy | WhenClause:
    start = cursor.here
    if cursor.takes("WHEN"):
        return WhenClause(cursor.scalar("a condition"), cursor.since(start))
    if cursor.takes("EACH"):
        cursor.takes("MESSAGE") or cursor.takes("ROW")
        return Each()
    after = cursor.takes("AFTER")
    if not after:
        cursor.needs("EVERY", hint=_POLICY)
        if cursor.takes("ROW") or cursor.takes("MESSAGE"):
            return Each()
    lengths_by_axis: dict[str, int] = {}
    since = None
    while True:
        length = _parse_period(cursor, lengths_by_axis, after=after)
        lengths_by_axis[length.axis] = length.value
        since = _parse_since(cursor) if after else since
        if not cursor.takes("OR"):
            break
        after = cursor.takes("AFTER")
        after or cursor.takes("EVERY")
    rows, period = lengths_by_axis.get("rows"), lengths_by_axis.get("time")
    if since is not None and period is not None:
        return After(period, since, rows)
    if period is None:
        return EveryRows(lengths_by_axis["rows"])
    return Every(period, _parse_at_least(cursor)) if rows is None else RowsOrEvery(rows, period)


def _parse_period(
    cursor: Cursor, lengths_by_axis: dict[str, int], *, after: bool
) -> intervals.Interval:
    """Read the length after ``EVERY`` or ``AFTER``."""
    length = intervals.parse_interval(cursor)
    if length.axis == "number":
        cursor.fail(length.span, "a period needs a unit", _POLICY)
    if length.value == 0:
        cursor.fail(length.span, "the period is zero", _POLICY)
    if after and length.axis != "time":
        cursor.fail(length.span, "AFTER waits for a time", _POLICY)
    if length.axis in lengths_by_axis:
        cursor.fail(length.span, "EVERY says twice how often", _POLICY)
    return length


def _parse_since(cursor: Cursor) -> str:
    """Read ``SINCE LAST MESSAGE`` after a time, if it comes next; ``first`` is the default."""
    if not cursor.takes("SINCE"):
        return "first"
    since = "last" if cursor.takes("LAST") else "first"
    if since == "first":
        cursor.needs("FIRST", hint=_POLICY)
    cursor.takes("MESSAGE") or cursor.takes("ROW")
    return since


def _parse_at_least(cursor: Cursor) -> int:
    """Read ``AT LEAST 100 ROWS`` after a period, if it comes next."""
    if not cursor.takes("AT", "LEAST"):
        return 1
    least = intervals.parse_interval(cursor)
    if least.axis != "rows" or least.value < 1:
        cursor.fail(least.span, "AT LEAST counts rows", _POLICY)
    return least.value


def parse_table_watermark(cursor: Cursor) -> Watermark:
    """Read ``FOR ts AS ts - INTERVAL ...``, after ``WATERMARK`` in ``CREATE TABLE``."""
    start = cursor._prev.start
    if not cursor.takes("FOR"):
        return _parse_delayed_watermark(cursor, start)
    column, _ = cursor.name("a column")
    cursor.needs("AS", hint=_WATERMARK)
    again, span = cursor.name("a column")
    if again != column:
        hint = f"write WATERMARK FOR {column} AS {column} - INTERVAL '30' SECOND"
        cursor.fail(span, f"the watermark of {column} follows {again}", hint)
    delay = _parse_delay(cursor) if cursor.takes_kind(TokenType.DASH) else 0
    return _parse_watermark_options(cursor, column, delay, start)


def parse_source_watermark(cursor: Cursor) -> Watermark | None:
    """Read ``WATERMARK ts DELAY OF INTERVAL ...`` after a table, if it comes next."""
    if cursor.word != "WATERMARK" or cursor.second in (",", ")", ""):
        return None
    cursor.takes("WATERMARK")
    return _parse_delayed_watermark(cursor, cursor._prev.start)


def parse_offset_columns(cursor: Cursor) -> tuple[str, str] | None:
    """Read ``OFFSET FOR (partition, offset)``, if it comes next."""
    if not cursor.takes("OFFSET", "FOR"):
        return None
    hint = "write OFFSET FOR (partition, offset)"
    cursor.needs("(", hint=hint)
    first, _ = cursor.name("a column")
    if not cursor.takes_kind(TokenType.COMMA):
        cursor.fail(None, "OFFSET has two columns", hint)
    second, _ = cursor.name("a column")
    cursor.closes("OFFSET FOR")
    return first, second


def _parse_delayed_watermark(cursor: Cursor, start: int) -> Watermark:
    column, _ = cursor.name("a column")
    cursor.needs("DELAY", "OF", hint=_WATERMARK)
    return _parse_watermark_options(cursor, column, _parse_delay(cursor), start)


def _parse_delay(cursor: Cursor) -> int:
    return intervals.parse_duration(cursor, _WATERMARK, "the watermark's delay").value


def _parse_watermark_options(cursor: Cursor, column: str, delay: int, start: int) -> Watermark:
    ahead: int | None = AHEAD
    if cursor.takes("MAX", "AHEAD"):
        hint = "write MAX AHEAD INTERVAL '1' DAY, or MAX AHEAD ANY"
        ahead = None
        if not cursor.takes("ANY"):
            ahead = intervals.parse_duration(cursor, hint, "how far ahead").value
    idle = None
    if cursor.takes("IDLE", "AFTER"):
        hint = "write IDLE AFTER INTERVAL '1' MINUTE"
        idle = intervals.parse_duration(cursor, hint, "the idle time").value
    named, clocks = _parse_clocks(cursor) if cursor.takes("BY") else (None, ())
    marks = InputOptions(column, delay, ahead, idle=idle, watermark=named, clocks=clocks)
    return Watermark(marks, cursor.since(start))


def _parse_clocks(cursor: Cursor) -> tuple[WatermarkBy | None, tuple[str, ...]]:
    """Read the clocks of a watermark: ``SOURCE``, ``GREATEST``, or columns in parentheses."""
    for word in (BY_SOURCE, BY_GREATEST):
        if cursor.takes(word.upper()):
            return word, ()
    cursor.needs("(", hint="write BY SOURCE, BY GREATEST, or BY (device)")
    names = [cursor.name("a column")[0]]
    while cursor.takes_kind(TokenType.COMMA):
        names.append(cursor.name("a column")[0])
    cursor.closes("BY")
    return None, tuple(names)
