"""The slow oracle: what every window says, computed the obvious way from all of its messages.

It keeps each window's messages in a list and walks over every open window at every step, so
that it can be read beside the window model line by line. The fast operators are tested against
it; it shares nothing with them but the spec, and needs nothing but the standard library.

Example:
    >>> from muntin.model import aggregates, windows
    >>> from muntin.model.spec import WindowSpec
    >>> spec = WindowSpec(
    ...     keys=("k",),
    ...     time="t",
    ...     windows=windows.tumbling("10 us"),
    ...     aggregates={"most": aggregates.max("v")},
    ... )
    >>> oracle = Oracle(spec)
    >>> oracle.step([{"k": "a", "t": 3, "v": 7}], wall=0).firings
    []
    >>> oracle.step([{"k": "a", "t": 12, "v": 1}], wall=1).firings[0]["most"]
    7
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from muntin.model.aggregates import Aggregate
from muntin.model.policies import Each, Every, EveryRows, Policy
from muntin.model.spec import REASONS, WindowSpec

Message = dict[str, Any]
Position = int | float
"""Microseconds since the epoch; minus infinity before the first message, infinity at the end."""

_LONG_LEAST, _LONG_GREATEST = -(2**63), 2**63 - 1


@dataclass
class Step:
    """What one step (one micro-batch) gives.

    Attributes:
        firings: Key columns, window_start, window_end, the aggregates, emission and revision.
        rejected: The input columns, the reason, and the watermark in force (None: none yet).
        counts: How many messages were seen, were counted, and were rejected for each reason;
            ``overflow`` counts windows, not messages.
        watermark: Where the watermark stands after the step; None: no message has moved it yet.
    """

    firings: list[dict[str, Any]]
    rejected: list[dict[str, Any]]
    counts: dict[str, int]
    watermark: Position | None = None


@dataclass
class _Window:
    key: tuple[Any, ...]
    start: int
    end: int
    messages: list[Message] = field(default_factory=list)
    told: int = 0
    revision: int = 0

    @property
    def untold(self) -> list[Message]:
        """The messages that came after the last firing."""
        return self.messages[self.told :]


class Oracle:
    """A windowed aggregation that is slow and obvious.

    Args:
        spec: The query; its columns are names.
    """

    def __init__(self, spec: WindowSpec) -> None:
        self._spec = spec
        self._windows: dict[tuple[int, tuple[Any, ...]], _Window] = {}
        self._watermark: Position = -math.inf
        self._wall: int | None = None
        self._columns = dict.fromkeys((*spec.keys, spec.time))

    def step(self, messages: Sequence[Message], wall: int, final: bool = False) -> Step:
        """Take one micro-batch and say what it makes the windows say.

        Args:
            messages: The batch. The time column holds microseconds, None, or the text that
                could not be read as a time.
            wall: The wall clock, microseconds.
            final: Whether the input ends here, so that every window is closed.

        Returns:
            The firings in order of window start, then key; the rejected in order of arrival.
        """
        result = Step([], [], dict.fromkeys(("seen", "counted", *REASONS), 0))
        after = self._watermark
        for message in messages:
            reason = self._reason_to_reject(message, wall)
            if reason in (None, "late"):
                after = max(after, message[self._spec.time] - self._spec.lateness)
            self._account(message, reason, result)
        if final:
            after = math.inf
        for window in sorted(self._windows.values(), key=lambda w: (w.start, w.key)):
            emission = self._emission(window, after, wall)
            if emission is not None:
                self._fire(window, emission, result)
        self._watermark, self._wall = after, wall
        self._forget_closed()
        result.watermark = self._known_watermark()
        return result

    def _reason_to_reject(self, message: Message, wall: int) -> str | None:
        spec = self._spec
        time = message[spec.time]
        if isinstance(time, str):
            return "malformed"
        if time is None:
            return "null_time"
        if any(message[key] is None for key in spec.keys):
            return "null_key"
        if spec.max_ahead is not None and time > wall + spec.max_ahead:
            return "future"
        if not any(self._is_open(start) for start in self._starts(time)):
            return "late"
        return None

    def _starts(self, time: int) -> Iterator[int]:
        """Where each window that contains a time starts, the latest first."""
        windows = self._spec.windows
        start = time - (time - windows.origin) % windows.slide
        while start + windows.size > time:
            yield start
            start -= windows.slide

    def _is_open(self, start: int) -> bool:
        return start + self._spec.windows.size + self._spec.firing.grace > self._watermark

    def _account(self, message: Message, reason: str | None, result: Step) -> None:
        self._columns |= dict.fromkeys(message)
        result.counts["seen"] += 1
        result.counts[reason or "counted"] += 1
        if reason is None:
            self._put(message)
        else:
            result.rejected.append(self._rejected(message, reason))

    def _put(self, message: Message) -> None:
        key = tuple(message[name] for name in self._spec.keys)
        for start in self._starts(message[self._spec.time]):
            if self._is_open(start):
                fresh = _Window(key, start, start + self._spec.windows.size)
                self._windows.setdefault((start, key), fresh).messages.append(message)

    def _rejected(self, message: Message, reason: str) -> dict[str, Any]:
        return {**message, "reason": reason, "watermark": self._known_watermark()}

    def _known_watermark(self) -> Position | None:
        return None if self._watermark == -math.inf else self._watermark

    def _emission(self, window: _Window, after: Position, wall: int) -> str | None:
        before, firing = self._watermark, self._spec.firing
        if before < window.end <= after:
            return "full"
        if not window.untold:
            return None
        if window.end <= before:
            closes = window.end + firing.grace <= after
            return "late" if closes or self._is_due(firing.late, window, wall) else None
        return "early" if self._is_due(firing.early, window, wall) else None

    def _is_due(self, policy: Policy | None, window: _Window, wall: int) -> bool:
        match policy:
            case Each():
                return True
            case EveryRows(rows):
                return len(window.untold) >= rows
            case Every(period):
                return self._wall is not None and wall // period > self._wall // period
        return False

    def _fire(self, window: _Window, emission: str, result: Step) -> None:
        spec = self._spec
        spoken_of = window.messages if spec.firing.accumulate else window.untold
        key = dict(zip(spec.keys, window.key, strict=True))
        values = {name: _value(agg, spoken_of, spec.time) for name, agg in spec.aggregates.items()}
        sums = [name for name, agg in spec.aggregates.items() if agg.kind == "sum"]
        overflown = [name for name in sums if _overflows(values[name])]
        if overflown:
            blank = dict.fromkeys(self._columns) | key | {spec.time: window.start}
            result.rejected.append(self._rejected(blank, "overflow"))
            result.counts["overflow"] += 1
        values |= dict.fromkeys(overflown)
        bounds = {"window_start": window.start, "window_end": window.end}
        told = {"emission": emission, "revision": window.revision}
        result.firings.append(key | bounds | values | told)
        window.told = len(window.messages)
        window.revision += 1

    def _forget_closed(self) -> None:
        self._windows = {at: w for at, w in self._windows.items() if self._is_open(w.start)}


def _value(agg: Aggregate, messages: list[Message], time: str) -> Any:
    if agg.kind == "count" and agg.column is None:
        return len(messages)
    if agg.kind in ("first", "last"):
        return _at_the_end(agg, messages, by=time)
    if agg.kind in ("arg_min", "arg_max"):
        return _at_the_end(agg, messages, by=agg.by)
    in_time_order = sorted(messages, key=lambda message: message[time])
    values = [m[agg.column] for m in in_time_order if m[agg.column] is not None]
    if agg.kind in _COUNTS:
        return _COUNTS[agg.kind](values)
    return _VALUES[agg.kind](values, agg) if values else None


def _at_the_end(agg: Aggregate, messages: list[Message], by: str) -> Any:
    """The value where ``by`` is least or greatest; of several, the least or greatest value."""
    rows = [(message[by], message[agg.column]) for message in messages if message[by] is not None]
    if not rows:
        return None
    pick: Callable[..., Any] = min if agg.kind in ("first", "arg_min") else max
    best = pick((_rank(at) for at, _ in rows))
    tied = [value for at, value in rows if _rank(at) == best and value is not None]
    return pick(tied, key=_rank) if tied else None


def _rank(value: Any) -> tuple[bool, Any]:
    """Orders values as Spark does: NaN equals itself and is greater than every number."""
    return (True, 0) if _is_nan(value) else (False, value)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _overflows(value: Any) -> bool:
    return type(value) is int and not _LONG_LEAST <= value <= _LONG_GREATEST


def _variance(values: list[Any], agg: Aggregate) -> float | None:
    if len(values) < 2:
        return None
    mean = sum(values) / len(values)
    squares: float = sum((value - mean) * (value - mean) for value in values)
    return squares / (len(values) - 1)


def _stddev(values: list[Any], agg: Aggregate) -> float | None:
    variance = _variance(values, agg)
    return None if variance is None else math.sqrt(variance)


def _quantile(values: list[Any], agg: Aggregate) -> Any:
    numbers = sorted(value for value in values if not _is_nan(value))
    place = max(1, math.ceil(agg.option("q") * len(numbers)))
    return numbers[place - 1] if numbers else None


def _fold(values: Iterable[Any], agg: Aggregate) -> Any:
    assert agg.functions is not None
    state = agg.functions.initializer()
    for value in values:
        state = agg.functions.aggregator(state, value)
    return agg.functions.finisher(state)


_COUNTS: dict[str, Callable[[list[Any]], int]] = {
    "count": len,
    "count_if": lambda values: values.count(True),
    "approx_distinct": lambda values: len({_rank(value) for value in values}),
}
_VALUES: dict[str, Callable[[list[Any], Aggregate], Any]] = {
    "sum": lambda values, _: sum(values),
    "min": lambda values, _: min(values, key=_rank),
    "max": lambda values, _: max(values, key=_rank),
    "mean": lambda values, _: sum(values) / len(values),
    "variance": _variance,
    "stddev": _stddev,
    "quantile": _quantile,
    "bool_and": lambda values, _: all(values),
    "bool_or": lambda values, _: any(values),
    "user": _fold,
}
