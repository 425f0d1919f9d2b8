"""A message with its position, and a window with all of its messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

OracleMessage = dict[str, Any]
Key = tuple[Any, ...]
Position = int | float
"""A position on the axis; minus infinity before the first message, infinity at the end."""


class Placed(NamedTuple):
    """A message with its key, its position, and the wall clock of the step that read it."""

    key: Key
    position: int
    message: OracleMessage
    wall: int = 0


@dataclass
class OracleWindow:
    """One window of one key.

    Attributes:
        key: Key of the window.
        start: Emitted start.
        end: Emitted end; for sliding windows on the time axis the last position, and for sessions
            the last message plus the gap.
        over: Least mark at which the window has ended.
        messages: Messages of the window, in the order in which it took them.
        unemitted: Messages that no firing has included yet.
        revision: Number of its emissions so far.
        emissions: Emissions with messages of the window or of sessions that it replaces:
            ``early``, ``full``, ``late``.
        replaced: Sessions that it replaces and that its next firing retracts.
        source: If it has no messages, the last window of its key before it that has some.
        following: If it waits, the next one, unless a window between them isn't filled.
    """

    key: Key
    start: int
    end: int
    over: int
    messages: list[Placed] = field(default_factory=list)
    unemitted: list[Placed] = field(default_factory=list)
    revision: int = 0
    emissions: set[str] = field(default_factory=set)
    replaced: list[OracleWindow] = field(default_factory=list)
    source: OracleWindow | None = None
    following: OracleWindow | None = None

    @property
    def waits(self) -> bool:
        """True if it has no messages and hasn't been filled yet."""
        return self.source is not None and not self.messages and not self.revision

    def take(self, messages: Iterable[Placed]) -> OracleWindow:
        """Add messages, and return the window."""
        new = list(messages)
        self.messages += new
        self.unemitted += new
        return self
