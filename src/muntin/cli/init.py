"""Runs a command below PID 1 of a container, whose duties are unlike those of other processes.

The kernel discards signals that PID 1 doesn't handle, and makes it the parent of every process of
the container whose own parent has ended. So PID 1 does nothing but pass signals on and reap its
children, and the command runs in one of them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress

_FORWARDED = {
    signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
}  # fmt: skip
_AWAITED = {*_FORWARDED, signal.SIGCHLD}


def fork_below_init() -> None:
    """Return in a child process if this process is PID 1; otherwise return at once.

    PID 1 ends with the exit code of the child: 128 more than the signal, if one killed it.
    """
    if os.getpid() != 1:
        return
    # A signal that arrives before PID 1 can pass it on has to wait.
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    child = os.fork()
    if child == 0:
        _take_terminal()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
        return
    os._exit(_supervise(child))


def _take_terminal() -> None:
    """Lead a process group that gets the terminal's Ctrl-C, which PID 1 then doesn't get too."""
    os.setpgid(0, 0)
    with suppress(OSError):  # there is no terminal
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        try:
            os.tcsetpgrp(sys.__stdin__.fileno() if sys.__stdin__ else 0, os.getpgrp())
        finally:
            signal.signal(signal.SIGTTOU, before)


def _supervise(child: int) -> int:
    """Pass signals on to a child and reap all children until it ends; return its exit code."""
    while True:
        # They are blocked: one that arrives at any other moment is taken by the next call.
        number = signal.sigwait(_AWAITED)
        if number != signal.SIGCHLD:
            os.kill(child, number)
            continue
        for pid, status in _reap():
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code  # killed by signal -code


def _reap() -> Iterator[tuple[int, int]]:
    """Yield each child that has ended, with its status. One signal may stand for several."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended
