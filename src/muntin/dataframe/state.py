"""`open_state`: the state of a query, whichever host runs it."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING

from muntin.hosts.local.state import is_local_checkpoint, open_local_state
from muntin.model.aggregates import Aggregate
from muntin.model.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from muntin.hosts.local.state import OpenLocalJoin, OpenLocalWindows
    from muntin.spark.inspect.joins import OpenJoin
    from muntin.spark.inspect.windows import OpenWindows


def open_state(
    checkpoint: str | PathLike[str],
    *,
    batch: int | None = None,
    aggregates: Mapping[str, Aggregate] | None = None,
    operator: int = 0,
    spark: SparkSession | None = None,
) -> OpenWindows | OpenJoin | OpenLocalWindows | OpenLocalJoin:
    """Read the state of a query from outside, while it runs or after.

    What is read is a snapshot of one committed batch: whatever the query commits afterwards
    doesn't show. The folder says which host wrote it. A checkpoint of Spark's is read by Spark jobs
    of about a second each; one of the local host is read in this process, without Spark.

    Args:
        checkpoint: The folder that the query was started with.
        batch: The number of a batch that is still kept (Spark keeps a hundred, the local host the
            newest one); the newest committed one where it isn't given.
        aggregates: The aggregates that run functions of yours, by output name, as the query has
            them: code isn't kept in state.
        operator: Which operator of a chain, counted from the last one.
        spark: The session, for a checkpoint of Spark's; the active one, or a new
            `muntin.session()`.

    Returns:
        The windows or sessions of an aggregation, or the messages that a join keeps.

    Raises:
        OptionError: When the folder is no checkpoint of windows, has no such batch, or was written
            by another version.

    Example:
        >>> state = open_state("checkpoints/late_flights")  # doctest: +SKIP
        >>> state.fetch("AA", start="2013-01-01 09:00")  # doctest: +SKIP
    """
    folder = fspath(checkpoint)
    if "://" in folder or not is_local_checkpoint(folder):
        from muntin.spark.inspect import windows

        return windows.open_state(
            folder, batch=batch, aggregates=aggregates, operator=operator, spark=spark
        )
    opened = open_local_state(folder, aggregates=aggregates, operator=operator)
    if batch is not None and batch != opened.batch:
        hint = "leave it out"
        raise OptionError("batch", batch, f"isn't kept: there is batch {opened.batch}", hint)
    return opened
