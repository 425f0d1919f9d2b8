"""Hints for aggregates of other libraries, and for windows without any."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from muntin.model.aggregates import NAMES, Aggregate, translate_name
from muntin.model.errors import OptionError

# A call of an aggregate in the representation of Spark and of Polars.
_SPARK_CALL = re.compile(r"(\w+)\(`?([\w.*]*)`?\)")
_POLARS_CALL = re.compile(r"col\([\"']([^\"']+)[\"']\)\.(\w+)\(\)")


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
        elif (call := translate_call(str(unnamed[0]))) is not None:
            hint = f"write .agg(name={call})"
        raise OptionError("agg", str(unnamed[0]), "has no name in the output", hint)
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):
            hint = f'give one of muntin\'s, as in {name}=muntin.count() or {name}=muntin.sum("v")'
            if isinstance(aggregate, tuple) and list(map(type, aggregate)) == [str, str]:
                aggregate = f"{aggregate[1]}({aggregate[0]})"
            if (call := translate_call(str(aggregate))) is not None:
                hint = f"write {name}={call}"
            raise OptionError("agg", f"{name}={aggregate}", "isn't an aggregate of muntin", hint)
