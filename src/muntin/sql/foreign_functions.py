"""Recognizes functions of Flink and ksqlDB with another name or meaning here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sqlglot import exp

from muntin.model.close_names import find_close_name

PROCTIME_ERROR = (
    "windows by processing time depend on when they run",
    "window by the column timestamp of a Kafka table, the time of arrival; on Spark a view may be "
    "SELECT *, current_timestamp() AS at FROM t, the time of the batch that reads a row",
)
LOOK_BACK_ERROR = (
    "SQL has no words for a look-back from now",
    'write it in Python: mt.windowed(t, key="k", time="ts").trailing("1 hour", every="1 minute")',
)
REPLACEMENTS = {
    "COLLECT": "collect_list(x)",
    "CONVERT_TZ": "date_format(from_utc_timestamp(ts, 'Europe/Berlin'), 'HH:mm')",
    "EXTRACTJSONFIELD": "get_json_object(text, '$.a')",
    "JSON_EXISTS": "get_json_object(text, '$.a') IS NOT NULL",
    "JSON_QUERY": "get_json_object(text, '$.a')",
    "JSON_VALUE": "get_json_object(text, '$.a')",
    "ROW": "named_struct('a', x, 'b', y)",
    "SPLIT_INDEX": "split_part(text, '/', n + 1)",
    "STRINGTOTIMESTAMP": "to_timestamp(text, 'yyyy-MM-dd HH:mm:ss')",
    "TIMESTAMPTOSTRING": "date_format(ts, 'yyyy-MM-dd HH:mm:ss')",
}
"""Replacements by the name of the function."""

_NOW = ("NOW", "MZ_NOW", "CURRENT_TIMESTAMP")
# The units of windows, by their letters in date patterns, from short to long.
_UNITS = {"s": "SECOND", "m": "MINUTE", "H": "HOUR", "d": "DAY", "M": "MONTH", "y": "YEAR"}
# Rounding to any length, in DuckDB, TimescaleDB and PostgreSQL.
_BUCKETS = ("TIME_BUCKET", "DATE_BIN")
_LENGTHS = {"YEAR": "12 MONTHS", "MONTH": "1 MONTH"}
_WINDOW_FUNCTIONS = ("TUMBLE", "HOP", "CUMULATE", "SESSION", "WINDOW", "SESSION_WINDOW")
# Names of windows in other engines.
_OTHER_WINDOWS = {
    **dict.fromkeys(("TUMBLING", "TUMBLINGWINDOW", "TUMBLING_WINDOW"), "TUMBLE"),
    **dict.fromkeys(("HOPPING", "HOPPINGWINDOW", "HOP_WINDOW", "SLIDE"), "HOP"),
    **dict.fromkeys(("CUMULATING", "CUMULATIVE"), "CUMULATE"),
    **dict.fromkeys(("SESSIONWINDOW", "SESSIONS"), "SESSION"),
}


def find_foreign_function(node: exp.Expr) -> tuple[str, str] | None:
    """Return the problem with a foreign function and a hint; ``None`` for any other node.

    Example:
        >>> find_foreign_function(exp.Anonymous(this="JSON_QUERY"))
        ("json_query isn't a function here", "write get_json_object(text, '$.a')")
    """
    if (
        isinstance(node, exp.Is)
        and _is_regexp_extract(node.this)
        and isinstance(node.expression, exp.Null)
    ):
        hint = "write regexp_extract(...) <> '', or text RLIKE 'pattern'"
        return "regexp_extract is '' and not NULL where nothing matches", hint
    if isinstance(node, exp.Cast) and has_ignored_length(node.to):
        hint = "write STRING, or left(text, n) for its first n characters"
        return f"{node.to.sql()} has a length, which nothing is cut to", hint
    if not isinstance(node, exp.Anonymous):
        return None
    name = node.name.upper()
    if is_processing_time(node):
        return PROCTIME_ERROR
    if name == "MZ_NOW":
        return LOOK_BACK_ERROR
    if name not in REPLACEMENTS:
        return None
    return f"{name.lower()} isn't a function here", f"write {REPLACEMENTS[name]}"


def has_ignored_length(kind: exp.Expr) -> bool:
    """Return whether a type, or a part of it, has a length, with which no host compares values.

    The digits of a decimal count, and those of a time are fewer than its microseconds.
    """
    return any(
        not part.is_type("DECIMAL", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ")
        and any(isinstance(one, exp.DataTypeParam) for one in part.expressions)
        for part in kind.find_all(exp.DataType)
    )


def is_processing_time(time: object) -> bool:
    """Return whether an expression is Flink's ``PROCTIME()``."""
    return isinstance(time, exp.Anonymous) and time.name.upper() == "PROCTIME"


def is_now(node: exp.Expr) -> bool:
    """Return whether an expression is the current time."""
    named = isinstance(node, exp.Anonymous) and node.name.upper() in _NOW
    return named or isinstance(node, exp.CurrentTimestamp)


def _is_regexp_extract(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == "REGEXP_EXTRACT"


def find_rounded_time(group: Sequence[exp.Expr]) -> tuple[exp.Expr, str] | None:
    """Return a key that rounds a time, and a hint with the window; ``None`` without such a key.

    Example:
        >>> day = exp.Anonymous(this="TO_DATE", expressions=[exp.column("ts")])
        >>> find_rounded_time([day])[1]
        "group by TUMBLE(ts, INTERVAL '1' DAY), and show to_date(window_start)"
    """
    for node in group:
        unit, time = _find_rounding_unit(node), next(node.find_all(exp.Column), None)
        is_bucket = isinstance(node, exp.Anonymous) and node.name.upper() in _BUCKETS
        if time is None or (unit is None and not is_bucket):
            continue
        size = _LENGTHS.get(unit or "", f"INTERVAL '1' {unit}")
        shown = "window_start"
        if is_bucket:
            size = node.expressions[0].sql()
        else:
            shown = _render_over_window_start(node)
        name = ".".join(part.name for part in time.parts)
        return node, f"group by TUMBLE({name}, {size}), and show {shown}"
    return None


def _find_rounding_unit(node: exp.Expr) -> str | None:
    """Return the unit to which a function rounds times; ``None`` for any other node."""
    if isinstance(node, exp.Cast):
        return "DAY" if node.to.is_type("DATE") else None
    if not isinstance(node, exp.Anonymous):
        return None
    texts = [one.name for one in node.expressions if isinstance(one, exp.Literal)]
    name = node.name.upper()
    if name in ("TO_DATE", "DATE"):
        return "DAY"
    if name in ("DATE_TRUNC", "TRUNC") and texts:
        return texts[0].upper() if texts[0].upper() in _UNITS.values() else None
    if name != "DATE_FORMAT" or not texts or "y" not in texts[0].lower():
        return None
    letters = re.sub(r"'[^']*'", "", texts[0])
    return next((unit for letter, unit in _UNITS.items() if letter in letters), None)


def _render_over_window_start(node: exp.Expr) -> str:
    """Return the text of a function of a time, applied to the start of the window."""

    def start(part: exp.Expr) -> exp.Expr:
        return exp.column("window_start") if isinstance(part, exp.Column) else part

    if isinstance(node, exp.Cast):
        return "CAST(window_start AS DATE)"
    text = node.transform(start).sql()
    name, _, rest = text.partition("(")
    return f"{name.lower()}({rest}"


def find_misspelt_window(nodes: Iterable[exp.Expr]) -> tuple[exp.Expr, str, str] | None:
    """Return a function whose name is almost that of a window function, with problem and hint."""
    for node in (part for whole in nodes for part in whole.find_all(exp.Anonymous)):
        name = str(node.this).upper()
        meant = _OTHER_WINDOWS.get(name) or find_close_name(name, _WINDOW_FUNCTIONS)
        if meant is not None:
            return node, f"{name} isn't a window function", f"did you mean {meant}?"
    return None
