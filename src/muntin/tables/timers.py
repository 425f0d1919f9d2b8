"""Timers: functions that an app in this process runs by the wall clock.

A timer is at no event and in no partition. So it reads tables as from outside, and what it wants to
change it sends to the agents whose tables they are. It runs behind the events of a batch, and what
it sends is committed with them, together with when it ran: each due time is worked through once,
and those that were missed are worked through together.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from muntin.model.errors import OptionError
from muntin.tables.current import CURRENT, TimerCursor
from muntin.tables.partition import SentMessage

Schedule = Callable[[int], int]
"""Gives the first due time behind a time, microseconds."""


def multiples(length: int) -> Schedule:
    """Due at the multiples of a length since the epoch, so that restarts don't shift it.

    Example:
        >>> multiples(10)(9), multiples(10)(10)
        (10, 20)
    """
    return lambda time: (time // length + 1) * length


@dataclass(frozen=True)
class Timer:
    """A function and when it is due; made by ``app.timer`` and ``app.crontab``."""

    function: Callable[[], Any]
    name: str
    schedule: Schedule

    def __call__(self) -> Any:
        """Call the function itself."""
        return self.function()

    async def run(self, now: int, sent: list[SentMessage]) -> None:
        """Run once; what the function sends is added to ``sent``."""
        token = CURRENT.set(TimerCursor(self.name, now, sent))
        try:
            called = self.function()
            if inspect.isawaitable(called):
                await called
        finally:
            CURRENT.reset(token)


class TimerQueue:
    """The timers of an open app.

    Args:
        timers: The timers, by name.
        since: When each last ran, as the last commit has it.
        now: The wall clock, which a timer that is new counts from.

    Attributes:
        since: When each last ran, or was first seen, microseconds.
    """

    def __init__(self, timers: Mapping[str, Timer], since: Mapping[str, int], now: int) -> None:
        self._timers = dict(timers)
        self.since = {name: since.get(name, now) for name in timers}
        self._due = {name: one.schedule(self.since[name]) for name, one in timers.items()}

    async def run(self, now: int, sent: list[SentMessage]) -> None:
        """Run those that are due."""
        for name, timer in self._timers.items():
            if self._due[name] <= now:
                await timer.run(now, sent)
                self.since[name] = now
                self._due[name] = timer.schedule(now)


Timed = Callable[[Callable[[], Any]], Timer]
"""What makes a timer of a function."""


def adding(timers: dict[str, Timer], schedule: Schedule, name: str | None) -> Timed:
    """A decorator that adds its function to the timers of an app."""

    def made(function: Callable[[], Any]) -> Timer:
        timer = Timer(function, name or str(getattr(function, "__name__", "timer")), schedule)
        if timer.name in timers:
            hint = "give it another: @app.timer(interval, name=...)"
            raise OptionError("name", timer.name, "is the name of another timer", hint)
        timers[timer.name] = timer
        return timer

    return made
