"""Retries while a server is down, with one log line when that starts and one when it ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

_LOG = logging.getLogger(__name__)
T = TypeVar("T")
# Pauses between attempts grow from the first to the longest, in seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0


class AwayError(Exception):
    """A server doesn't answer now but may later; the message says how it failed."""


@dataclass
class Patience:
    """The time that a server may be away, and the attempts to reach it meanwhile.

    Attributes:
        server: Name of the server in messages, for example ``Kafka at localhost:9092``.
        retries: Number of failed attempts since its last answer.
    """

    server: str
    seconds: float
    retries: int = 0
    _since: float | None = field(default=None, repr=False)

    def run(self, attempt: Callable[[], T]) -> T:
        """Retry an attempt that raises ``AwayError`` until it succeeds or the patience ends."""
        pause = _FIRST_PAUSE
        while True:
            try:
                answer = attempt()
            except AwayError as error:
                if not self.note_failure(str(error)):
                    raise
                time.sleep(min(pause, self.remaining_time()))
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self.note_answer()
                return answer

    def note_failure(self, problem: str) -> bool:
        """Count a failed attempt, and log the first one; return whether time is left."""
        self.retries += 1
        if self._since is None:
            self._since = time.monotonic()
            _LOG.warning("%s doesn't answer (%s); retrying for %.0f s",
                         self.server, problem, self.seconds)  # fmt: skip
        if self.remaining_time() > 0:
            return True
        self._since, self.retries = None, 0
        return False

    def note_answer(self) -> None:
        """Note an answer, and log it if the server was away."""
        if self._since is not None:
            _LOG.warning("%s answers again, after %.0f s", self.server, self.downtime())
        self._since, self.retries = None, 0

    def downtime(self) -> float:
        """Return how long the server has been away, in seconds."""
        return 0.0 if self._since is None else time.monotonic() - self._since

    def remaining_time(self) -> float:
        """Return how much longer it may be away, in seconds."""
        return max(0.0, self.seconds - self.downtime())
