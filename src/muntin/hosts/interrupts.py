"""Signals that ask a running query to end: Ctrl-C, and SIGTERM from whatever supervises it.

A host waits for its query in short slices inside ``watch_signals``. The handler only records the
signal, so that no call into another process is cut off halfway. The waiting loop then stops all
queries of this process, says where each will resume, and ends the script with exit code 130 or 143
and without a traceback.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Protocol
from weakref import WeakSet

SLICE = 0.1
"""Seconds between two looks at whether a signal has come."""
# Seconds that a batch in flight gets to be finished, and that all queries get to stop.
_BATCH_PATIENCE = 0.7
_STOP_PATIENCE = 1.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CAUSES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class RunningQuery(Protocol):
    """A query that a signal can stop."""

    @property
    def is_active(self) -> bool:
        """Whether the query runs."""

    def stop_for_exit(self, patience: float) -> None:
        """Stop the query without a word, since the process is about to end.

        A batch in flight gets ``patience`` seconds to be finished.
        """

    def describe_resumption(self) -> str:
        """Say in a few words what is done, and where the next start resumes."""


class Interrupted(SystemExit, KeyboardInterrupt):
    """Ctrl-C ended the wait for a query, which has been stopped.

    ``except KeyboardInterrupt`` catches it. A script that doesn't catch it ends with exit code 130,
    and without a traceback.
    """


class Interruption:
    """A signal that may come while somebody waits.

    Attributes:
        signal: The number of the signal; ``None`` while none has come.
    """

    def __init__(self) -> None:
        self.signal: int | None = None

    @property
    def exit_code(self) -> int:
        """The exit code by which a shell recognises the signal."""
        return 128 + (self.signal or 0)

    @property
    def cause(self) -> str:
        """The signal in words."""
        return _CAUSES[signal.Signals(self.signal or signal.SIGINT)]

    def act(self) -> None:
        """Stop all queries of this process and end the program, if a signal has come.

        Where somebody types the statements, Ctrl-C ends the wait alone, and the queries run on.

        Raises:
            KeyboardInterrupt: After SIGINT; ``Interrupted`` where the program is to end.
            SystemExit: After SIGTERM.
        """
        if self.signal is None:
            return
        if self.signal == signal.SIGINT and is_interactive():
            raise KeyboardInterrupt
        stop_queries(say_on_stderr, self.cause)
        if self.signal == signal.SIGINT:
            raise Interrupted(self.exit_code)
        raise SystemExit(self.exit_code)

    def wait(self, ready: Callable[[float], bool], deadline: float | None = None) -> bool:
        """Wait until something is ready, and act on a signal that comes meanwhile.

        Args:
            ready: Waits for so many seconds at most; returns whether it is ready.
            deadline: When to give up, as ``time.monotonic()`` counts; never by default.

        Returns:
            Whether it is ready.
        """
        while True:
            self.act()
            left = SLICE if deadline is None else min(SLICE, deadline - time.monotonic())
            if left <= 0 or ready(left):
                return left > 0 or ready(0)


# Queries of this process that run, or have run.
_QUERIES: WeakSet[Any] = WeakSet()
_WATCHED = threading.Lock()


def register_query(query: RunningQuery) -> None:
    """Have signals stop a query that has been started."""
    _QUERIES.add(query)


@contextmanager
def watch_signals() -> Iterator[Interruption]:
    """Record SIGINT and SIGTERM meanwhile, instead of acting on them.

    A second signal ends the process at once. Signals that the program ignores stay ignored. Python
    handles signals in the main thread alone: in another thread, and inside another
    ``watch_signals``, nothing is recorded here.
    """
    interruption = Interruption()
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not _WATCHED.acquire(blocking=False):
        yield interruption
        return

    def record(number: int, frame: FrameType | None) -> None:
        if interruption.signal is not None:
            os._exit(128 + number)
        interruption.signal = number

    before = _handle_signals(record)
    try:
        yield interruption
    finally:
        _restore(before)
        _WATCHED.release()


def quit_on_signals(*numbers: signal.Signals) -> None:
    """End the process at once when a signal comes, as long as nothing runs that has to be stopped.

    Args:
        *numbers: The signals; SIGINT and SIGTERM by default.
    """
    if threading.current_thread() is threading.main_thread():
        _handle_signals(_quit, numbers or _SIGNALS)


def quit_when_terminated_as_init() -> None:
    """Let SIGTERM end this process where it is PID 1, to which the kernel's default doesn't apply.

    A handler that the program has set stays.
    """
    if os.getpid() == 1 and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        quit_on_signals(signal.SIGTERM)


def _quit(number: int, frame: FrameType | None) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(128 + number)


def _handle_signals(
    handler: Callable[[int, FrameType | None], None],
    numbers: tuple[signal.Signals, ...] = _SIGNALS,
) -> dict[signal.Signals, Any]:
    """Set a handler wherever a signal isn't ignored; returns the handlers that it replaces."""
    before = {number: signal.getsignal(number) for number in numbers}
    replaced = {n: old for n, old in before.items() if old is not signal.SIG_IGN}
    for number in replaced:
        signal.signal(number, handler)
    return replaced


def _restore(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        # None stands for a handler that wasn't set from Python.
        signal.signal(number, signal.SIG_DFL if handler is None else handler)


def is_interactive() -> bool:
    """Whether somebody types statements into this process, who goes on after a Ctrl-C."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


def stop_queries(say: Callable[[str], object], cause: str) -> None:
    """Stop all queries of this process within three seconds, and say where each will resume.

    A query that doesn't stop in time is abandoned: its checkpoint has the last batch that it
    committed, and the batch in flight is repeated at the next start.

    Args:
        say: Prints a line.
        cause: Why they stop, in words.
    """
    active = [query for query in list(_QUERIES) if _is_active(query)]
    threads = [
        threading.Thread(target=_stop, args=(query,), daemon=True, name="muntin-stop")
        for query in active
    ]
    deadline = time.monotonic() + _STOP_PATIENCE
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    for query in active:
        say(f"{cause}: {query.describe_resumption()}")


def _is_active(query: RunningQuery) -> bool:
    try:
        return query.is_active
    except Exception:  # its host has gone
        return False


def _stop(query: RunningQuery) -> None:
    with suppress(Exception):  # what it ends with is reported to whoever waits for it
        query.stop_for_exit(_BATCH_PATIENCE)


def say_on_stderr(line: str) -> None:
    """Print a line to stderr, also when that has been closed."""
    with suppress(OSError, ValueError):
        print(f"muntin: {line}", file=sys.stderr, flush=True)
