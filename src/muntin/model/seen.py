"""Windows and sessions as a checkpoint's state has them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WindowSeen:
    """One window of a key, as the state has it.

    Attributes:
        start: Where it starts.
        end: Where it ends.
        number: Its number.
        messages: How many messages its panes hold.
        fired: How often it emitted early or late.
        late: How many late messages it has taken.
        unemitted_early: New messages that wait for the early policy.
        unemitted_late: Late ones that wait for the late policy.
    """

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
