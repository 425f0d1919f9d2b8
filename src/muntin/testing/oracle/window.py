"""A message with its position, and a window with all of its messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Message = dict[str, Any]
Key = tuple[Any, ...]
Position = int | float
"""A position on the axis; minus infinity before the first message, infinity at the end."""


class Placed(NamedTuple):
    """A message with its key and position."""

    key: Key
    position: int
    message: Message


@dataclass
class Window:
    """One window of one key.

    Attributes:
        key: Whose window it is.
        start: Its first position, as it is emitted.
        end: Its end, as it is emitted; sliding windows on the time axis have their last position,
            and sessions their last message and the gap.
        over: The least mark at which it has ended.
        messages: What it has taken, in the order in which it took it.
        unemitted: Those of them that no firing has had.
        revision: How often it has emitted.
        emissions: As what it, or a session that it replaces, has emitted messages: ``early``,
            ``full``, ``late``.
        replaced: The sessions that it replaces and that its next firing retracts.
    """

    key: Key
    start: int
    end: int
    over: int
    messages: list[Placed] = field(default_factory=list)
    unemitted: list[Placed] = field(default_factory=list)
    revision: int = 0
    emissions: set[str] = field(default_factory=set)
    replaced: list[Window] = field(default_factory=list)

    def take(self, messages: Iterable[Placed]) -> Window:
        """Add messages, and return the window."""
        new = list(messages)
        self.messages += new
        self.unemitted += new
        return self
