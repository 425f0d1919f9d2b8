"""Support for tests of pipelines: a slow and obvious oracle of windows, and a check of sinks.

The oracle keeps each window's messages in a list and needs only the standard library, so a test can
compare the results of a pipeline with the meaning of its query. ``check_sink`` tests whether a sink
of your own guarantees the same as muntin's.

Example:
    >>> from muntin import count
    >>> from muntin.standalone import windowed
    >>> spec = windowed(key="page", time="at").tumbling("10 us").agg(n=count())
    >>> oracle = Oracle(spec)
    >>> step = oracle.step([{"page": "home", "at": 3}, {"page": "home", "at": 12}], wall=12)
    >>> [(row["page"], row["window_start"], row["n"]) for row in step.firings]
    [('home', 0, 1)]
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from importlib import import_module
from typing import Any

from muntin.testing.oracle import Oracle, OracleStep
from muntin.testing.sinks import SinkBatch, check_sink

__all__ = ["Oracle", "OracleStep", "SinkBatch", "check_sink", "run"]


def run(
    definition: Any,
    messages: Any,
    *,
    ticks: Sequence[datetime | str | int] | None = None,
    final: bool = True,
) -> Any:
    """Run a query over the messages of a test, without its source, a checkpoint or Spark.

    The messages replace the query's sources, which aren't read. A run takes a few milliseconds, and
    its rows depend only on the messages and the ticks.

    Args:
        definition: Windows or a join, as `agg`, `top` and `join` return them.
        messages: The messages of one batch, as dictionaries or as a frame; or a list of such
            batches. Columns that are left out are NULL; times may be ISO texts. For a query of
            several inputs a dictionary or a tuple of these, in the order of the inputs.
        ticks: The wall clock of each batch: datetimes, ISO texts or microseconds. There is a batch
            without messages for each tick more. By default the machine's clock.
        final: Whether the input ends with the last batch, so that every window emits in full.

    Returns:
        A value with `emissions` and `rejected`, Polars frames with the column `batch`, and
        `progress`.

    Raises:
        OptionError: When the messages don't fit the query's inputs.

    Example:
        >>> import polars as pl
        >>> import muntin as mt
        >>> clicks = pl.DataFrame(schema={"page": pl.String, "at": pl.Datetime("us", "UTC")})
        >>> views = mt.windowed(clicks, key="page", time="at").tumbling("1 minute")
        >>> ran = run(views.agg(n=mt.count()), [{"page": "home", "at": "2026-01-01T00:00:05Z"}])
        >>> ran.emissions.select("page", "n", "emission").rows()
        [('home', 1, 'full')]
    """
    # The package of tests is a layer below the hosts, which it must not import.
    hosts = import_module("muntin.hosts.local.testing")
    return hosts.run_definition(definition, messages, ticks, final)
