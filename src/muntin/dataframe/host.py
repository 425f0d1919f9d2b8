"""Chooses the host that runs a query by the type of its input."""

from __future__ import annotations

import sys
from typing import Literal, get_args

from muntin.hosts.local.definition import LocalDefinition
from muntin.hosts.local.windowed import LocalWindowed
from muntin.model.errors import OptionError
from muntin.sources.frames import frame_source
from muntin.sources.source import Source

Host = Literal["spark", "local"]


def choose_host(option: str, given: object, asked: str | None) -> Host:
    """Return the host that reads an input.

    Args:
        option: The option, for the error.
        given: The input.
        asked: The value of `host=`, if there is one.

    Raises:
        OptionError: When no host can read the input, or not the one asked for.
    """
    if asked is not None and asked not in get_args(Host):
        raise OptionError("host", asked, "isn't a host", 'give "spark" or "local", or omit it')
    natural = _natural_host(given)
    if natural is None:
        hint = "give a DataFrame of Spark's, a Polars, pandas or Arrow frame, a source, windows"
        raise OptionError(option, type(given), "isn't a frame or a source", f"{hint} or a join")
    if asked is None or asked == natural:
        return natural
    if asked == "spark":
        hint = "give spark.createDataFrame(frame), or omit host="
        raise OptionError("host", asked, f"can't read a {type(given).__name__}", hint)
    hint = "give frame.toPandas() or frame.toArrow(), or omit host="
    raise OptionError("host", asked, f"can't read a {type(given).__name__} of Spark's", hint)


def _natural_host(given: object) -> Host | None:
    home = type(given).__module__
    if isinstance(given, LocalDefinition | LocalWindowed) or _is_frame(given):
        return "local"
    if home.startswith(("pyspark.", "muntin.spark.")):
        return "spark"
    if any(_is_spark(base) for base in given.__class__.__mro__):
        return "spark"
    return "local" if isinstance(given, Source) else None


def _is_frame(given: object) -> bool:
    home = type(given).__module__.partition(".")[0]
    return home in ("polars", "pyarrow", "pandas") and frame_source(given) is not None


def _is_spark(base: type) -> bool:
    # Don't import Spark: an instance of its classes exists only if it is imported.
    return "pyspark" in sys.modules and base.__module__.startswith(("pyspark.", "muntin.spark."))
