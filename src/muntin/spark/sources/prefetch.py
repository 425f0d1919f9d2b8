"""Frames that a worker reads before their task starts, shared by the workers of a machine.

While the driver plans and commits a batch, a worker reads the ranges of the next one. Spark runs a
task in any of its workers, so the frames are stored in files, which the worker that gets the task
reads. Only speed depends on them: a task reads its ranges itself if the frames are missing.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

import polars as pl

# Spark sets it for its workers; it deletes these folders when it ends.
_FOLDERS = "SPARK_LOCAL_DIRS"
_LOCK, _END = "lock", "end"
# How long to wait before looking for the next frame again, seconds.
_WAIT = 0.001
# How long to wait for the next frame before reading the ranges again, seconds.
_PATIENCE = 5.0
# Frames that no task has taken for so long are deleted, seconds.
_UNUSED = 60.0

Read = Callable[[], Iterator[pl.DataFrame]]


class PrefetchFolder:
    """A folder of frames by the ranges that they were read from.

    The worker that reads ranges holds a lock while it does, and stores the number of frames at the
    end.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, ranges: Sequence[Any], read: Read) -> None:
        """Read ranges in a thread, and store their frames, unless the folder can't be written."""
        self._delete_unused()
        path = self._path_of(ranges)
        with suppress(OSError):
            path.mkdir(0o700, parents=True)
            lock = (path / _LOCK).open("w")
            fcntl.flock(lock, fcntl.LOCK_EX)
            _pool().submit(_store, path, lock, read)

    def take(self, ranges: Sequence[Any], read: Read) -> Iterator[pl.DataFrame]:
        """Yield the stored frames of ranges, and ``read`` the rows of those that aren't."""
        taken = _Taken()
        yield from taken.take(self._path_of(ranges))
        if not taken.is_complete:
            yield from _skip(read(), taken.rows)

    def _path_of(self, ranges: Sequence[Any]) -> Path:
        return self.folder / hashlib.sha256(json.dumps(ranges).encode()).hexdigest()[:32]

    def _delete_unused(self) -> None:
        with suppress(OSError):
            for path in self.folder.iterdir():
                if path.stat().st_mtime < time.time() - _UNUSED and not _is_locked(path):
                    shutil.rmtree(path, ignore_errors=True)


def open_prefetch_folder() -> PrefetchFolder | None:
    """Return the folder that the workers of this machine share; ``None`` outside of a worker."""
    folders = os.environ.get(_FOLDERS, "").split(",")
    return PrefetchFolder(Path(folders[0], "muntin-prefetch")) if folders[0] else None


class _Taken:
    """The frames that a task takes from a folder."""

    def __init__(self) -> None:
        self.rows = 0
        self.is_complete = False

    def take(self, path: Path) -> Generator[pl.DataFrame]:
        """Yield the frames in a folder as they are stored, until the last one."""
        number = 0
        while (frame := self._wait_for(path, number)) is not None:
            self.rows += len(frame)
            number += 1
            yield frame
        shutil.rmtree(path, ignore_errors=True)

    def _wait_for(self, path: Path, number: int) -> pl.DataFrame | None:
        part, deadline = path / str(number), time.monotonic() + _PATIENCE
        while True:
            # The order matters: a frame is stored before the end is, and the end before the lock is
            # released.
            is_locked = _is_locked(path)
            with suppress(OSError, ValueError):
                self.is_complete = int((path / _END).read_text()) == number
            if self.is_complete:
                return None
            with suppress(OSError):
                frame = pl.read_ipc(part)
                part.unlink()
                return frame
            if not is_locked or time.monotonic() > deadline:
                return None
            time.sleep(_WAIT)


def _store(path: Path, lock: IO[str], read: Read) -> None:
    # The task that needs the frames reads the ranges itself if this fails, and raises the error.
    with lock, suppress(Exception):
        count = 0
        unfinished = path / "unfinished"
        for count, frame in enumerate(read(), 1):
            frame.write_ipc(unfinished)
            unfinished.rename(path / str(count - 1))
        unfinished.write_text(str(count))
        unfinished.rename(path / _END)


def _is_locked(path: Path) -> bool:
    try:
        with (path / _LOCK).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _skip(frames: Iterator[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    for frame in frames:
        if rows < len(frame):
            yield frame[rows:]
        rows = max(0, rows - len(frame))


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "muntin-prefetch")
