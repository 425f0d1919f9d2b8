"""Failures of user code in a batch, reported with the user's own exception first."""

from __future__ import annotations

import builtins
import os
import re
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from muntin.model.errors import BatchError, MuntinError
from muntin.model.secrets import redact

TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>\S+)', re.M)
_RAISED = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
# Packages whose frames stand between a user's code and a host.
_PACKAGES = "pyspark|py4j|polars|pyarrow|pandas|numpy"
_ENGINES = re.compile(rf"/({_PACKAGES})(\.zip)?/|/lib/python3[^/]*/(?!site-pack)")
_OWN = str(Path(__file__).parents[1])
_FILES: list[Path] = []


@dataclass(frozen=True)
class Failure:
    """An exception that user code raised.

    Attributes:
        batch: The number of the batch.
        part: The part of the query that failed, such as a sink.
        location: The innermost frame of the user's code: file, line and function.
    """

    batch: int
    part: str
    kind: str
    message: str
    location: str
    trace: str

    @classmethod
    def of(
        cls, error: Exception, batch: int, part: str, *, trace: str = "", is_users: bool = False
    ) -> Failure | None:
        """Return the failure of a batch; ``None`` where no user code is in the traceback.

        Args:
            error: The exception.
            batch: The number of the batch.
            part: The part of the query that failed.
            trace: The traceback, if the exception is one of another process.
            is_users: Whether the exception is of user code wherever it was raised.
        """
        kind, message = _parse_exception(trace) if trace else (type(error).__name__, str(error))
        trace = trace or "".join(traceback.format_exception(error))
        location = _find_user_frame(trace, is_users)
        return cls(batch, part, kind, message, location, trace) if location else None

    def rebuild(self) -> Exception:
        """Rebuild an exception of another process; its class is kept if it is a built-in one."""
        error = Exception(f"{self.kind}: {self.message}")
        kind = getattr(builtins, self.kind, None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            with suppress(TypeError):  # some classes need more arguments than a message
                error = kind(self.message)
        error.add_note(self.trace)
        return error

    def to_error(self) -> BatchError:
        """Return the error that `await_end` raises."""
        message = f"{self.kind}: {self.message}" if self.message else self.kind
        return BatchError(message, self.batch, self.part, self.location)


@contextmanager
def report_failures(batch: int, part: str, *, is_users: bool = False) -> Iterator[None]:
    """Raise an exception of user code in the context as an error that names its line.

    Args:
        batch: The number of the batch.
        part: The part of the query that runs.
        is_users: Whether any exception is one of user code.

    Raises:
        BatchError: When user code raised.
    """
    try:
        yield
    except MuntinError:
        raise
    except Exception as error:
        failure = Failure.of(error, batch, part, is_users=is_users)
        if failure is None:
            raise
        raise failure.to_error() from error


def _parse_exception(text: str) -> tuple[str, str]:
    """Return the class and the message of the exception that a traceback ends with."""
    lines = text.rpartition(TRACEBACK)[2].split("\n")
    for number, line in enumerate(lines):
        match = _RAISED.match(line)
        if match:
            # A note may tell where a function is.
            notes = (line for line in lines[number + 1 :] if not _FRAME.match(line))
            rest = [match["message"] or "", *notes]
            message = "\n".join(rest).partition("\n SQLSTATE")[0].strip()
            return match["kind"].rpartition(".")[2], message
    return "Exception", text.strip().partition("\n")[0]


def _find_user_frame(text: str, is_users: bool) -> str:
    """Return the innermost frame of the user's code: the file, the line and the function."""
    every = [*_FRAME.finditer(text)]
    frames = [f for f in every if not _is_ours(f["file"])] or (every if is_users else [])
    if not frames:
        return ""
    last = frames[-1]
    return f"{last['file']}:{last['line']}, in {last['name']}"


def _is_ours(file: str) -> bool:
    return file.startswith((_OWN, "<frozen")) or _ENGINES.search(file) is not None


def append_details(text: str) -> Path | None:
    """Append a text without its secrets to a file that only this user can read.

    Returns:
        The file, which is created by the first text; ``None`` if it can't be written.
    """
    try:
        if not _FILES:
            handle, path = tempfile.mkstemp(prefix="muntin-", suffix=".log")
            os.close(handle)
            _FILES.append(Path(path))
        with open(_FILES[0], "a", errors="replace") as file:
            file.write(redact(text))
    except OSError:
        return None
    return _FILES[0]
