"""When a window emits: early, full and late, and how long it is kept.

Source: the Samza SQL window operator design (early emission, full size and late arrival
policies; a retention policy). A policy on the wall clock fires when the clock passes a multiple
of its period and something has changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from muntin.model.axis import SECOND, Duration, micros, phrase
from muntin.model.conditions import read
from muntin.model.errors import OptionError
from muntin.model.json_dataclass import JsonDataclass


@dataclass(frozen=True, slots=True)
class Each(JsonDataclass):
    """Emit after each message (on Spark: at most once per batch)."""

    KIND: ClassVar[str] = "each"
    rows: ClassVar[None] = None
    period: ClassVar[None] = None

    def __str__(self) -> str:
        return "each message"


@dataclass(frozen=True, slots=True)
class EveryRows(JsonDataclass):
    """Emit after so many new messages in the window."""

    KIND: ClassVar[str] = "rows"
    period: ClassVar[None] = None

    rows: int

    def __str__(self) -> str:
        return f"every {self.rows} rows"


@dataclass(frozen=True, slots=True)
class Every(JsonDataclass):
    """Emit when the wall clock passes a multiple of ``period`` (microseconds).

    A window with fewer than ``least`` new messages waits for the next time. (Beam calls it
    ``AfterAll`` of an ``AfterCount`` and an ``AfterProcessingTime``.)
    """

    KIND: ClassVar[str] = "wall clock"
    rows: ClassVar[None] = None

    period: int
    least: int = 1

    def __str__(self) -> str:
        text = f"every {phrase(self.period)} of wall clock"
        return text if self.least == 1 else f"{text} with at least {self.least} rows"


@dataclass(frozen=True, slots=True)
class RowsOrEvery(JsonDataclass):
    """Emit after so many new messages or by the wall clock, whichever comes first.

    Whatever made a window emit, its messages are counted from there anew. (Beam calls it
    ``AfterFirst`` of an ``AfterCount`` and an ``AfterProcessingTime``.)
    """

    KIND: ClassVar[str] = "rows or wall clock"

    rows: int
    period: int

    def __str__(self) -> str:
        return f"{EveryRows(self.rows)} or {Every(self.period)}"


@dataclass(frozen=True, slots=True)
class When(JsonDataclass):
    """Emit after each batch that changed the window, if a condition of what it holds is true.

    Attributes:
        condition: Comparisons of aggregates and keys; see ``muntin.model.conditions``.
    """

    KIND: ClassVar[str] = "when"
    rows: ClassVar[None] = None
    period: ClassVar[None] = None

    condition: str

    def __str__(self) -> str:
        return f"when {self.condition}"


Policy = Each | EveryRows | Every | RowsOrEvery | When
"""Has ``rows`` where it goes by new messages, and ``period`` where it goes by the wall clock."""


def by_change(policy: Policy | None) -> bool:
    """Whether windows that have changed may wait, and are looked up when they change again."""
    return policy is not None and (policy.rows is not None or isinstance(policy, When))


# What late messages wait for where nothing is said; a join knows it by identity.
DEFAULT_LATE = Every(10 * SECOND)


@dataclass(frozen=True, slots=True)
class Fill(JsonDataclass):
    """Windows without a message emit too.

    Attributes:
        value: What sums are of no message, ``zero`` or ``null``.
        up_to: How long after the end of its last window with a message a key is filled,
            microseconds.
    """

    value: str
    up_to: int

    def __str__(self) -> str:
        return f"{self.value} up to {phrase(self.up_to)}"


def fill_of(value: str, up_to: Duration) -> Fill:
    """How windows without a message are filled."""
    if value not in ("zero", "null"):
        hint = 'give "zero", which makes sums 0, or "null"; counts are 0 in both'
        raise OptionError("fill", value, "isn't what fills a window", hint)
    return Fill(value, micros("up_to", up_to, zero=False))


@dataclass(frozen=True, slots=True)
class Firing(JsonDataclass):
    """All policies of one query.

    Attributes:
        early: When a current window that has changed emits; ``None`` is never.
        late: When a past window that has changed emits, within the grace.
        grace: How long after its end a window takes late messages, on the windows' axis.
        retention: How long after its end a window's state stays readable, on the windows' axis.
        accumulate: ``True``: a firing carries the whole result so far; ``False``: only what is
            new since the window's last firing.
        repeat: Whether a window that has emitted early emits in full when nothing is new.
        rows: How many messages may be kept in windows that take no more, the oldest windows going
            first; ``None`` is any number.
        fill: Whether windows of a key emit that hold nothing, and what.
    """

    early: Policy | None = None
    late: Policy = DEFAULT_LATE
    grace: int = 0
    retention: int = 0
    accumulate: bool = True
    rows: int | None = None
    repeat: bool = True
    fill: Fill | None = None

    @property
    def on_wall_clock(self) -> bool:
        """Whether some policy must fire though no input arrives."""
        late = self.late if self.grace > 0 else None
        return any(p is not None and p.period is not None for p in (self.early, late))


def policy(
    option: str,
    each: bool,
    rows: int | None,
    every: Duration | None,
    at_least: int | None = None,
    when: str | None = None,
) -> Policy:
    """Make the policy that was asked for."""
    if when is not None:
        if each or any(given is not None for given in (rows, every, at_least)):
            hint = "leave the others out: the condition is looked at after each batch"
            raise OptionError("when", when, "says so alone when a window emits", hint)
        read(when)
        return When(when)
    if each == (rows is not None or every is not None):
        hint = "give each=True, rows=N, every=DURATION or both, whichever comes first, or when=TEXT"
        problem = "asks for each message and for more" if each else "asks for no policy"
        raise OptionError(option, (each, rows, every), problem, hint)
    if rows is not None and rows < 1:
        raise OptionError(option, rows, "is less than one row", "give rows=1 or more")
    period = None if every is None else micros(option, every, zero=False)
    if at_least is not None:
        if period is None or rows is not None:
            hint = "give it beside every=DURATION, and without rows=N"
            raise OptionError("at_least", at_least, "is what the wall clock looks for", hint)
        if at_least < 1:
            raise OptionError("at_least", at_least, "is less than one row", "give 1 or more")
        return Every(period, at_least)
    if rows is None:
        return Each() if period is None else Every(period)
    return EveryRows(rows) if period is None else RowsOrEvery(rows, period)
