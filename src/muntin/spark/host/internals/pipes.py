"""How Python workers are reached by Spark, and how they end."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable
from typing import Any

import pyspark.daemon

_SOCKETS = "PYTHON_WORKER_FACTORY_SOCK_DIR"
# The characters of a socket's name, and those that its whole path may have on any system.
_NAME, _MOST = len("01234567-89ab-cdef-0123-456789abcdef.sock"), 103

Worker = Callable[[socket.socket, bool], int]


def end_quietly() -> None:
    """Have a worker end without a trace when nobody reads what it makes.

    ``limit``, and so ``show``, closes the pipe when it has enough rows. Spark's daemon would print
    that as a failure of the worker.
    """
    daemon: Any = pyspark.daemon
    daemon.worker = _quiet(daemon.worker)


def ignore_interrupts() -> None:
    """Leave Ctrl-C, which a terminal sends to all processes of a program, to the driver alone."""
    # A worker sets this handler when it begins.
    signal.default_int_handler = signal.SIG_IGN  # type: ignore[assignment]


def use_private_folder() -> None:
    """Have the daemon listen in a folder that no other user of the machine can open.

    Spark makes the socket with the rights that the umask leaves, in a folder for everybody.
    """
    shared = os.environ.get(_SOCKETS, "")
    # The path of a socket may have some hundred characters.
    if not shared or len(shared) + len("/m-12345678/.") + _NAME > _MOST:
        return
    folder = tempfile.mkdtemp(prefix="m-", dir=shared)
    os.environ[_SOCKETS] = folder
    atexit.register(shutil.rmtree, folder, ignore_errors=True)


def _quiet(worker: Worker) -> Worker:
    def run(sock: socket.socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except BrokenPipeError:
            return 1  # not to be used again

    return run
