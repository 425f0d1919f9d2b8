"""Filters useless lines out of the JVM's stderr.

When Spark starts, it prints which logging profile it uses and that it has no native Hadoop library.
For each batch with state it starts a Python process that prints each of its steps. Sometimes a
socket that is closed twice causes a harmless NullPointerException, and a process for Python workers
that Spark no longer needs prints a BrokenPipeError, or that it finds no socket. Of a
StackOverflowError in a stopped query's thread only the first line says something. Loggers can't be
configured to omit these lines, or aren't set up yet. So a JVM that muntin starts writes to a pipe,
and a thread copies all other lines to stderr. Of an error with a Java trace it copies one line that
names the cause, and the trace goes to the log file.
"""

from __future__ import annotations

import logging
import os
import re
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from muntin.hosts.failures import append_details
from muntin.model.printable import escape_controls
from muntin.model.secrets import redact

_STEP = b"Streaming TransformWithStateInPandas Python worker"
_START = re.compile(
    rb"WARNING: Using incubator modules: jdk\.incubator\.vector$"
    rb"|Using Spark's default log4j profile:"
    rb"|Setting default log level to "
    rb"|To adjust logging level use sc\.setLogLevel"
    rb"|.* WARN NativeCodeLoader: Unable to load native-hadoop library"
)
_TWICE_CLOSED = re.compile(rb"NullPointerException.*stateServerSocket", re.DOTALL)
_WORKER_NOT_NEEDED = re.compile(
    rb'Traceback \(most recent call last\):\n(\s+File "[^"]*pyspark/daemon\.py", .*\n(    .*\n)*)+'
    rb"BrokenPipeError: .*\n?"
)
# A worker that starts while Spark ends finds no socket any more, and the one that prepares a batch
# can't write to it. Each prints several errors of it.
_TRACEBACK = b"Traceback ("
_NO_SOCKET = re.compile(
    rb"Traceback \(.*, in local_connect_and_auth\n.*\n"
    rb"(?:FileNotFoundError|ConnectionRefusedError): .*\n?\Z"
    rb'|Traceback \(.*/transform_with_state_driver_worker\.py".*\nBrokenPipeError: .*\n?\Z',
    re.DOTALL,
)
_DURING = b"During handling of the above exception"
_DEEP_PATTERN = re.compile(
    rb'(Exception in thread "stream execution .*java\.lang\.StackOverflowError\n)'
    rb"(\s+at java\.base/java\.util\.regex\..*\n?)+\Z"
)
# Lines that continue a record: stack traces and the names of their exceptions.
_CONTINUATION = re.compile(rb"\s|Caused by:|(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error)\b")
_ERROR = re.compile(rb"\d\d/\d\d/\d\d \d\d:\d\d:\d\d ERROR ")
_EXCEPTION = re.compile(rb"(?:Caused by: )?(?:[a-z]\w*\.)+([A-Z]\w*(?:Exception|Error)\b.*)")
_FRAME = re.compile(rb"\s+at \S+\(.*\)|\s+\.\.\. \d+ (?:more|common frames)|Caused by: ")
# Longest time that a line waits for lines that continue its record, seconds.
_PATIENCE = 0.2
# A traceback is written line by line, and the source files of its frames are read in between.
_PATIENCE_IN_TRACEBACK = 5.0


class StderrFilter:
    r"""Filters records, each of which is a line and the lines that continue it.

    Args:
        keep: Writes a Java trace somewhere else, and returns the name of that file.

    Example:
        >>> passing = StderrFilter()
        >>> passing.filter(b"Starting Streaming TransformWithStateInPandas Python worker.\n\nERR")
        b''
        >>> passing.filter(b"OR x\n\tat y\n") + passing.flush()
        b'ERROR x\n\tat y\n'
    """

    def __init__(self, keep: Callable[[str], object] = append_details) -> None:
        self._keep = keep
        self._line = b""
        self._record: list[bytes] = []
        self._is_dropping = False
        # The start of a record that is dropped as the next one.
        self._chained: bytes | None = None

    def filter(self, data: bytes) -> bytes:
        """Add written bytes, and return those of complete records that aren't filtered out."""
        *lines, self._line = (self._line + data).split(b"\n")
        return b"".join(self._records([line + b"\n" for line in lines]))

    def flush(self) -> bytes:
        """Return the bytes of waiting records, when no line continues them."""
        line, self._line = self._line, b""
        return b"".join(self._records([line] if line else [])) + self._finish_record()

    @property
    def patience(self) -> float:
        """Longest time to wait for the next bytes before ``flush``, seconds."""
        return _PATIENCE_IN_TRACEBACK if self._awaits_error() else _PATIENCE

    def _records(self, lines: list[bytes]) -> Iterator[bytes]:
        for line in lines:
            if self._is_dropping and line == b"\n":
                continue  # each step is followed by an empty line
            self._is_dropping = False
            if not self._continues_record(line):
                yield self._finish_record()
            if _STEP in line:
                self._is_dropping = True
            elif _START.match(line.rstrip()):
                continue
            else:
                self._record.append(line)

    def _continues_record(self, line: bytes) -> bool:
        if self._is_error() and not _ERROR.match(line) and not line.startswith(_TRACEBACK):
            return True
        if not (self._record and line.strip()):
            return False
        return self._awaits_error() or _CONTINUATION.match(line) is not None

    def _awaits_error(self) -> bool:
        """Return whether the present record is a traceback without its last line, the error."""
        # The first line without indentation after the frames of a traceback is its error.
        return (
            bool(self._record)
            and self._record[0].startswith(_TRACEBACK)
            and (len(self._record) == 1 or self._record[-1].startswith(b" "))
        )

    def _is_error(self) -> bool:
        """Return whether the present record is an error of Java's; its message may be of lines."""
        return len(self._record) > 1 and bool(
            _ERROR.match(self._record[0]) and _EXCEPTION.match(self._record[1])
        )

    def _cut_trace(self, lines: list[bytes]) -> bytes:
        """Return the line of an error with its cause, and what follows its Java trace."""
        frames = [number for number, line in enumerate(lines) if _FRAME.match(line)]
        named = [match[1] for line in lines if (match := _EXCEPTION.match(line))]
        if not (frames and named and _ERROR.match(lines[0])):
            return b"".join(lines)
        end = frames[-1] + 1
        file = self._keep(b"".join(lines[:end]).decode(errors="replace"))
        cause = b": ".join([lines[0].rstrip(), named[-1].strip()]).decode(errors="replace")
        where = "" if file is None else f" (details in {file})"
        line = f"{escape_controls(redact(cause))}{where}\n"
        return b"".join([line.encode(), *lines[end:]])

    def _continues_chain(self, record: bytes) -> bool:
        """Return whether a record is one of the errors of a worker that Spark no longer needs."""
        if not record.strip():
            return self._chained is not None
        if _NO_SOCKET.match(record):
            self._chained = _DURING
            return True
        is_next = self._chained is not None and record.startswith(self._chained)
        self._chained = _TRACEBACK if is_next and self._chained == _DURING else None
        return is_next

    def _finish_record(self) -> bytes:
        lines, self._record = self._record, []
        record = b"".join(lines)
        if self._continues_chain(record):
            return b""
        if deep := _DEEP_PATTERN.match(record):
            # Spark looks for an interruption in a long error; a thousand equal frames say no more.
            return deep[1]
        harmless = _TWICE_CLOSED.search(record) or _WORKER_NOT_NEEDED.fullmatch(record)
        return b"" if harmless else self._cut_trace(lines)


@contextmanager
def quiet_jvm() -> Iterator[None]:
    """Have a JVM that starts in the context write its stderr through the filter."""
    # PySpark prints each error of an expression as JSON with Java's trace, and then raises it.
    for kind in ("DataFrame", "SQL"):
        logging.getLogger(f"{kind}QueryContextLogger").setLevel(logging.CRITICAL)
    try:
        real = os.dup(2)
    except OSError:  # there is no stderr
        yield
        return
    reads, writes = os.pipe()
    os.dup2(writes, 2)
    os.close(writes)
    threading.Thread(
        target=_copy_filtered, args=(reads, real), name="muntin-stderr", daemon=True
    ).start()
    try:
        yield
    finally:
        os.dup2(real, 2)


def _copy_filtered(reads: int, real: int) -> None:
    """Copy filtered records to stderr until all writers have closed the pipe."""
    passing = StderrFilter()
    while True:
        ready, _, _ = select.select([reads], [], [], passing.patience)
        data = os.read(reads, 1 << 16) if ready else b""
        passed = passing.filter(data) if data else passing.flush()
        with suppress(OSError):  # stderr is closed; the JVM must not wait
            while passed:
                passed = passed[os.write(real, passed) :]
        if ready and not data:
            return
