"""Timers: functions that an app in this process runs by the wall clock.

A timer has no event and no partition. So it reads tables as from outside, and changes them by
sending messages to the agents that own them. Timers run after the events of a batch, and their
messages are committed with the batch, together with when they ran: each due time is handled
once, and missed due times are handled together.
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
"""Returns the first due time after a time, in microseconds."""


def schedule_multiples(length: int) -> Schedule:
    """Return a schedule that is due at the multiples of ``length`` since the epoch.

    Restarts don't shift it.

    Example:
        >>> schedule_multiples(10)(9), schedule_multiples(10)(10)
        (10, 20)
    """
    return lambda time: (time // length + 1) * length


@dataclass(frozen=True)
class Timer:
    """A function and its schedule, created by ``app.timer`` or ``app.crontab``."""

    function: Callable[[], Any]
    name: str
    schedule: Schedule

    def __call__(self) -> Any:
        """Call the function itself."""
        return self.function()

    async def run(self, now: int, sent: list[SentMessage]) -> None:
        """Run the function once; its messages are appended to ``sent``."""
        token = CURRENT.set(TimerCursor(self.name, now, sent))
        try:
            result = self.function()
            if inspect.isawaitable(result):
                await result
        finally:
            CURRENT.reset(token)


class TimerQueue:
    """The timers of an open app; a new one counts from the wall clock.

    Attributes:
        since: When each timer last ran, or was first seen, microseconds.
    """

    def __init__(self, timers: Mapping[str, Timer], since: Mapping[str, int], now: int) -> None:
        self._timers = dict(timers)
        self.since = {name: since.get(name, now) for name in timers}
        self._due = {name: one.schedule(self.since[name]) for name, one in timers.items()}

    async def run(self, now: int, sent: list[SentMessage]) -> None:
        """Run the timers that are due."""
        for name, timer in self._timers.items():
            if self._due[name] <= now:
                await timer.run(now, sent)
                self.since[name] = now
                self._due[name] = timer.schedule(now)


TimerDecorator = Callable[[Callable[[], Any]], Timer]
"""A decorator that turns a function into a timer."""


def make_timer_decorator(
    timers: dict[str, Timer], schedule: Schedule, name: str | None
) -> TimerDecorator:
    """Create a decorator that adds its function to the timers of an app."""

    def decorate(function: Callable[[], Any]) -> Timer:
        timer = Timer(function, name or str(getattr(function, "__name__", "timer")), schedule)
        if timer.name in timers:
            hint = "give it another: @app.timer(interval, name=...)"
            raise OptionError("name", timer.name, "is the name of another timer", hint)
        timers[timer.name] = timer
        return timer

    return decorate
