"""Lists the files of a folder or a pattern."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import NamedTuple

_ANY_FOLDERS = "**"
_HIDDEN = ("_", ".")
Failed = Callable[[OSError], None]


class ListedFile(NamedTuple):
    """A file in a listing.

    Attributes:
        time: Time of its last modification, in nanoseconds.
    """

    time: int
    path: str
    size: int


def list_files(pattern: str, failed: Failed | None = None) -> Iterator[ListedFile]:
    """Yield the files of a folder or a pattern by absolute paths, without hidden ones.

    A pipe or a device isn't a file, since reading one could wait forever.

    Args:
        pattern: A folder or a pattern.
        failed: Called with the error of each folder that can't be listed.
    """
    pattern = os.path.abspath(pattern)
    for path in _find_paths(pattern, failed):
        if os.path.basename(path).startswith(_HIDDEN):
            continue
        try:
            status = os.stat(path)
        except OSError:  # it was removed meanwhile
            continue
        if stat.S_ISREG(status.st_mode):
            yield ListedFile(status.st_mtime_ns, path, status.st_size)


def _find_paths(pattern: str, failed: Failed | None) -> Iterator[str]:
    if os.path.isdir(pattern):
        yield from _walk(pattern, failed)
        return
    parts = pattern.split(os.sep)
    if failed is not None:
        _check_folder(parts, failed)
    if _ANY_FOLDERS not in parts:
        yield from glob.iglob(pattern)
        return
    first = parts.index(_ANY_FOLDERS)
    for folder in glob.iglob(os.sep.join(parts[:first]) or os.sep):
        for path in _walk(folder, failed):
            if _matches(os.path.relpath(path, folder).split(os.sep), parts[first:]):
                yield path


def _check_folder(parts: Sequence[str], failed: Failed) -> None:
    """Open the folder that a pattern names, since `glob` keeps quiet about errors."""
    plain = takewhile(lambda part: not glob.has_magic(part), parts)
    try:
        os.scandir(os.sep.join(plain) or os.sep).close()
    except NotADirectoryError:  # it is a file
        pass
    except OSError as error:
        failed(error)


def _walk(folder: str, failed: Failed | None) -> Iterator[str]:
    """Yield the files below a folder. Links are followed, but into no folder a second time.

    Two links to the folder that they are in would lead to endless paths. Folders themselves come
    before links to them, so that a new link doesn't give a file another path.
    """

    def report(error: OSError) -> None:
        # A folder may have been removed meanwhile.
        if failed is not None and not isinstance(error, FileNotFoundError):
            failed(error)

    visited: set[tuple[int, int]] = set()
    tops = [folder]
    for top in tops:
        for path, folders, names in os.walk(top, onerror=report):
            try:
                status = os.stat(path)
            except OSError:  # it was removed meanwhile
                continue
            if (identity := (status.st_dev, status.st_ino)) in visited:
                folders.clear()
                continue
            visited.add(identity)
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            inner = (os.path.join(path, name) for name in folders)
            tops += [link for link in inner if os.path.islink(link)]
            yield from (os.path.join(path, name) for name in names)


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether the parts of a path match those of a pattern; ``**`` is any folders."""
    if not pattern:
        return not parts
    if pattern[0] == _ANY_FOLDERS:
        return any(_matches(parts[number:], pattern[1:]) for number in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])
