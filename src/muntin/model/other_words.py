"""Hints for names of other libraries: their counterparts in muntin."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from muntin.model.aggregates import NAMES, Aggregate, translate_name
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
)
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
    **dict.fromkeys(
        ("count", "sum", "mean", "aggregate", "reduce"),
        "write .agg(name=…), as in .agg(n=muntin.count())",
    ),
    **dict.fromkeys(("where", "filter"), "give windowed(…, where=…)"),
    **dict.fromkeys(("withWatermark", "grace"), "give windowed(…, lateness=…) or .late(grace=…)"),
    "suppress": _SUPPRESS,
    "window": ".tumbling(…), .hopping(…), .sliding(…), .rolling(…), .trailing(…) or .session(…)",
}
# Names that a finished query doesn't have.
_COMPLETE = {
    **dict.fromkeys(_DISPLAY_CALLS, "look at .results of a table; a stream says .start(…)"),
    **dict.fromkeys(
        ("early", "late", "keep", "tumbling", "hopping", "session"), "say it before .agg(…)"
    ),
    "suppress": _SUPPRESS,
    "to_memory": "give it to .start(results=muntin.to_memory())",
}


def missing_word(name: str, *, complete: bool) -> str:
    """Return the error message for an attribute that windows don't have.

    Args:
        name: The attribute.
        complete: Whether the windows have their aggregates.

    Example:
        >>> missing_word("start", complete=False)
        "windows without .agg(…) have no 'start'; say what they compute first: \
.agg(n=muntin.count()).start"
    """
    hint = (_COMPLETE if complete else _INCOMPLETE).get(name)
    subject = "a query has" if complete else "windows without .agg(…) have"
    return f"{subject} no {name!r}" + (f"; {hint}" if hint else "")


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
        raise OptionError("agg", str(unnamed[0]), "has no name in the output", hint)
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):
            hint = f'give one of muntin\'s, as in {name}=muntin.count() or {name}=muntin.sum("v")'
            if (call := translate_call(str(aggregate))) is not None:
                hint = f"write {name}={call}"
            raise OptionError("agg", f"{name}={aggregate}", "isn't an aggregate of muntin", hint)
