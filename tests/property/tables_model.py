"""A plain model of tables: a dictionary, and a loop over all windows."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

NEVER = -(10**18)
DELETE = "delete"
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "+=": operator.add,
    "-=": operator.sub,
    "*=": operator.mul,
    "=": lambda _, value: value,
}


@dataclass(frozen=True)
class Happening:
    """An event: its key, its time in seconds, and the operation of the agent."""

    key: str
    time: float
    operation: str
    operand: Any


@dataclass
class WindowModel:
    """Hopping windows; all in seconds.

    Attributes:
        lateness: The distance of the watermark behind the latest time.
        live: Values by key and start.
        closed: Values of windows that have expired.
        late: Events that were too late for all windows.
    """

    size: float
    step: float
    expires: float | None
    lateness: float = 0.0
    watermark: float = NEVER
    live: dict[tuple[str, float], Any] = field(default_factory=dict)
    closed: dict[tuple[str, float], Any] = field(default_factory=dict)
    late: list[Happening] = field(default_factory=list)

    def list_starts(self, time: float) -> list[float]:
        """Return the starts of windows that contain a time; they end at multiples of ``step``."""
        nearest = int(time // self.step) * self.step
        count = int(self.size // self.step) + 3
        candidates = [
            (nearest + n * self.step) - self.size % self.step for n in range(-count, count)
        ]
        return [start for start in candidates if start <= time < start + self.size]

    def is_over(self, start: float) -> bool:
        if self.expires is None:
            return False
        return self.watermark >= start + self.size + self.expires

    def add_event(self, event: Happening) -> None:
        starts = [start for start in self.list_starts(event.time) if not self.is_over(start)]
        if not starts:
            self.late.append(event)
        for start in starts:
            window = (event.key, start)
            if event.operation == DELETE:
                self.live.pop(window, None)
            else:
                apply = OPERATIONS[event.operation]
                self.live[window] = apply(self.live.get(window, 0), event.operand)
        self.watermark = max(self.watermark, event.time - self.lateness)
        for window in [p for p in self.live if self.is_over(p[1])]:
            self.closed[window] = self.live.pop(window)


@dataclass
class SessionModel:
    """Sessions; all in seconds. Values are joined by ``+``."""

    gap: float
    expires: float | None
    closed_both: bool
    watermark: float = NEVER
    live: dict[tuple[str, float, float], Any] = field(default_factory=dict)
    closed: dict[tuple[str, float, float], Any] = field(default_factory=dict)
    late: list[Happening] = field(default_factory=list)

    def is_near(self, start: float, end: float, time: float) -> bool:
        if self.closed_both:
            return start - self.gap <= time <= end + self.gap
        return start - self.gap < time < end + self.gap

    def is_over(self, end: float) -> bool:
        if self.expires is None:
            return False
        reach = self.gap + (1e-6 if self.closed_both else 0)
        return round((self.watermark - end) * 1e6) >= round((reach + self.expires) * 1e6)

    def add_event(self, event: Happening) -> None:
        sessions = sorted(
            s for s in self.live if s[0] == event.key and self.is_near(s[1], s[2], event.time)
        )
        start = min([event.time, *(s[1] for s in sessions)])
        end = max([event.time, *(s[2] for s in sessions)])
        closed = (s for s in self.closed if s[0] == event.key and not self.is_over(s[2] + self.gap))
        if self.is_over(end) or any(self.is_near(s[1], s[2], event.time) for s in closed):
            self.late.append(event)
        else:
            values = [self.live.pop(session) for session in sessions]
            total = sum(values) if values else 0
            if event.operation != DELETE:
                apply = OPERATIONS[event.operation]
                self.live[event.key, start, end] = apply(total, event.operand)
        self.watermark = max(self.watermark, event.time)
        for session in [s for s in self.live if self.is_over(s[2])]:
            self.closed[session] = self.live.pop(session)
