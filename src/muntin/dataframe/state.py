"""`open_state` and the reports on the state of a query, for both hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING

from muntin.hosts.inspect.opening import open_snapshot
from muntin.hosts.inspect.report import StateReport, report_state
from muntin.hosts.inspect.snapshot import StateSnapshot
from muntin.hosts.inspect.why import explain_state
from muntin.hosts.leases import read_waits
from muntin.hosts.local.state import LogSnapshot, is_local_checkpoint, refuse_other_folder
from muntin.model.aggregates import Aggregate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from muntin.hosts.inspect.joins import OpenJoin
    from muntin.hosts.inspect.windows import OpenWindows


def open_state(
    checkpoint: str | PathLike[str],
    *,
    batch: int | None = None,
    aggregates: Mapping[str, Aggregate] | None = None,
    operator: int = 0,
    spark: SparkSession | None = None,
) -> OpenWindows | OpenJoin:
    """Read the state of a query from any process, while the query runs or after.

    The result is a snapshot of one committed batch, which later commits don't change. The folder
    determines which host wrote it. Reading a checkpoint of Spark takes Spark jobs of about a second
    each; one of the local host is read in this process, without Spark.

    Args:
        checkpoint: The folder that the query was started with.
        batch: The number of a batch that is still kept (Spark keeps a hundred, the local host the
            newest one); by default the newest committed one.
        aggregates: The query's aggregates that run functions of yours, by output name, since the
            state doesn't contain code.
        operator: The number of the operator in a chain, counted from the last one.
        spark: The session, for a checkpoint of Spark; by default the active one, or a new
            `muntin.session()`.

    Returns:
        The windows or sessions of an aggregation, or the messages that a join keeps.

    Raises:
        OptionError: When the folder isn't a checkpoint of windows or a join, the batch isn't kept,
            or another version wrote it.

    Example:
        >>> state = open_state("checkpoints/late_flights")  # doctest: +SKIP
        >>> state.fetch("AA", start="2013-01-01 09:00")  # doctest: +SKIP
    """
    return open_snapshot(read_checkpoint(checkpoint, batch, operator, spark), aggregates)


def read_checkpoint(
    checkpoint: str | PathLike[str],
    batch: int | None = None,
    operator: int = 0,
    spark: SparkSession | None = None,
) -> StateSnapshot:
    """Read a checkpoint as of one batch; the folder determines which host wrote it."""
    folder = fspath(checkpoint)
    if "://" not in folder:
        refuse_other_folder(folder)
        if is_local_checkpoint(folder):
            return LogSnapshot(folder, batch, operator)
    from muntin.spark.host.checkpoint import Checkpoint
    from muntin.spark.session import active_session

    return Checkpoint(active_session(spark), folder, batch, operator)


def report_checkpoint(
    opened: StateSnapshot, key: Sequence[str] = (), table: str | None = None
) -> StateReport:
    """Report the contents of a checkpoint of either host, as `report_state` describes them."""
    if opened.any_manifest.kind == "tables":
        from muntin.spark.inspect.checkpoints import report_tables

        report = report_tables(opened, key, table)  # type: ignore[arg-type]
    else:
        report = report_state(opened, key, table)
    waits = read_waits(opened.read_lease())
    return report | {"waits": waits} if waits else report


def explain_checkpoint(
    opened: StateSnapshot, key: Sequence[str], at: str | None, table: str | None = None
) -> list[str]:
    """Explain why a key's windows, messages or entries have emitted, or haven't, on either host.

    See `explain_state`. The first line is what the running query waits for, if it waits.
    """
    waits = read_waits(opened.read_lease())
    lines = [f"waiting    {waits.removeprefix('waiting ')}"] if waits else []
    if opened.any_manifest.kind == "tables":
        from muntin.spark.inspect.checkpoints import explain_tables

        return lines + explain_tables(opened, key, at, table)  # type: ignore[arg-type]
    return lines + explain_state(opened, key, at, table)
