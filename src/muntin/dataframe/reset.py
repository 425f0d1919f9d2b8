"""`reset_watermark`: sets back the watermark of a stopped query."""

from __future__ import annotations

from datetime import date, datetime
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from muntin.hosts.local.reset import reset_folder
from muntin.hosts.local.state import is_local_checkpoint
from muntin.hosts.reset import WatermarkReset
from muntin.model.axis import parse_time
from muntin.model.errors import OptionError
from muntin.model.option_types import check_boolean

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def reset_watermark(
    checkpoint: str | PathLike[str],
    *,
    to: datetime | date | str,
    dry_run: bool = False,
    spark: SparkSession | None = None,
) -> WatermarkReset:
    """Set back the watermark of a stopped query, after a message that lay far ahead.

    The watermark and the clocks of partitions that lie after `to` become `to`, in all operators of
    the query; those before stay. Messages are judged by it from the next start on. An interruption
    leaves the query as it was.

    - Windows that had ended and still have their messages take more. If they begin at or after
      `to` they emit in full again, else in revisions of late messages.
    - Windows that began before `to` and had closed stay closed, since their messages are gone.
    - All other windows are open. So `to` must not lie before the latest right message that was
      counted: a window after it whose messages are gone begins without them.
    - The revisions of windows that had ended are greater than all earlier ones, until the
      watermark is as far as it was.
    - A join finds no partners that it has dropped: pairs whose messages both lie at or after `to`
      are whole.
    - Messages that were rejected as late stay rejected.

    Args:
        checkpoint: The folder of the stopped query, on either host.
        to: The new watermark; without a zone it is in UTC.
        dry_run: Whether to change nothing, and only return what would be changed.
        spark: The session for a checkpoint of Spark; by default the active one, or a new
            `muntin.session()`.

    Returns:
        The changes; `lines()` has them as sentences.

    Raises:
        OptionError: When the query runs, `to` isn't before any of its watermarks, a batch began and
            didn't end, or the query has no windows in time. Where a window would emit again and its
            readers add up (deltas, windows of windows), the time is refused, too.
        StateCorruptedError: When the checkpoint is damaged.

    Example:
        >>> reset_watermark("checkpoints/views", to="2026-01-01 09:10")  # doctest: +SKIP
    """
    check_boolean("dry_run", dry_run)
    folder, moment = fspath(checkpoint), parse_time("to", to)
    is_here = "://" not in folder
    if is_here and not Path(folder).is_dir():
        hint = "give the folder of start(checkpoint=…)"
        raise OptionError("CHECKPOINT", folder, "isn't a folder", hint)
    if is_here and is_local_checkpoint(folder):
        return reset_folder(folder, moment, dry_run=dry_run)
    from muntin.spark.reset import reset_checkpoint
    from muntin.spark.session import active_session

    return reset_checkpoint(active_session(spark), folder, moment, dry_run=dry_run)
