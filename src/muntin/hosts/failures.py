"""Failures of user code in a batch, reported with the user's own exception first.

Spark wraps an exception of a sink, a function, an agent or an aggregate into several of its own,
and sends exceptions of workers as text.
"""

from __future__ import annotations

import builtins
import re
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import PythonException

from muntin.model.errors import BatchError
from muntin.spark.host.internals.jvm import PACKAGES

_BEGIN = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>\S+)', re.M)
_RAISED = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
# Packages whose frames stand between a user's code and Spark.
_PACKAGES = "|".join((*PACKAGES, "polars", "pyarrow", "pandas", "numpy"))
_ENGINES = re.compile(rf"/({_PACKAGES})(\.zip)?/|/lib/python3[^/]*/(?!site-pack)")
_OWN = str(Path(__file__).parents[1])


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
    def of(cls, error: Exception, batch: int, part: str) -> Failure | None:
        """Return the failure of a batch; ``None`` where no user code is in the traceback."""
        if isinstance(error, PythonException):
            trace = str(error)
            kind, message = _parse_exception(trace)
        else:
            trace = "".join(traceback.format_exception(error))
            kind, message = type(error).__name__, str(error)
        location = _find_user_frame(trace)
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


def _parse_exception(text: str) -> tuple[str, str]:
    """Return the class and the message of the exception that a traceback ends with."""
    lines = text.rpartition(_BEGIN)[2].split("\n")
    for number, line in enumerate(lines):
        match = _RAISED.match(line)
        if match:
            rest = [match["message"] or "", *lines[number + 1 :]]
            message = "\n".join(rest).partition("\n SQLSTATE")[0].strip()
            return match["kind"].rpartition(".")[2], message
    return "Exception", text.strip().partition("\n")[0]


def _find_user_frame(text: str) -> str:
    """Return the innermost frame of the user's code: the file, the line and the function."""
    frames = [f for f in _FRAME.finditer(text) if not _is_ours(f["file"])]
    if not frames:
        return ""
    last = frames[-1]
    return f"{last['file']}:{last['line']}, in {last['name']}"


def _is_ours(file: str) -> bool:
    return file.startswith((_OWN, "<frozen")) or _ENGINES.search(file) is not None
