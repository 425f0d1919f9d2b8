"""Windows and sessions as a checkpoint's state has them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WindowSeen:
    """One window of a key, as the state has it."""

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
    """One session of a key, as the state has it."""

    first: int
    last: int
    messages: int
    fired: int
    unemitted: int
    fired_late: int = 0
