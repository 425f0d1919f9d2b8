"""When a query has something to do though no message comes."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from muntin.model.axis import SECOND
from muntin.model.policies import Policy, parts


def period_of(policies: Sequence[Policy | None], *idle: int | None) -> int | None:
    """How often a tick is needed, so that there is one at each multiple of each policy's period.

    An idle time is noticed within a tenth of it. `None` where nothing goes by the clock. Every tick
    is a batch: where periods have little in common there is one a second, or as often as the
    shortest of them says.
    """
    every = [part.period for policy in policies for part in parts(policy)]
    periods = [period for period in every if period is not None]
    periods += [max(1, time // 10) for time in idle if time is not None]
    return max(gcd(*periods), min(SECOND, *periods)) if periods else None
