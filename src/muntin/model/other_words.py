"""Hints for names of other libraries: their counterparts in muntin."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from muntin.model.aggregates import NAMES, Aggregate, translate_name
from muntin.model.close_names import find_close_name
from muntin.model.errors import OptionError

# A call of an aggregate in the representation of Spark and of Polars.
_SPARK_CALL = re.compile(r"(\w+)\(`?([\w.*]*)`?\)")
_POLARS_CALL = re.compile(r"col\([\"']([^\"']+)[\"']\)\.(\w+)\(\)")
_DISPLAY_CALLS = (
    "show",
    "display",
    "toPandas",
    "to_pandas",
    "collect",
    "plot",
    "head",
    "writeStream",
    "write",
    "schema",
    "printSchema",
    "columns",
    "isStreaming",
)
_ONE_ROW_EACH = "give .start(results=…) a function of a batch's rows and its number"
_SUPPRESS = (
    "leave it out, and a window emits once, when it is full; untilTimeLimit(d) is .early(after=d), "
    "and maxRecords(n) is over=n, with stop=True to shut down"
)
# Names that windows without aggregates don't have.
_INCOMPLETE = {
    **{
        name: f"say what they compute first: .agg(n=muntin.count()).{name}"
        for name in ("explain", "rejected", "results", "start")
    },
    **dict.fromkeys(_DISPLAY_CALLS, "say what they compute first: .agg(n=muntin.count()).results"),
    **dict.fromkeys(("groupBy", "groupby", "group_by", "keyBy"), "give windowed(…, key=…)"),
    **dict.fromkeys(("session_window", "sessionWindow"), 'write .session("5 minutes")'),
    **dict.fromkeys(
        ("count", "sum", "mean", "aggregate", "reduce"),
        "write .agg(name=…), as in .agg(n=muntin.count())",
    ),
    **dict.fromkeys(("where", "filter"), "give windowed(…, where=…)"),
    **dict.fromkeys(("withWatermark", "grace"), "give windowed(…, lateness=…) or .late(grace=…)"),
    "suppress": _SUPPRESS,
    **dict.fromkeys(
        ("window", "windowedBy", "windowed_by", "windowBy"),
        "write .tumbling(…), .hopping(…), .sliding(…), .rolling(…), .trailing(…) or .session(…)",
    ),
    **dict.fromkeys(("groupByKey", "group_by_key", "partitionBy"), "give windowed(…, key=…)"),
    **dict.fromkeys(
        ("resample", "group_by_dynamic"), 'write .tumbling("10 minutes") in the place of it'
    ),
    "advanceBy": "write .hopping(size, slide)",
    **dict.fromkeys(("nlargest", "nsmallest", "limit"), 'write .top(3, by="price")'),
}
# Names that a finished query doesn't have.
_COMPLETE = {
    **dict.fromkeys(
        _DISPLAY_CALLS,
        ".results is the frame of a finite input; a stream runs by .start(checkpoint=…)",
    ),
    **dict.fromkeys(
        ("to", "toStream", "to_stream", "toTable", "writeTo", "run", "execute"),
        "write .start(checkpoint=…, results=…), with a sink such as muntin.to_kafka(…)",
    ),
    **dict.fromkeys(("foreach", "peek", "foreachBatch", "mapValues", "map"), _ONE_ROW_EACH),
    **dict.fromkeys(
        ("groupBy", "groupby", "group_by", "count", "sum", "filter", "where"),
        "write windowed(windows, …) for windows over windows, or use .results",
    ),
    **dict.fromkeys(
        ("early", "late", "keep", "tumbling", "hopping", "session"), "say it before .agg(…)"
    ),
    "suppress": _SUPPRESS,
    **dict.fromkeys(("describe", "explainString"), "write .explain()"),
    "plot": ".results is a frame: write .results.plot(…), as its library does",
    **dict.fromkeys(
        ("schema", "columns", "isStreaming"), ".results has it, on Spark of a stream, too"
    ),
    "printSchema": "write .results.printSchema(), on Spark of a stream, too",
    "write": "write .results.write, or .start(…, results=…) of a stream",
    "writeStream": "write .start(checkpoint=…, results=…, every=…, available_now=…)",
    "to_memory": "give it to .start(results=muntin.to_memory())",
}


# What windows have, for mistyped names.
_STEPS = (
    *("tumbling", "hopping", "cumulating", "sliding", "rolling", "trailing", "session", "sets"),
    *("early", "late", "full", "keep", "fill", "deltas", "agg", "top"),
)
_FINISHED = ("results", "rejected", "start", "explain", "full", "top")


def missing_word(name: str, *, complete: bool) -> str:
    """Return the error for an attribute that windows (``complete`` with aggregates) lack."""
    hint = (_COMPLETE if complete else _INCOMPLETE).get(name)
    if hint is None:
        close = find_close_name(name, _FINISHED if complete else _STEPS, 0.75)
        hint = f"did you mean .{close}?" if close else None
    subject = "a query has" if complete else "windows without .agg(…) have"
    return f"{subject} no {name!r}" + (f"; {hint}" if hint else "")


def describe_incomplete(windows: object, time: str | None) -> str:
    """Describe windows without aggregates, and what they lack."""
    position = f" on {time}" if time else ""
    if windows is None:
        steps = '.tumbling("10 minutes") or other windows, then .agg(n=muntin.count())'
        return f"no windows{position} yet: add {steps}"
    return f"{windows}{position}, without aggregates yet: add .agg(n=muntin.count())"


def translate_call(text: str) -> str | None:
    """Translate the aggregate that an expression of Spark or Polars calls into muntin's.

    Example:
        >>> translate_call("Column<'avg(v)'>"), translate_call('col("v").sum()')
        ('muntin.mean("v")', 'muntin.sum("v")')
    """
    polars, spark = _POLARS_CALL.search(text), _SPARK_CALL.search(text)
    if polars is not None:
        column, function = polars.groups()
    elif spark is not None:
        function, column = spark.groups()
    else:
        return None
    function = translate_name(function) or function
    if function not in NAMES:
        return None
    argument = "" if column in ("", "1", "*") else f'"{column}"'
    return f"muntin.{function}({argument})"


def check_aggregates(aggregates: Mapping[str, object], unnamed: tuple[Any, ...]) -> None:
    """Refuse what isn't an aggregate of muntin or has no name, with a hint from other words."""
    if unnamed:
        hint = "write .agg(name=…), as in .agg(n=muntin.count())"
        if isinstance(unnamed[0], dict) and unnamed[0]:
            column, function = next(iter(unnamed[0].items()))
            call = translate_call(f"{function}({column})")
            hint = f"write .agg({column}={call})" if call else hint
        raise OptionError("agg", str(unnamed[0]), "has no name in the output", hint)
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):
            hint = f'give one of muntin\'s, as in {name}=muntin.count() or {name}=muntin.sum("v")'
            if isinstance(aggregate, tuple) and list(map(type, aggregate)) == [str, str]:
                aggregate = f"{aggregate[1]}({aggregate[0]})"
            if (call := translate_call(str(aggregate))) is not None:
                hint = f"write {name}={call}"
            raise OptionError("agg", f"{name}={aggregate}", "isn't an aggregate of muntin", hint)
