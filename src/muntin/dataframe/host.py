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


def choose_host(option: str, frame: object, requested_host: str | None) -> Host:
    """Return the host that reads an input: the requested one, or the one that the type implies.

    Raises:
        OptionError: When the input isn't a frame, or the requested host can't read it.
    """
    if requested_host is not None and requested_host not in get_args(Host):
        raise OptionError(
            "host", requested_host, "isn't a host", 'give "spark" or "local", or omit it'
        )
    inferred = _infer_host(frame)
    if inferred is None:
        hint = "give a frame of Spark, Polars, pandas or Arrow, a source, windows or a join"
        if isinstance(frame, str):
            hint = f"write muntin.files({frame!r}), or read it with Polars or pandas"
        elif isinstance(frame, list | tuple | dict):
            hint = "write pl.DataFrame(rows), or pd.DataFrame(rows)"
            if option == "tables" and isinstance(frame, dict):
                hint = "give tables by name, mt.sql({'clicks': clicks}, statement)"
        raise OptionError(option, type(frame), "isn't a frame or a source", hint)
    if requested_host is None or requested_host == inferred:
        return inferred
    if requested_host == "spark":
        hint = "give spark.createDataFrame(frame), or omit host="
        raise OptionError("host", requested_host, f"can't read a {type(frame).__name__}", hint)
    hint = "give frame.toPandas() or frame.toArrow(), or omit host="
    raise OptionError(
        "host", requested_host, f"can't read a {type(frame).__name__} of Spark's", hint
    )


def _infer_host(frame: object) -> Host | None:
    module = type(frame).__module__
    if isinstance(frame, LocalDefinition | LocalWindowed) or _is_frame(frame):
        return "local"
    if module.startswith(("pyspark.", "muntin.spark.")):
        return "spark"
    if any(_is_spark(base) for base in frame.__class__.__mro__):
        return "spark"
    return "local" if isinstance(frame, Source) else None


def _is_frame(frame: object) -> bool:
    module = type(frame).__module__.partition(".")[0]
    return module in ("polars", "pyarrow", "pandas") and frame_source(frame) is not None


def _is_spark(base: type) -> bool:
    # Don't import Spark: an instance of its classes exists only if it is imported.
    return "pyspark" in sys.modules and base.__module__.startswith(("pyspark.", "muntin.spark."))
