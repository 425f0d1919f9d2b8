"""Computes how often a query needs ticks, since some policies follow the wall clock."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from muntin.model.axis import SECOND
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


def period_of_windows(spec: WindowSpec) -> int | None:
    """Return the period of ticks of windows that follow the machine's clock, microseconds."""
    firing = spec.firing
    return period_of((firing.early, firing.late if firing.grace else None), spec.idle)


def period_of_join(sides: Sequence[Side]) -> int | None:
    """Return the period of ticks of a join, of its sides that follow the machine's clock."""
    policies = [policy for side in sides for policy in (side.firing.early, side.firing.late)]
    return period_of(policies, *(side.idle for side in sides))
