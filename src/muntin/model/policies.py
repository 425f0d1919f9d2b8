"""Trigger policies of windows: early, full and late emissions, and retention.

Source: the Samza SQL window operator design (early emission, full size and late arrival
policies; a retention policy). A policy on the wall clock fires when the clock passes a multiple
of its period and something has changed. ``After`` follows Samza's ``timeSinceFirstMessage`` and
``timeSinceLastMessage`` and Beam's ``AfterProcessingTime``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypedDict, get_args

from muntin.model.axis import SECOND, Duration, format_duration, parse_duration
from muntin.model.conditions import read_condition
from muntin.model.errors import OptionError
from muntin.model.fill import Fill
from muntin.model.json_dataclass import JsonDataclass
from muntin.model.option_types import check_boolean, check_count


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
        text = f"every {format_duration(self.period)} of wall clock"
        return text if self.least == 1 else f"{text} with at least {self.least} rows"


@dataclass(frozen=True, slots=True)
class RowsOrEvery(JsonDataclass):
    """Emit after so many new messages or by the wall clock, whichever comes first.

    Each emission, whatever caused it, restarts the count of messages. (Beam calls it
    ``AfterFirst`` of an ``AfterCount`` and an ``AfterProcessingTime``.)
    """

    KIND: ClassVar[str] = "rows or wall clock"

    rows: int
    period: int

    def __str__(self) -> str:
        return f"{EveryRows(self.rows)} or {Every(self.period)}"


Since = Literal["first", "last"]
"""The message from which ``After`` measures its time, among those not emitted yet."""


@dataclass(frozen=True, slots=True)
class After(JsonDataclass):
    """Emit when the first, or the last, message that the window hasn't emitted is old enough.

    A message's age is the wall-clock time since the batch that read it. The ages are compared when
    the clock passes a multiple of a tenth of ``wait``, so a window emits at most that much late.

    Attributes:
        wait: The age at which the window emits, microseconds of wall clock.
        since: ``first``: the age of the first message. ``last``: that of the last one, so that a
            window emits when it has got no message for so long.
        rows: The number of new messages with which the window emits at once; ``None`` for any.
    """

    KIND: ClassVar[str] = "after"

    wait: int
    since: str = "first"
    rows: int | None = None

    @property
    def period(self) -> int:
        """The time between two comparisons of ages, microseconds of wall clock."""
        return max(1, self.wait // 10)

    def __str__(self) -> str:
        text = f"{format_duration(self.wait)} after the {self.since} new message"
        return text if self.rows is None else f"every {self.rows} rows or {text}"


@dataclass(frozen=True, slots=True)
class When(JsonDataclass):
    """Emit after each batch that changed the window, if a condition on its values is true.

    Attributes:
        condition: Comparisons of aggregates and keys; see ``muntin.model.conditions``.
    """

    KIND: ClassVar[str] = "when"
    rows: ClassVar[None] = None
    period: ClassVar[None] = None

    condition: str

    def __str__(self) -> str:
        return f"when {self.condition}"


@dataclass(frozen=True, slots=True)
class Never(JsonDataclass):
    """Never emit by itself; windows still emit at their end, or when too many wait."""

    KIND: ClassVar[str] = "crowded"  # as checkpoints store it
    rows: ClassVar[None] = None
    period: ClassVar[None] = None

    def __str__(self) -> str:
        return "never"


@dataclass(frozen=True, slots=True)
class WaitingLimit(JsonDataclass):
    """A limit of the current windows that have changed and wait to emit.

    Source: the buffers of Kafka Streams' ``suppress``.

    Attributes:
        windows: The greatest number, divided equally among the shards.
        stop: Whether the query stops with an error beyond it. Otherwise the oldest windows emit
            early.
    """

    windows: int
    stop: bool = False

    def __str__(self) -> str:
        beyond = "the query stops" if self.stop else "the oldest emit early"
        return f"{beyond} when more than {self.windows:,} wait"


OnePolicy = Each | EveryRows | Every | RowsOrEvery | After | When | Never
"""A single policy: ``rows`` is set if it counts new messages, ``period`` if it has a clock."""


@dataclass(frozen=True, slots=True)
class FirstThen(JsonDataclass):
    """Emit by one policy the first time, and by another from then on.

    Early and late emissions count separately. (Beam calls it ``AfterEach`` of a trigger and a
    repeated one. With ``Never`` it is a trigger without ``Repeatedly``.)
    """

    KIND: ClassVar[str] = "first then"

    first: OnePolicy
    then: OnePolicy

    def __str__(self) -> str:
        return f"first {self.first}, then {self.then}"


Policy = OnePolicy | FirstThen


def parts(policy: Policy | None) -> tuple[OnePolicy, ...]:
    """Return the single policies that a policy consists of.

    Example:
        >>> parts(FirstThen(Each(), EveryRows(3))), parts(Each()), parts(None)
        ((Each(), EveryRows(rows=3)), (Each(),), ())
    """
    if isinstance(policy, FirstThen):
        return policy.first, policy.then
    return () if policy is None else (policy,)


def turn(policy: Policy, emitted: bool) -> OnePolicy:
    """Return the policy in force for a window that has, or hasn't, emitted early or late.

    Example:
        >>> [str(turn(FirstThen(Each(), EveryRows(3)), emitted)) for emitted in (False, True)]
        ['each message', 'every 3 rows']
    """
    return parts(policy)[-1 if emitted else 0]


def by_message(policy: Policy | None) -> bool:
    """Return whether a message alone can make its window emit."""
    return any(part.period is None or part.rows is not None for part in parts(policy))


def by_clock(policy: Policy | None) -> bool:
    """Return whether the wall clock alone can make a window emit."""
    return any(part.period is not None for part in parts(policy))


def by_change(policy: Policy | None) -> bool:
    """Return whether changed windows can wait and are looked up when they change again."""
    looked_up = by_message(policy) and not isinstance(policy, Each)
    return looked_up or bool(ages_of(policy))


def ages_of(*policies: Policy | None) -> list[str]:
    """Return the messages whose ages some policies compare: ``first``, ``last``, both or none.

    Example:
        >>> ages_of(FirstThen(Each(), After(500_000, "last")), None)
        ['last']
    """
    each = (part for policy in policies for part in parts(policy))
    return sorted({part.since for part in each if isinstance(part, After)})


# The late policy if none is set; a join recognizes it by identity.
DEFAULT_LATE = Every(10 * SECOND)


@dataclass(frozen=True, slots=True)
class Firing(JsonDataclass):
    """All policies of one query.

    Attributes:
        early: The policy of current windows that have changed; ``None`` for no early emissions.
        late: The policy of past windows that have changed, within the grace.
        grace: How long after its end a window takes late messages, on the windows' axis.
        retention: How long after its end a window's state stays readable, on the windows' axis.
        accumulate: ``True`` if each emission has the whole result so far; ``False`` if it has only
            the messages since the window's last firing.
        repeat: Whether a window that has emitted early emits in full although nothing is new.
        rows: Greatest number of messages that are kept in closed windows; the oldest windows are
            dropped first. ``None`` for no limit.
        fill: The filling of empty windows; ``None`` if they don't emit.
        over: The limit of windows that wait to emit early; ``None`` for no limit.
    """

    early: Policy | None = None
    late: Policy = DEFAULT_LATE
    grace: int = 0
    retention: int = 0
    accumulate: bool = True
    rows: int | None = None
    repeat: bool = True
    fill: Fill | None = None
    over: WaitingLimit | None = None

    @property
    def emits_early(self) -> bool:
        """True if a window may emit before it is full."""
        only_stops = isinstance(self.early, Never) and self.over is not None and self.over.stop
        return self.early is not None and not only_stops


class PolicyWords(TypedDict, total=False):
    """A policy in the words of ``early()`` and ``late()``."""

    each: bool
    rows: int | None
    every: Duration | None
    at_least: int | None
    after: Duration | None
    since: Since | None
    when: str | None


Then = PolicyWords | Literal["never"]
"""The policy after the first emission, in the words of ``early()`` and ``late()``."""


def policy(
    option: str,
    each: bool = False,
    rows: int | None = None,
    every: Duration | None = None,
    at_least: int | None = None,
    when: str | None = None,
    then: Then | None = None,
    after: Duration | None = None,
    since: Since | None = None,
) -> Policy:
    """Return the policy of these options, followed by ``then`` if it is given."""
    first = _one(option, each, rows, every, at_least, when, after, since)
    if then is None:
        return first
    if then == "never":
        return FirstThen(first, Never())
    if not isinstance(then, Mapping) or not then.keys() <= PolicyWords.__optional_keys__:
        hint = 'write for example then={"every": "1 minute"}, in the words of early(), or "never"'
        raise OptionError("then", then, "isn't a policy", hint)
    return FirstThen(first, _one("then", **then))


def _one(
    option: str,
    each: bool = False,
    rows: int | None = None,
    every: Duration | None = None,
    at_least: int | None = None,
    when: str | None = None,
    after: Duration | None = None,
    since: Since | None = None,
) -> OnePolicy:
    check_boolean("each", each)
    check_count("rows", rows, of="row")
    check_count("at_least", at_least, of="row")
    if when is not None:
        if each or any(word is not None for word in (rows, every, at_least, after, since)):
            hint = "leave the others out: the condition is looked at after each batch"
            raise OptionError("when", when, "can't be combined with other triggers", hint)
        read_condition(when)
        return When(when)
    if since is not None and after is None:
        raise OptionError("since", since, "says from when a time counts", "give after=DURATION")
    if each == any(word is not None for word in (rows, every, after)):
        hint = (
            "give each=True, rows=N, every=DURATION or both, whichever comes first, "
            "after=DURATION, or when=TEXT"
        )
        problem = "asks for each message and for more" if each else "asks for no policy"
        raise OptionError(option, each, problem, hint)
    if after is not None:
        return _make_after(rows, every, at_least, after, since)
    period = None if every is None else parse_duration(option, every, zero=False)
    if at_least is not None:
        if period is None or rows is not None:
            hint = "give it beside every=DURATION, and without rows=N"
            raise OptionError("at_least", at_least, "only works with every=", hint)
        return Every(period, at_least)
    if rows is None:
        return Each() if period is None else Every(period)
    return EveryRows(rows) if period is None else RowsOrEvery(rows, period)


def limit_waiting(over: int | None, stop: bool) -> WaitingLimit | None:
    """Return the limit of waiting windows, with its options checked."""
    check_count("over", over, of="window")
    check_boolean("stop", stop)
    if over is None:
        if stop:
            hint = "give over=N, the greatest number of windows that may wait"
            raise OptionError("stop", stop, "stops at no limit", hint)
        return None
    return WaitingLimit(over, stop)


def _make_after(
    rows: int | None,
    every: Duration | None,
    at_least: int | None,
    after: Duration,
    since: Since | None,
) -> After:
    if every is not None or at_least is not None:
        hint = "give after=DURATION without every= and at_least=, or one of them in then="
        raise OptionError("after", after, "is a clock beside another", hint)
    if since not in (None, *get_args(Since)):
        raise OptionError("since", since, "is no message to count from", 'give "first" or "last"')
    return After(parse_duration("after", after, zero=False), since or "first", rows)
