"""Computes how often a query needs ticks, since some policies follow the wall clock."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from muntin.model.axis import SECOND
from muntin.model.errors import OptionError
from muntin.model.inputs import DURATIONS, InputSpec
from muntin.model.policies import Policy, parts


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


def find_tick_period(inputs: Sequence[InputSpec], clocks: Sequence[object]) -> int | None:
    """Return the period of ticks of a query whose inputs follow the machine's clock, microseconds.

    Inputs with arrival times in ``clocks`` need no ticks.

    Raises:
        OptionError: When an input has arrival times that nothing reads.
    """
    policies: list[Policy | None] = []
    idle = []
    for spec, clock in zip(inputs, clocks, strict=True):
        if clock is None:
            policies += spec.policies
            idle.append(spec.idle)
        elif not spec.reads_clock:
            limits = ", ".join(f"{one.name}=" for one in DURATIONS if one.reason)
            problem = f"has no effect without {limits}, idle= and policies on the wall clock"
            raise OptionError("clock", str(clock), problem, "leave it out")
    return period_of(policies, *idle)
