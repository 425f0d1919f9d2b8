"""Computes how often a query needs ticks, since some policies follow the wall clock."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from muntin.model.axis import SECOND
from muntin.model.errors import OptionError
from muntin.model.inputs import InputSpec
from muntin.model.joins import Side
from muntin.model.policies import Policy, parts
from muntin.model.spec import WindowSpec


def period_of(policies: Sequence[Policy | None], *idle: int | None) -> int | None:
    """Return the period of ticks, such that one falls on each multiple of each policy's period.

    An idle input is detected within a tenth of its idle time. Every tick causes a batch. So where
    periods have a small common divisor, the period is one second, or the shortest of them if that
    is less. `None` where nothing depends on the clock.
    """
    every = [part.period for policy in policies for part in parts(policy)]
    periods = [period for period in every if period is not None]
    periods += [max(1, time // 10) for time in idle if time is not None]
    return max(gcd(*periods), min(SECOND, *periods)) if periods else None


def period_of_windows(spec: WindowSpec, clock: object = None) -> int | None:
    """Return the period of ticks of windows that follow the machine's clock, microseconds.

    Windows with a ``clock`` of arrival times need no ticks.

    Raises:
        OptionError: When nothing depends on that clock.
    """
    if clock is None:
        firing = spec.firing
        return period_of((firing.early, firing.late if firing.grace else None), spec.idle)
    if not spec.firing.on_wall_clock and spec.idle is None:
        _check_clock(spec, clock)
    return None


def period_of_join(sides: Sequence[Side], clocks: Sequence[object] = (None, None)) -> int | None:
    """Return the period of ticks of a join, of its sides that follow the machine's clock.

    ``clocks`` are the arrival times of each side, where it has some.

    Raises:
        OptionError: When nothing depends on one of these.
    """
    policies: list[Policy | None] = []
    idle = []
    for side, clock in zip(sides, clocks, strict=True):
        own = [side.firing.early, side.firing.late]
        if clock is None:
            policies += own
            idle.append(side.idle)
        elif period_of(own, side.idle) is None:
            _check_clock(side, clock)
    return period_of(policies, *idle)


def _check_clock(spec: InputSpec, clock: object) -> None:
    """Refuse arrival times of an input without policies on the wall clock that nothing reads."""
    if spec.time is None or not spec.limits:
        problem = "has no effect without max_ahead=, idle= and policies on the wall clock"
        raise OptionError("clock", str(clock), problem, "leave it out")
