"""Trailing windows: aggregates as of now over several look-backs, such as the last hour and day.

Source: RollingWindow of Databricks' feature engineering, and Materialize's filters on ``mz_now()``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from muntin.model.axis import Axis, Duration, Origin, format_duration, parse_duration, parse_time
from muntin.model.by_number import ByNumber
from muntin.model.errors import OptionError

if TYPE_CHECKING:
    from muntin.model.policies import Firing

LOOK_BACK = "look_back"
"""The key column with the length of a row's window, in words."""


@dataclass(frozen=True, slots=True)
class Trailing(ByNumber):
    """Windows of several lengths that all end at each multiple of a period.

    Attributes:
        sizes: The look-backs, each a multiple of the period, the longest first.
        every: The distance of the **instants** at which windows end; also the length of a pane.
        origin: Some instant.

    Each instant has one window of each size, which ends there. Windows are numbered by instant and,
    within an instant, by size: window ``k`` belongs to instant ``k // len(sizes)``. Only the newest
    window of a key and size counts: a window replaces the one before it, and emits only if it
    contains other messages.

    Example:
        >>> trail = Trailing(sizes=(60, 20), every=10)
        >>> [(trail.start(k), trail.end(k)) for k in (12, 13, 14)]
        [(0, 60), (40, 60), (10, 70)]
    """

    KIND: ClassVar[str] = "trailing"
    has_panes: ClassVar[bool] = False
    even: ClassVar[bool] = False
    retracts: ClassVar[bool] = True
    result_key: ClassVar[str] = LOOK_BACK

    sizes: tuple[int, ...]
    every: int
    origin: int = 0

    @property
    def axis(self) -> Axis:
        return "time"

    @property
    def can_reopen(self) -> bool:
        """False, since only the newest window of each key and size is kept."""
        return False

    @property
    def labels(self) -> tuple[str, ...]:
        """The look-backs in words, in the order of the sizes."""
        return tuple(format_duration(size) for size in self.sizes)

    @property
    def length(self) -> int:
        return self.sizes[0]

    @property
    def pace(self) -> int:
        return self.every

    @property
    def panes_per_window(self) -> int:
        return self.sizes[0] // self.every

    @property
    def storage(self) -> str:
        each = f"one per {format_duration(self.every)}"
        longest = f"{self.panes_per_window:,} in the longest look-back"
        return f"{each}, {longest}; a message is stored once"

    def count_panes(self, number: int) -> int:
        """Return the number of panes in the windows of a size, by the number of the size."""
        return self.sizes[number] // self.every

    def instant_of(self, window: int) -> int:
        """Return the number of the instant at which a window ends."""
        return window // len(self.sizes)

    def start(self, window: int) -> int:
        return self.end(window) - self.sizes[window % len(self.sizes)]

    def end(self, window: int) -> int:
        return self.instant_of(window) * self.every + self.origin

    def pane_of(self, position: int) -> int:
        return (position - self.origin if self.origin else position) // self.every

    def pane_start(self, pane: int) -> int:
        return self.origin + pane * self.every

    def first_inside(self, window: int) -> int:
        return self.instant_of(window) - self.count_panes(window % len(self.sizes))

    def first_pane(self, window: int) -> int:
        """Return the pane before the window's first, since its messages have just fallen out."""
        return self.first_inside(window) - 1

    def last_pane(self, window: int) -> int:
        return self.instant_of(window) - 1

    def first_window(self, pane: int) -> int:
        return (pane + 1) * len(self.sizes)

    def last_window(self, pane: int) -> int:
        return (pane + self.panes_per_window) * len(self.sizes)

    def last_ended(self, position: int) -> int:
        passed = (position - self.origin) // self.every
        return passed * len(self.sizes) + len(self.sizes) - 1

    def check_policies(self, firing: Firing) -> None:
        """Refuse policies, since a row is only emitted at an instant and replaced by the next."""
        problem = f"doesn't apply to {self}"
        hint = "leave it out, or give a smaller every="
        if firing.early is not None:
            raise OptionError("early", str(firing.early), problem, hint)
        if not firing.accumulate:
            raise OptionError("deltas", str(self), "emit the whole look-back", "leave deltas() out")
        if firing.grace:
            hint = "leave it out: a late message counts from the next instant on"
            raise OptionError("grace", format_duration(firing.grace), problem, hint)
        if firing.retention or firing.rows is not None:
            hint = "leave keep() out: only the newest row of each key is kept"
            raise OptionError("keep", format_duration(firing.retention), problem, hint)

    def __str__(self) -> str:
        return f"trailing {', '.join(reversed(self.labels))} every {format_duration(self.every)}"


def trailing(look_backs: Sequence[Duration], every: Duration, *, origin: Origin = None) -> Trailing:
    """Return windows of several lengths that end at each multiple of ``every``.

    Raises:
        OptionError: When there is no look-back, or one isn't a multiple of ``every`` or is twice.

    Example:
        >>> str(trailing(["1 hour", "1 day"], "1 minute"))
        'trailing 1 hour, 1 day every 1 minute'
    """
    pace = parse_duration("every", every, zero=False)
    if not look_backs:
        hint = 'write .trailing("1 hour", every="1 minute")'
        raise OptionError("trailing", None, "has no look-back", hint)
    sizes: list[int] = []
    for look_back in look_backs:
        size = parse_duration("look_back", look_back, zero=False)
        if size % pace:
            hint = f"give a multiple of every={format_duration(pace)}"
            problem = f"isn't a multiple of {format_duration(pace)}"
            raise OptionError("look_back", str(look_back), problem, hint)
        if size in sizes:
            raise OptionError("look_back", str(look_back), "is listed twice", "leave one out")
        sizes.append(size)
    start = origin if origin is None or isinstance(origin, int) else parse_time("origin", origin)
    return Trailing(tuple(sorted(sizes, reverse=True)), pace, (start or 0) % pace)
