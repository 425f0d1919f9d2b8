"""Calls from outside to delete the oldest rows: left in a folder, and answered there.

A call is a file of JSON. The running query reads the folder as a stream, so that a call is part of
its batch's offsets: it deletes once, and the same again where the batch is repeated.

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

from muntin.apps.windowing.bucket import TableProgress
from muntin.model.errors import MuntinError, OptionError

COLUMNS = "id string, before bigint, bucketrows bigint, most bigint"
# Spark's reader of files leaves out what begins so.
_ANSWERS = "_answers"
_LOOK_EVERY = 0.05


@dataclass(frozen=True)
class Deletion:
    """What a call has done.

    Attributes:
        deleted: How many rows it deleted.
        left: How many more it had named, where it said how many to delete at most.
    """

    deleted: int
    left: int


def delete(
    folder: str | Path,
    *,
    before: datetime | None = None,
    historyseconds: float | None = None,
    bucketrows: int | None = None,
    most: int | None = None,
    patience: float = 30.0,
) -> Deletion:
    """Have the running application delete its oldest rows, and wait until it has.

    What it deletes is deleted once, and with a batch. Where two limits are given, rows beyond
    either go. To bound what a batch deletes give ``most``, and call again until nothing is left.

    Args:
        folder: The folder that the application was started with (``deletes``).
        before: Rows that are older go; without a zone it is UTC.
        historyseconds: Rows that are so old by this machine's clock go, or older.
        bucketrows: Of each bucket all rows go but the newest so many.
        most: How many rows each bucket deletes at most, the oldest first; any number where it isn't
            given.
        patience: How many seconds to wait.

    Raises:
        OptionError: When no limit is given, a number is less than it can be, or there is no folder.
        MuntinError: When the application hasn't answered in time; the call stays, and is taken when
            it runs.
    """
    place = Path(folder)
    name = _leave(place, _limit(before, historyseconds), bucketrows, most)
    until = time.monotonic() + patience
    answer = place / _ANSWERS / f"{name}.json"
    while time.monotonic() < until:
        if answer.exists():
            found = Deletion(**json.loads(answer.read_text()))
            answer.unlink()
            return found
        time.sleep(_LOOK_EVERY)
    raise MuntinError(
        f"no application has taken the call within {patience:g} s: it stays in {place}, and is "
        "taken when one runs with that folder; give more patience, or look whether it runs"
    )


def _limit(before: datetime | None, historyseconds: float | None) -> int | None:
    """Before which millisecond rows are too old."""
    limits = []
    if before is not None:
        aware = before if before.tzinfo else before.replace(tzinfo=UTC)
        limits.append(round(aware.timestamp() * 1000))
    if historyseconds is not None:
        if historyseconds < 0:
            raise OptionError("historyseconds", historyseconds, "is less than 0", "give 0 or more")
        limits.append(time.time_ns() // 1_000_000 - round(historyseconds * 1000) + 1)
    return max(limits, default=None)


def _leave(folder: Path, before: int | None, bucketrows: int | None, most: int | None) -> str:
    """Leave a call, whole; returns its name."""
    if before is None and bucketrows is None:
        hint = "give before, historyseconds or bucketrows"
        raise OptionError("delete", None, "names no rows", hint)
    for option, value, least in (("bucketrows", bucketrows, 0), ("most", most, 1)):
        if value is not None and value < least:
            raise OptionError(option, value, f"is less than {least}", f"give {least} or more")
    if not folder.is_dir():
        hint = "give the folder that the application was started with"
        raise OptionError("deletes", str(folder), "isn't a folder", hint)
    # In the order of their names they are as old as their calls.
    name = f"{time.time_ns()}-{uuid.uuid4().hex[:8]}"
    call = {"id": name, "before": before, "bucketrows": bucketrows, "most": most}
    unfinished = folder / f".{name}"
    unfinished.write_text(json.dumps(call))
    unfinished.rename(folder / f"{name}.json")
    return name


def answer(folder: str, progress: Iterable[TableProgress]) -> None:
    """Answer the calls that a batch has taken; again where it is repeated."""
    found: dict[str, Deletion] = {}
    for name, deleted, left in (one for table in progress for one in table.answers):
        known = found.get(name, Deletion(0, 0))
        found[name] = Deletion(known.deleted + deleted, known.left + left)
    place = Path(folder) / _ANSWERS
    for name, deletion in found.items():
        place.mkdir(exist_ok=True)
        unfinished = place / f".{name}"
        unfinished.write_text(json.dumps(asdict(deletion)))
        unfinished.rename(place / f"{name}.json")
