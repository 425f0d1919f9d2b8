"""Configures the sockets, the signals and the ends of Spark's Python workers."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import pyspark.daemon

from muntin.model.patience import find_folder

_SOCKETS = "PYTHON_WORKER_FACTORY_SOCK_DIR"
# The length of a socket's name, and the largest length of its path on any system.
_NAME, _MOST = len("01234567-89ab-cdef-0123-456789abcdef.sock"), 103

# The file with the exit code of the last worker that died, or its signal as a negative number.
_DEATH = "death"

Worker = Callable[[socket.socket, bool], int]


def end_quietly() -> None:
    """Have a worker end without a traceback when nobody reads its output.

    ``limit``, and so ``show``, closes the pipe when it has enough rows. Spark's daemon would print
    that as a failure of the worker.
    """
    daemon: Any = pyspark.daemon
    daemon.worker = _quiet(daemon.worker)


def ignore_interrupts() -> None:
    """Ignore Ctrl-C, which a terminal sends to all processes and only the driver should handle."""
    # A worker sets this handler when it starts.
    signal.default_int_handler = signal.SIG_IGN  # type: ignore[assignment]


def use_private_folder() -> None:
    """Have the daemon listen in a folder that no other user of the machine can open.

    Spark creates the socket with default permissions, in a folder that everybody can open.
    """
    shared = os.environ.get(_SOCKETS, "")
    # The path of a socket is limited to some hundred characters.
    if not shared or len(shared) + len("/m-12345678/.") + _NAME > _MOST:
        return
    folder = tempfile.mkdtemp(prefix="m-", dir=shared)
    os.environ[_SOCKETS] = folder
    atexit.register(shutil.rmtree, folder, ignore_errors=True)


def note_deaths() -> None:
    """Have the daemon note how its last worker died, of which Spark only says that it did.

    By default, the daemon ignores the signal that tells it so.
    """
    daemon: Any = pyspark.daemon
    daemon.SIG_IGN = _note_dead_workers


def read_last_death() -> str | None:
    """Return how the last worker on the driver's machine died, if it wasn't by itself."""
    folder = find_folder(of_driver=True)
    with suppress(OSError, ValueError):
        status = int((folder / _DEATH).read_text()) if folder is not None else 0
        return f"signal {-status}" if status < 0 else f"exit code {status}" if status else None
    return None


def _note_dead_workers(number: int, frame: FrameType | None) -> None:
    folder = find_folder(of_driver=False)
    with suppress(OSError):  # there is no further child
        while True:
            worker, status = os.waitpid(-1, os.WNOHANG)
            if not worker:
                return
            if folder is not None and (code := os.waitstatus_to_exitcode(status)):
                (folder / _DEATH).write_text(str(code))


def _quiet(worker: Worker) -> Worker:
    def run(sock: socket.socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except BrokenPipeError:
            return 1  # Spark must not reuse this worker

    return run
