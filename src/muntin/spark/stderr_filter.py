"""Filters useless lines out of the JVM's stderr.

When Spark starts, it prints which logging profile it uses and that it has no native Hadoop library.
For each batch with state it starts a Python process that prints each of its steps. Sometimes a
socket that is closed twice causes a harmless NullPointerException. Loggers can't be configured to
omit these lines, or aren't set up yet. So a JVM that muntin starts writes to a pipe, and a thread
copies all other lines to stderr.
"""

from __future__ import annotations

import os
import re
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_STEP = b"Streaming TransformWithStateInPandas Python worker"
_START = re.compile(
    rb"WARNING: Using incubator modules: jdk\.incubator\.vector$"
    rb"|Using Spark's default log4j profile:"
    rb"|Setting default log level to "
    rb"|To adjust logging level use sc\.setLogLevel"
    rb"|.* WARN NativeCodeLoader: Unable to load native-hadoop library"
)
_TWICE_CLOSED = re.compile(rb"NullPointerException.*stateServerSocket", re.DOTALL)
# Lines that continue a record: stack traces and the names of their exceptions.
_GOES_ON = re.compile(rb"\s|Caused by:|(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error)\b")
# Longest time that a line waits for lines that continue its record, seconds.
_PATIENCE = 0.2


class StderrFilter:
    r"""Filters records, each of which is a line and the lines that continue it.

    Example:
        >>> passing = StderrFilter()
        >>> passing.take(b"Starting Streaming TransformWithStateInPandas Python worker.\n\nERR")
        b''
        >>> passing.take(b"OR x\n\tat y\n") + passing.rest()
        b'ERROR x\n\tat y\n'
    """

    def __init__(self) -> None:
        self._line = b""
        self._record: list[bytes] = []
        self._dropped = False

    def take(self, data: bytes) -> bytes:
        """Add written bytes, and return those of complete records that aren't filtered out."""
        *lines, self._line = (self._line + data).split(b"\n")
        return b"".join(self._records([line + b"\n" for line in lines]))

    def rest(self) -> bytes:
        """Return the bytes of waiting records, when no line continues them."""
        line, self._line = self._line, b""
        return b"".join(self._records([line] if line else [])) + self._ended()

    def _records(self, lines: list[bytes]) -> Iterator[bytes]:
        for line in lines:
            if self._dropped and line == b"\n":
                continue  # each step is followed by an empty line
            self._dropped = False
            if not (self._record and line.strip() and _GOES_ON.match(line)):
                yield self._ended()
            if _STEP in line:
                self._dropped = True
            elif _START.match(line.rstrip()):
                continue
            else:
                self._record.append(line)

    def _ended(self) -> bytes:
        record, self._record = b"".join(self._record), []
        return b"" if _TWICE_CLOSED.search(record) else record


@contextmanager
def quiet_jvm() -> Iterator[None]:
    """Have a JVM that starts in the context write its stderr through the filter."""
    try:
        real = os.dup(2)
    except OSError:  # there is no stderr
        yield
        return
    reads, writes = os.pipe()
    os.dup2(writes, 2)
    os.close(writes)
    threading.Thread(target=_pass_on, args=(reads, real), name="muntin-stderr", daemon=True).start()
    try:
        yield
    finally:
        os.dup2(real, 2)


def _pass_on(reads: int, real: int) -> None:
    """Copy filtered records to stderr until all writers have closed the pipe."""
    passing = StderrFilter()
    while True:
        ready, _, _ = select.select([reads], [], [], _PATIENCE)
        data = os.read(reads, 1 << 16) if ready else b""
        found = passing.take(data) if data else passing.rest()
        with suppress(OSError):  # stderr is closed; the JVM must not wait
            while found:
                found = found[os.write(real, found) :]
        if ready and not data:
            return
