"""Notices that parts of a checkpoint were deleted or replaced while its query ran.

Without its own folders Spark can't resume a query: offsets, commits, the log of files that were
read, and the state, which has a folder for each operator with one for each shard in it. An object
store has no folders, so there the files are watched that Spark writes once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from muntin.hosts.leases import CHECKPOINT_REPLACED
from muntin.model.errors import LeaseLostError
from muntin.spark.host.internals.hadoop_path import HadoopPath
from muntin.spark.host.internals.jvm import JvmError

# Each folder takes a file descriptor; beyond so many, those of further shards aren't watched.
_MOST_FOLDERS = 256
_POLL_SECONDS = 0.01
# How often an object store is asked at most, in seconds.
_STORE_SECONDS = 10.0


class WatchedFolders(Protocol):
    """The part of a checkpoint that a running query needs."""

    def check(self) -> None:
        """Refuse to continue if a part of it is gone or another one.

        Raises:
            LeaseLostError: When one is.
        """

    def await_commit(self, batch: int, seconds: float) -> None:
        """Wait until a batch that was written is committed, at most some seconds."""

    def read_offsets(self, batch: int) -> list[str]:
        """Return the end offset of each source in a batch, as JSON; none if they can't be read."""

    def close(self) -> None:
        """Watch it no more."""


def watch_folders(home: HadoopPath) -> WatchedFolders:
    """Watch the folder of Spark's own files of a query, on a disk or in an object store."""
    local = home.local
    return StoredFolders(home) if local is None else CheckpointFolders(local)


class StoredFolders:
    """The files in an object store that Spark writes once: the query's name and its operators'.

    Spark would write further files of the state beside those that are gone, and only the next start
    would miss them.

    Args:
        home: The folder of Spark's own files of the query.
    """

    def __init__(self, home: HadoopPath) -> None:
        self._home = home
        self._written: list[HadoopPath] = []
        self._last_check = 0.0

    def check(self) -> None:
        """Refuse to continue if a file is gone, every few seconds; watch those that are new."""
        if time.monotonic() - self._last_check < _STORE_SECONDS:
            return
        self._last_check = time.monotonic()
        # If the store doesn't answer, Spark's own requests fail, too.
        with suppress(JvmError):
            for path in self._written:
                if not path.exists():
                    raise LeaseLostError(
                        f"{path} was deleted while the query ran. Restore the checkpoint from a "
                        "copy, or start with a new one"
                    )
            operators = (one / "_metadata" for one in (self._home / "state").children())
            expected = [self._home / "metadata", *operators]
            self._written = [path for path in expected if path.exists()]

    def await_commit(self, batch: int, seconds: float) -> None:
        """Return at once: a batch that isn't committed is repeated."""

    def read_offsets(self, batch: int) -> list[str]:
        """Return the end offset of each source in a batch, as JSON; none if they can't be read."""
        with suppress(JvmError):
            return _skip_head((self._home / "offsets" / str(batch)).read())
        return []

    def close(self) -> None:
        """Do nothing, since no resource is held."""


class CheckpointFolders:
    """The folders in which Spark writes a query's offsets and state, on a local or mounted disk.

    Spark creates missing folders anew and goes on, and only the next start would miss what was in
    them. Each folder is held open, so that no new one can get its inode.

    Args:
        home: The folder of Spark's own files of the query.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._open: dict[Path, int] = {}

    def check(self) -> None:
        """Refuse to continue if a folder is gone or another one; watch those that are new.

        Raises:
            LeaseLostError: When one is.
        """
        for path, descriptor in self._open.items():
            try:
                is_same = os.path.samestat(os.stat(path), os.fstat(descriptor))
            except (FileNotFoundError, NotADirectoryError):
                is_same = False
            if not is_same:
                raise LeaseLostError(CHECKPOINT_REPLACED)
        for path in _list_folders(self._home):
            if path not in self._open and len(self._open) < _MOST_FOLDERS:
                with suppress(OSError):
                    self._open[path] = os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def await_commit(self, batch: int, seconds: float) -> None:
        """Wait until a batch that was written is committed, at most some seconds."""
        deadline, commit = time.monotonic() + seconds, self._home / "commits" / str(batch)
        while batch >= 0 and not commit.exists() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def read_offsets(self, batch: int) -> list[str]:
        """Return the end offset of each source in a batch, as JSON; none if they can't be read.

        Each batch waits for this, and to read a file through the JVM takes dozens of calls.
        """
        with suppress(OSError, ValueError):
            return _skip_head((self._home / "offsets" / str(batch)).read_text("utf-8"))
        return []

    def close(self) -> None:
        """Watch no folder any more."""
        while self._open:
            os.close(self._open.popitem()[1])


def _skip_head(planned: str) -> list[str]:
    """Return the lines of sources in the file of a planned batch, which follow two others."""
    return planned.split("\n")[2:]


def _list_folders(home: Path) -> Iterator[Path]:
    """Yield the folders that exist, the upper ones first."""
    for one in ("offsets", "commits"):
        yield home / one
    for top, levels in (("sources", 1), ("state", 2)):
        folders = [home / top]
        yield from folders
        for _ in range(levels):
            folders = [path for folder in folders for path in _list_children(folder)]
            yield from folders


def _list_children(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [Path(one.path) for one in entries if one.is_dir(follow_symlinks=False)]
    except OSError:
        return []
