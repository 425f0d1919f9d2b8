"""What a Python worker does when Spark has stopped reading."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pyspark.daemon

Worker = Callable[[socket.socket, bool], int]


def end_quietly() -> None:
    """Have a worker end without a trace when nobody reads what it makes.

    ``limit``, and so ``show``, closes the pipe when it has enough rows. Spark's daemon would print
    that as a failure of the worker.
    """
    daemon: Any = pyspark.daemon
    daemon.worker = _quiet(daemon.worker)


def _quiet(worker: Worker) -> Worker:
    def run(sock: socket.socket, authenticated: bool) -> int:
        try:
            return worker(sock, authenticated)
        except BrokenPipeError:
            return 1  # not to be used again

    return run
