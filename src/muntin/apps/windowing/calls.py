"""Calls from outside to delete the oldest rows, which are passed and answered through a folder.

A call is a JSON file. The running query reads the folder as a stream, so a call is part of
its batch's offsets: it deletes once, and the same rows again if the batch is repeated.

Source: the VoltDB windowing example application, whose deleter calls a procedure for each partition
until nothing is left to delete.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from muntin.apps.windowing.table_shard import TableProgress
from muntin.model.errors import MuntinError, OptionError

CALL_COLUMNS = "id string, before bigint, shardrows bigint, most bigint"
# Spark's file reader ignores names that start with an underscore.
_ANSWER_FOLDER = "_answers"
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Deletion:
    """The result of a call.

    Attributes:
        deleted: Number of deleted rows.
        left: Number of further matching rows, if the call limited how many to delete.
    """

    deleted: int
    left: int


def delete(
    folder: str | Path,
    *,
    before: datetime | None = None,
    historyseconds: float | None = None,
    shardrows: int | None = None,
    most: int | None = None,
    patience: float = 30.0,
) -> Deletion:
    """Let the running application delete its oldest rows, and wait for the result.

    Rows are deleted once, with a batch. If two limits are given, rows beyond
    either are deleted. To bound the size of a batch give ``most``, and call again until nothing is
    left.

    Args:
        folder: The folder that the application was started with (``deletes``).
        before: Delete rows older than this; without a zone it is UTC.
        historyseconds: Delete rows of at least this age, by this machine's clock.
        shardrows: Delete all rows but the newest ``shardrows`` of each shard.
        most: The maximum number of rows each shard deletes, the oldest first; unlimited by
            default.
        patience: How many seconds to wait.

    Raises:
        OptionError: When no limit is given, a number is too small, or there is no folder.
        MuntinError: When the application hasn't answered in time; the call stays, and is executed
            when the application runs.
    """
    call_folder = Path(folder)
    name = _write_call(call_folder, _find_age_limit(before, historyseconds), shardrows, most)
    until = time.monotonic() + patience
    answer = call_folder / _ANSWER_FOLDER / f"{name}.json"
    while time.monotonic() < until:
        if answer.exists():
            deletion = Deletion(**json.loads(answer.read_text()))
            answer.unlink()
            return deletion
        time.sleep(_POLL_SECONDS)
    raise MuntinError(
        f"no application has taken the call within {patience:g} s: it stays in {call_folder}, "
        "and is taken when one runs with that folder; give more patience, or look whether it runs"
    )


def _find_age_limit(before: datetime | None, historyseconds: float | None) -> int | None:
    """Return the time in milliseconds before which rows are too old."""
    limits = []
    if before is not None:
        aware = before if before.tzinfo else before.replace(tzinfo=UTC)
        limits.append(round(aware.timestamp() * 1000))
    if historyseconds is not None:
        if historyseconds < 0:
            raise OptionError("historyseconds", historyseconds, "is less than 0", "give 0 or more")
        limits.append(time.time_ns() // 1_000_000 - round(historyseconds * 1000) + 1)
    return max(limits, default=None)


def _write_call(folder: Path, before: int | None, shardrows: int | None, most: int | None) -> str:
    """Write a call atomically; return its name."""
    if before is None and shardrows is None:
        hint = "give before, historyseconds or shardrows"
        raise OptionError("delete", None, "names no rows", hint)
    for option, value, least in (("shardrows", shardrows, 0), ("most", most, 1)):
        if value is not None and value < least:
            raise OptionError(option, value, f"is less than {least}", f"give {least} or more")
    if not folder.is_dir():
        hint = "give the folder that the application was started with"
        raise OptionError("deletes", str(folder), "isn't a folder", hint)
    # Names sort by the time of the call.
    name = f"{time.time_ns()}-{uuid.uuid4().hex[:8]}"
    call = {"id": name, "before": before, "shardrows": shardrows, "most": most}
    unfinished = folder / f".{name}"
    unfinished.write_text(json.dumps(call))
    unfinished.rename(folder / f"{name}.json")
    return name


def answer_calls(folder: str, progress: Iterable[TableProgress]) -> None:
    """Answer the calls of a batch; again if the batch is repeated."""
    deletions: dict[str, Deletion] = {}
    for name, deleted, left in (one for table in progress for one in table.answers):
        previous = deletions.get(name, Deletion(0, 0))
        deletions[name] = Deletion(previous.deleted + deleted, previous.left + left)
    answer_folder = Path(folder) / _ANSWER_FOLDER
    for name, deletion in deletions.items():
        answer_folder.mkdir(exist_ok=True)
        unfinished = answer_folder / f".{name}"
        unfinished.write_text(json.dumps(asdict(deletion)))
        unfinished.rename(answer_folder / f"{name}.json")
