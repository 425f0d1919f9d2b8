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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Protocol
from weakref import WeakSet

SLICE = 0.1
"""Seconds between two checks for a signal."""
# Seconds in which a batch in flight may finish, and in which all queries must stop.
_BATCH_PATIENCE = 0.7
_STOP_PATIENCE = 1.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_CAUSES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class RunningQuery(Protocol):
    """A query that a signal can stop."""

    @property
    def is_active(self) -> bool:
        """True if the query runs."""

    def stop_for_exit(self, patience: float) -> None:
        """Stop the query without logging, since the process is about to end.

        A batch in flight has ``patience`` seconds to finish.
        """

    def describe_resumption(self) -> str:
        """Describe which batch was the last, and where the next start resumes."""


class Interrupted(SystemExit, KeyboardInterrupt):
    """Ctrl-C ended the wait for a query, which has been stopped.

    ``except KeyboardInterrupt`` catches it. A script that doesn't catch it ends with exit code 130,
    and without a traceback.
    """


class Interruption:
    """A signal that may arrive while the program waits for a query."""

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
        """Stop all queries of this process and end the program, if a signal has arrived.

        In an interactive session, Ctrl-C only ends the wait, and the queries continue.
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
        """Wait until a condition holds and return whether it does; act on a signal meanwhile.

        ``ready`` waits at most the seconds it gets, and returns whether the condition holds. The
        ``deadline`` is a time by ``time.monotonic()``; by default there is none.
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
    """Register a started query, which signals then stop."""
    quit_when_terminated_as_init()
    _QUERIES.add(query)


@contextmanager
def watch_signals() -> Iterator[Interruption]:
    """Record SIGINT and SIGTERM in the context, instead of acting on them.

    A second signal ends the process at once. Signals that the program ignores stay ignored. Python
    handles signals only in the main thread. So in another thread, and inside another
    ``watch_signals``, this context records nothing.
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


@contextmanager
def quit_on_signals() -> Iterator[None]:
    """End the process at once, with a line, on SIGINT or SIGTERM during a start."""
    is_main = threading.current_thread() is threading.main_thread()
    before = _handle_signals(_quit_start) if is_main else {}
    try:
        yield
    finally:
        _restore(before)


def quit_when_terminated_as_init() -> None:
    """Have SIGTERM end this process if it is PID 1, where the kernel's default doesn't apply.

    A handler that the program has set stays in place.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and os.getpid() == 1 and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _quit)


def _quit(number: int, frame: FrameType | None) -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(128 + number)


def _quit_start(number: int, frame: FrameType | None) -> None:
    # A write of Python's own may be under way, and allows no other.
    line = f"muntin: {_CAUSES[signal.Signals(number)]}: ended before the start was complete\n"
    with suppress(OSError):
        os.write(2, line.encode())
    _quit(number, frame)


def _handle_signals(handler: Callable[[int, FrameType | None], None]) -> dict[signal.Signals, Any]:
    """Set a handler for signals that aren't ignored, and return the handlers that it replaces."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    replaced = {n: old for n, old in before.items() if old is not signal.SIG_IGN}
    for number in replaced:
        signal.signal(number, handler)
    return replaced


def _restore(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        # None means a handler that wasn't set from Python.
        signal.signal(number, signal.SIG_DFL if handler is None else handler)


def is_interactive() -> bool:
    """Return whether this is an interactive session, which continues after Ctrl-C."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


def stop_queries(
    say: Callable[[str], object], cause: str, queries: Iterable[RunningQuery] | None = None
) -> None:
    """Stop queries within three seconds, and print where each will resume.

    A query that doesn't stop in time is abandoned: its checkpoint has the last batch that it
    committed, and the batch in flight is repeated at the next start. ``cause`` is the reason, in
    words.
    """
    candidates = list(_QUERIES) if queries is None else queries
    active = [query for query in candidates if _is_active(query)]
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
    except Exception:  # the host of the query has ended
        return False


def _stop(query: RunningQuery) -> None:
    with suppress(Exception):  # whoever waits for the query gets its error
        query.stop_for_exit(_BATCH_PATIENCE)


def say_on_stderr(line: str) -> None:
    """Print a line to stderr; do nothing if it has been closed."""
    with suppress(OSError, ValueError):
        print(f"muntin: {line}", file=sys.stderr, flush=True)
