"""When a window emits: early, full and late, and how long it is kept.

Source: the Samza SQL window operator design (early emission, full size and late arrival
policies; a retention policy). A policy on the wall clock fires when the clock passes a multiple
of its period and something has changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from muntin.model.axis import SECOND, Duration, micros, phrase
from muntin.model.errors import OptionError
from muntin.model.plain import Family, Plain, read_by


@dataclass(frozen=True, slots=True)
class Each(Plain):
    """Emit after each message (on Spark: at most once a batch)."""

    KIND: ClassVar[str] = "each"

    def __str__(self) -> str:
        return "each message"


@dataclass(frozen=True, slots=True)
class EveryRows(Plain):
    """Emit after so many new messages in the window."""

    KIND: ClassVar[str] = "rows"

    rows: int

    def __str__(self) -> str:
        return f"every {self.rows} rows"


@dataclass(frozen=True, slots=True)
class Every(Plain):
    """Emit when the wall clock passes a multiple of ``period`` (microseconds)."""

    KIND: ClassVar[str] = "wall clock"

    period: int

    def __str__(self) -> str:
        return f"every {phrase(self.period)} of wall clock"


Policy = Each | EveryRows | Every

POLICIES: Family[Policy] = Family(Each, EveryRows, Every)

# What late messages wait for where nothing is said; a join knows it by identity.
DEFAULT_LATE = Every(10 * SECOND)


@dataclass(frozen=True, slots=True)
class Firing(Plain):
    """All policies of one query.

    Attributes:
        early: When a current window that has changed emits; ``None`` is never.
        late: When a past window that has changed emits, within the grace.
        grace: How long after its end a window takes late messages, on the windows' axis.
        retention: How long after its end a window's state stays readable, on the windows' axis.
        accumulate: ``True``: a firing carries the whole result so far; ``False``: only what is
            new since the window's last firing.
        rows: How many messages may be kept in windows that take no more, the oldest windows going
            first; ``None`` is any number.
    """

    early: Policy | None = field(default=None, metadata=read_by(POLICIES.read))
    late: Policy = field(default=DEFAULT_LATE, metadata=read_by(POLICIES.read))
    grace: int = 0
    retention: int = 0
    accumulate: bool = True
    rows: int | None = None

    @property
    def on_wall_clock(self) -> bool:
        """Whether some policy must fire though no input arrives."""
        return isinstance(self.early, Every) or (self.grace > 0 and isinstance(self.late, Every))


def policy(option: str, each: bool, rows: int | None, every: Duration | None) -> Policy:
    """Make the one policy that was asked for.

    Raises:
        OptionError: When none or more than one was asked for, or its figure is below 1.
    """
    if sum((each, rows is not None, every is not None)) != 1:
        hint = "give exactly one of each=True, rows=N, every=DURATION"
        raise OptionError(option, (each, rows, every), "asks for none or several policies", hint)
    if rows is not None:
        if rows < 1:
            raise OptionError(option, rows, "is less than one row", "give rows=1 or more")
        return EveryRows(rows)
    if every is not None:
        return Every(micros(option, every, zero=False))
    return Each()
