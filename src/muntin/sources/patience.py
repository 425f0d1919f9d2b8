"""Waiting for a server that is away: a line when it stops answering, and one when it is back."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

_LOG = logging.getLogger(__name__)
T = TypeVar("T")
# Pauses between attempts grow from the first to the longest, seconds.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0


class AwayError(Exception):
    """A server doesn't answer now, and may do so later; the message says how it failed."""


@dataclass
class Patience:
    """How long a server is waited for.

    Attributes:
        place: What the server is called in messages, for example ``Kafka at localhost:9092``.
        seconds: How long it may be away.
        retries: How many attempts have failed since it answered last.
    """

    place: str
    seconds: float
    retries: int = 0
    _since: float | None = field(default=None, repr=False)

    def run(self, attempt: Callable[[], T]) -> T:
        """Try until an attempt succeeds.

        Args:
            attempt: Raises ``AwayError`` where trying again may help.

        Raises:
            AwayError: The last one, when the server was away for too long.
        """
        pause = _FIRST_PAUSE
        while True:
            try:
                answer = attempt()
            except AwayError as error:
                if not self.note_failure(str(error)):
                    raise
                time.sleep(min(pause, self.left()))
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                self.note_answer()
                return answer

    def note_failure(self, problem: str) -> bool:
        """Count a failed attempt, and say so at the first one; returns whether time is left."""
        self.retries += 1
        if self._since is None:
            self._since = time.monotonic()
            _LOG.warning("%s doesn't answer (%s); retrying for %.0f s",
                         self.place, problem, self.seconds)  # fmt: skip
        if self.left() > 0:
            return True
        self._since, self.retries = None, 0
        return False

    def note_answer(self) -> None:
        """Say that the server is back, where it was away."""
        if self._since is not None:
            _LOG.warning("%s answers again, after %.0f s", self.place, self.away())
        self._since, self.retries = None, 0

    def away(self) -> float:
        """How long the server has been away, seconds."""
        return 0.0 if self._since is None else time.monotonic() - self._since

    def left(self) -> float:
        """How much longer it is waited for, seconds."""
        return max(0.0, self.seconds - self.away())
