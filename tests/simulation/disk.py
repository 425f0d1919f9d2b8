"""A disk that loses unflushed data when the power is cut.

The files are real ones, in memory if the machine has such a folder. The log's own code writes
them; its calls of the operating system go through this module, which may interrupt any call, and
records which data is flushed.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from muntin.hosts.local import checkpoint, log

# Decides what becomes of a call, by its name: nothing, or an exception to raise.
Interrupt = Callable[[str], BaseException | None]


class Disk:
    """The files of one folder.

    Args:
        folder: The folder.
        interrupt: Called before each call of the operating system.
    """

    def __init__(self, folder: Path, interrupt: Interrupt) -> None:
        self.folder = folder
        self._interrupt = interrupt
        # The flushed bytes of each file, and functions that undo the changes of the folder since
        # its last flush.
        self._flushed: dict[str, int] = {}
        self._undo: list[Callable[[], object]] = []
        self._names: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open_file(self, path: Path, mode: str, buffering: int = -1) -> Any:
        """Open a file, as the built-in function does."""
        if "x" in mode:
            self._raise_if_interrupted("create")
            self._undo.append(partial((self.folder / path.name).unlink, missing_ok=True))
        file = open(path, mode, buffering)  # noqa: SIM115
        self._names[file.fileno()] = path.name
        return file

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write data, or only a part of it if the call is interrupted."""
        error = self._interrupt("write")
        if error is not None:
            os.write(descriptor, data[: random.Random(len(data)).randint(0, len(data) - 1)])
            raise error
        return os.write(descriptor, data)

    def fdatasync(self, descriptor: int) -> None:
        """Flush a file."""
        self._raise_if_interrupted("flush")
        self._flushed[self._names[descriptor]] = os.fstat(descriptor).st_size

    def fsync(self, descriptor: int) -> None:
        """Flush the folder; files are flushed by ``fdatasync``."""
        self._raise_if_interrupted("flush of the folder")
        self._undo.clear()

    def remove(self, path: Path, missing_ok: bool = False) -> None:
        """Delete a file."""
        if missing_ok and not path.exists():
            return
        self._raise_if_interrupted("remove")
        self._undo.append(partial((self.folder / path.name).write_bytes, path.read_bytes()))
        os.unlink(path)

    def rename(self, path: Path, target: Path) -> None:
        """Give a file another name."""
        self._raise_if_interrupted("rename")
        os.rename(path, target)
        self._undo.append(partial(os.rename, target, path))
        self._flushed[target.name] = self._flushed.pop(path.name, 0)
        new_names = {path.name: target.name}
        self._names = {file: new_names.get(name, name) for file, name in self._names.items()}

    def _raise_if_interrupted(self, name: str) -> None:
        error = self._interrupt(name)
        if error is not None:
            raise error

    def lose_power(self, dice: random.Random) -> None:
        """Lose a part of the unflushed data."""
        for path in sorted(self.folder.glob("*.log")):
            size, flushed = path.stat().st_size, self._flushed.get(path.name, 0)
            if size > flushed:
                _lose_tail(path, flushed, size, dice)
        # A folder's changes reach the disk in their order.
        for undo in reversed(self._undo[dice.randint(0, len(self._undo)) :]):
            undo()
        self._undo.clear()
        for path in self.folder.glob("*.log"):
            self._flushed[path.name] = path.stat().st_size


def _lose_tail(path: Path, flushed: int, size: int, dice: random.Random) -> None:
    with open(path, "r+b") as file:
        if dice.random() < 0.3:
            # The file has its final size, but its last blocks are empty.
            file.seek(dice.randint(flushed, size))
            file.write(bytes(size - file.tell()))
        else:
            file.truncate(dice.randint(flushed, size))


def make_disk_full_error() -> OSError:
    """Return the error of a call when the disk is full."""
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def attach_disk(disk: Disk) -> Iterator[None]:
    """Make the log and the checkpoint use this disk."""

    class DiskPath(type(Path())):  # type: ignore[misc]
        attached_to: ClassVar[Disk] = disk

        def unlink(self, missing_ok: bool = False) -> None:
            self.attached_to.remove(Path(self), missing_ok)

        def rename(self, target: Any) -> Any:
            self.attached_to.rename(Path(self), Path(target))
            return target

    with ExitStack() as patches:
        for module, name, value in (
            (log, "os", disk),
            (log, "open", disk.open_file),
            (checkpoint, "Path", DiskPath),
        ):
            patches.enter_context(mock.patch.object(module, name, value, create=True))
        yield
