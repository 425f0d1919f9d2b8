"""Windows and sessions of a key, as read from a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WindowSeen:
    """A window of a key, as read from the state."""

    start: int
    end: int
    number: int
    messages: int
    fired: int
    late: int
    unemitted_early: int
    unemitted_late: int


@dataclass(frozen=True)
class SessionSeen:
    """A session of a key, as read from the state.

    Attributes:
        first: The position of its first message.
        last: Its last position, so long after which the watermark ends it.
        end: Its end as it is emitted.
    """

    first: int
    last: int
    end: int
    messages: int
    fired: int
    unemitted: int
    fired_late: int = 0
