"""`open_state` and the reports on the state of a query, whichever host runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING

from muntin.hosts.inspect.opening import open_snapshot
from muntin.hosts.inspect.report import Report, report_state
from muntin.hosts.inspect.snapshot import Snapshot
from muntin.hosts.inspect.why import explain_state
from muntin.hosts.local.state import LogSnapshot, is_local_checkpoint
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
    return open_snapshot(read_checkpoint(checkpoint, batch, operator, spark), aggregates)


def read_checkpoint(
    checkpoint: str | PathLike[str],
    batch: int | None = None,
    operator: int = 0,
    spark: SparkSession | None = None,
) -> Snapshot:
    """Read a checkpoint as of one batch; the folder says which host wrote it.

    Raises:
        OptionError: When it is no checkpoint, or has no such batch or operator.
    """
    folder = fspath(checkpoint)
    if "://" not in folder and is_local_checkpoint(folder):
        return LogSnapshot(folder, batch, operator)
    from muntin.spark.host.checkpoint import Checkpoint
    from muntin.spark.session import active_session

    return Checkpoint(active_session(spark), folder, batch, operator)


def report_checkpoint(
    opened: Snapshot, key: Sequence[str] = (), table: str | None = None
) -> Report:
    """Report what a checkpoint holds; see `report_state`.

    Args:
        opened: The checkpoint.
        key: A key's values as text, in the order of its columns.
        table: Of which table, where agents keep several.

    Raises:
        OptionError: When the checkpoint or the key can't be what is asked for.
    """
    if isinstance(opened, LogSnapshot):
        return report_state(opened, key, table)
    from muntin.spark.inspect.checkpoints import report_of

    return report_of(opened, key, table)  # type: ignore[arg-type]


def explain_checkpoint(
    opened: Snapshot, key: Sequence[str], at: str, table: str | None = None
) -> list[str]:
    """Explain why a key's windows, messages or entries have emitted, or not; see `explain_state`.

    Args:
        opened: The checkpoint.
        key: The key's values as text, in the order of its columns.
        at: A time in UTC, an offset or a number, as text.
        table: Which of several tables of agents.

    Raises:
        OptionError: When the checkpoint, the key or the position can't be what is asked for.
    """
    if isinstance(opened, LogSnapshot):
        return explain_state(opened, key, at, table)
    from muntin.spark.inspect.checkpoints import reasons

    return reasons(opened, key, at, table)  # type: ignore[arg-type]
