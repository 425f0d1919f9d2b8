"""Waits: for servers that are down, which are retried, and for calls that don't return.

Each wait is one line of the log when it starts and one when it ends, and is listed meanwhile.
Processes that Spark starts on the driver's machine write theirs into a folder of the driver.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from muntin.model.printable import escape_line, format_count
from muntin.model.secrets import redact

_LOG = logging.getLogger(__name__)
T = TypeVar("T")
# Pauses between attempts grow from the first to the longest, in seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
# The variable that names the folder, and the process that reads it.
WAITS_VARIABLE = "MUNTIN_WAITS"
_WAITS: dict[int, Patience] = {}
# How long a call may take before it is a wait: so many seconds, or so many times the shorter one of
# the last two, since a sink may always take long.
_SILENCE, _MOST_TIMES = 10.0, 3
# How often running calls are looked at, in seconds.
_POLL_SECONDS = 1.0
# The running calls by their thread, and the times of the last two of each name, in seconds.
_CALLS: dict[int, WatchedCall] = {}
_LAST_TIMES: dict[str, deque[float]] = {}
_WATCHER: list[threading.Thread] = []


@dataclass(frozen=True)
class Wait:
    """A wait for a server, or for a call.

    Attributes:
        retries: The failed attempts since the last answer; 0 while the first one has no answer.
        since: When it began, Unix time.
        is_silent: Whether a call hasn't returned; otherwise attempts fail.
    """

    retries: int
    since: float
    is_silent: bool = False

    def __str__(self) -> str:
        since = f"since {format_clock(self.since)}"
        retries = format_count(self.retries, "retry", "retries")
        return since if self.is_silent else f"{since}, {retries}"


def format_clock(moment: float) -> str:
    """Return a Unix time as a local time of day with its zone."""
    return f"{datetime.fromtimestamp(moment).astimezone():%H:%M:%S%z}"


class AwayError(Exception):
    """A server doesn't do its work now but may later; the message says how it failed.

    Attributes:
        symptom: What the server does instead, in a sentence about it.
        seconds: How long it is retried at most; by default as long as the patience lasts.
    """

    def __init__(
        self, problem: str, symptom: str = "doesn't answer", seconds: float | None = None
    ) -> None:
        super().__init__(problem)
        self.symptom = symptom
        self.seconds = seconds


@dataclass
class Patience:
    """The time that a server may be away, and the attempts to reach it meanwhile.

    Attributes:
        server: Name of the server in messages, for example ``Kafka at localhost:9092``.
        seconds: How long it may be away, in seconds.
        first_pause: The pause after the first failed attempt, in seconds.
        retries: Number of failed attempts since its last answer.
    """

    server: str
    seconds: float
    first_pause: float = _FIRST_PAUSE
    retries: int = 0
    _since: float | None = field(default=None, repr=False)
    _thread: int = field(default=0, repr=False)

    def run(self, attempt: Callable[[], T]) -> T:
        """Retry until an attempt succeeds or the patience ends.

        Args:
            attempt: Function to call; it raises ``AwayError`` if a retry may help.

        Raises:
            AwayError: The last error, if the server was away for too long.
        """
        pause = self.first_pause
        try:
            while True:
                try:
                    answer = attempt()
                except AwayError as error:
                    if not self.note_failure(error):
                        raise
                    time.sleep(min(pause, self.remaining_time()))
                    pause = min(2 * pause, _LONGEST_PAUSE)
                else:
                    self.note_answer()
                    return answer
        finally:
            self.end()

    def note_failure(self, error: AwayError) -> bool:
        """Count a failed attempt, and log the first one; return whether time is left."""
        self.retries += 1
        if self._since is None:
            self._since = time.monotonic()
            seconds = self.seconds if error.seconds is None else error.seconds
            problem = escape_line(redact(str(error)))
            _LOG.warning("%s %s (%s); retrying for %.0f s",
                         self.server, error.symptom, problem, seconds)  # fmt: skip
        if self.remaining_time() > 0:
            self._thread = threading.get_ident()
            _WAITS[id(self)] = self
            _write_wait(id(self), self.server, self.to_wait())
            return True
        self.end()
        return False

    def note_answer(self) -> None:
        """Note an answer, and log it if the server was away."""
        if self._since is not None:
            _LOG.warning("%s answers again, after %.0f s", self.server, self.downtime())
        self.end()

    def downtime(self) -> float:
        """Return how long the server has been away, in seconds."""
        return 0.0 if self._since is None else time.monotonic() - self._since

    def to_wait(self) -> Wait:
        """Return the wait as others see it."""
        return Wait(self.retries, time.time() - self.downtime())

    def is_of_thread(self, thread: int) -> bool:
        """Return whether a thread waits for the server."""
        return self._thread == thread and self.remaining_time() > 0

    def remaining_time(self) -> float:
        """Return how much longer it may be away, in seconds."""
        return max(0.0, self.seconds - self.downtime())

    def end(self) -> None:
        """Wait for the server no longer."""
        self._since, self.retries = None, 0
        if _WAITS.pop(id(self), None) is None:
            return
        if (call := _CALLS.get(threading.get_ident())) is not None:
            call.begin()
        _remove_wait(id(self))


def _write_wait(number: int, name: str, wait: Wait) -> None:
    """Write a wait for the driver, if this is another process on its machine."""
    if (folder := find_folder(of_driver=False)) is not None:
        # The wait is also logged, so the file may be missing.
        with suppress(OSError):
            text = f"{wait.retries} {wait.since} {name}"
            (folder / f"{os.getpid()}-{number}").write_text(text)


def _remove_wait(number: int) -> None:
    if (folder := find_folder(of_driver=False)) is not None:
        with suppress(OSError):
            (folder / f"{os.getpid()}-{number}").unlink()


def find_folder(*, of_driver: bool) -> Path | None:
    """Return the folder that the processes on the driver's machine write into.

    ``None`` where there is none, and where this process is the driver and the caller asks for
    another one, or the other way round.
    """
    process, _, folder = os.environ.get(WAITS_VARIABLE, "").partition(":")
    return Path(folder) if folder and (process == str(os.getpid())) is of_driver else None


@dataclass
class WatchedCall:
    """A call that becomes a wait if it doesn't return.

    Attributes:
        name: Name of what is called, in messages.
        task: What it is called for.
    """

    name: str
    task: str
    thread: int
    since: float = 0.0
    is_silent: bool = False
    _begun: float = 0.0

    def begin(self) -> None:
        """Count the time from now on."""
        self.since, self._begun = time.time(), time.monotonic()

    def look(self) -> None:
        """Log and list the call if it takes long, and nothing else says that its thread waits."""
        longest = max(_SILENCE, _MOST_TIMES * min(_LAST_TIMES.get(self.name, (0.0,))))
        is_known = self.is_silent or any(
            one.is_of_thread(self.thread) for one in list(_WAITS.values())
        )
        if not is_known and time.monotonic() - self._begun > longest:
            self.is_silent = True
            _LOG.warning("%s hasn't answered since %s; %s waits for it",
                         self.name, format_clock(self.since), self.task)  # fmt: skip
            _write_wait(id(self), self.name, self.to_wait())

    def to_wait(self) -> Wait:
        """Return the wait as others see it."""
        return Wait(0, self.since, is_silent=True)

    def note_answer(self) -> None:
        """Note how long it took, and log that if it was a wait."""
        seconds = time.monotonic() - self._begun
        _LAST_TIMES.setdefault(self.name, deque(maxlen=2)).append(seconds)
        if self.is_silent:
            _LOG.warning("%s answers again, after %.0f s", self.name, seconds)


@contextmanager
def watch_call(name: str, task: str) -> Iterator[None]:
    """Make a call in the context a wait if it takes unusually long.

    Args:
        name: Name of what is called, in messages, for example ``the sink of results``.
        task: What it is called for, for example ``batch 7``.
    """
    thread = threading.get_ident()
    call, outer = WatchedCall(name, task, thread), _CALLS.get(thread)
    call.begin()
    _CALLS[thread] = call
    # A thread doesn't survive a fork.
    if not _WATCHER or not _WATCHER[-1].is_alive():
        _WATCHER[:] = [threading.Thread(target=_look_at_calls, daemon=True, name="muntin-waits")]
        _WATCHER[0].start()
    try:
        yield
        call.note_answer()
    finally:
        del _CALLS[thread]
        if call.is_silent:
            _remove_wait(id(call))
        if outer is not None:
            _CALLS[thread] = outer


def _look_at_calls() -> None:
    while True:
        time.sleep(_POLL_SECONDS)
        for call in list(_CALLS.values()):
            call.look()


def list_waits() -> dict[str, Wait]:
    """Return what this process, and those that it started, wait for now.

    Returns:
        The waits by the name of the server, or of what was called.
    """
    waits = {one.server: one.to_wait() for one in list(_WAITS.values()) if one.remaining_time() > 0}
    silent = (call for call in list(_CALLS.values()) if call.is_silent)
    waits |= {call.name: call.to_wait() for call in silent}
    folder = find_folder(of_driver=True)
    for file in () if folder is None else sorted(folder.glob("*-*")):
        with suppress(OSError, ValueError):
            # The file of a killed process stays behind.
            os.kill(int(file.name.partition("-")[0]), 0)
            retries, since, server = file.read_text().split(" ", 2)
            # Only a call that doesn't return has no failed attempts.
            wait = Wait(int(retries), float(since), is_silent=retries == "0")
            waits[server] = max(waits.get(server, wait), wait, key=lambda one: one.retries)
    return waits
