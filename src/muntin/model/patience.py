"""Retries while a server is down, with one log line when that starts and one when it ends.

The servers that are waited for are listed while that lasts. Processes that Spark starts on the
driver's machine write theirs into a folder of the driver.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from muntin.model.secrets import redact

_LOG = logging.getLogger(__name__)
T = TypeVar("T")
# Pauses between attempts grow from the first to the longest, in seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
# The variable that names the folder, and the process that reads it.
WAITS_VARIABLE = "MUNTIN_WAITS"
_WAITS: dict[int, Patience] = {}


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
            _LOG.warning("%s %s (%s); retrying for %.0f s",
                         self.server, error.symptom, redact(str(error)), seconds)  # fmt: skip
        if self.remaining_time() > 0:
            _WAITS[id(self)] = self
            self._write()
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

    def remaining_time(self) -> float:
        """Return how much longer it may be away, in seconds."""
        return max(0.0, self.seconds - self.downtime())

    def end(self) -> None:
        """Wait for the server no longer."""
        self._since, self.retries = None, 0
        if _WAITS.pop(id(self), None) is not None and (file := self._file()) is not None:
            with suppress(OSError):
                file.unlink()

    def _write(self) -> None:
        """Write the wait for the driver, if this is another process on its machine."""
        if (file := self._file()) is not None:
            # The wait is also logged, so the file may be missing.
            with suppress(OSError):
                file.write_text(f"{self.retries} {self.server}")

    def _file(self) -> Path | None:
        folder = find_folder(of_driver=False)
        return None if folder is None else folder / f"{os.getpid()}-{id(self)}"


def find_folder(*, of_driver: bool) -> Path | None:
    """Return the folder that the processes on the driver's machine write into.

    ``None`` where there is none, and where this process is the driver and the caller asks for
    another one, or the other way round.
    """
    process, _, folder = os.environ.get(WAITS_VARIABLE, "").partition(":")
    return Path(folder) if folder and (process == str(os.getpid())) is of_driver else None


def list_waits() -> dict[str, int]:
    """Return the servers that this process, and those that it started, wait for now.

    Returns:
        The failed attempts since each server's last answer, by its name.
    """
    waits = {one.server: one.retries for one in list(_WAITS.values()) if one.remaining_time() > 0}
    folder = find_folder(of_driver=True)
    for file in () if folder is None else sorted(folder.glob("*-*")):
        with suppress(OSError, ValueError):
            # The file of a killed process stays behind.
            os.kill(int(file.name.partition("-")[0]), 0)
            retries, _, server = file.read_text().partition(" ")
            waits[server] = max(waits.get(server, 0), int(retries))
    return waits
