"""Options of a query's input: the positions of its messages, its watermark and its columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import Any, Literal, Self

from muntin.model.axis import MINUTE, Axis, Duration, format_duration, format_length, parse_duration
from muntin.model.errors import OptionError
from muntin.model.facts import Fact, format_name, length_fact, make_fact, names_fact
from muntin.model.json_dataclass import JsonDataclass
from muntin.model.policies import Firing

AHEAD = 15 * MINUTE
"""Default of ``max_ahead``: how far a message may be ahead of the wall clock."""
WatermarkBy = Literal["source", "greatest"]
BY_SOURCE: WatermarkBy = "source"
"""Each partition of the source has a clock of its own."""
BY_GREATEST: WatermarkBy = "greatest"
"""The input has one clock, which follows the greatest event time."""


@dataclass(frozen=True)
class TimeLimits:
    """The bounds of a message's time, relative to the clock; false if any time is accepted.

    Attributes:
        max_ahead: How far ahead of the clock, microseconds; ``None`` for no limit.
    """

    max_ahead: int | None = None

    def __bool__(self) -> bool:
        return self.max_ahead is not None


NO_LIMITS = TimeLimits()


@dataclass(frozen=True)
class InputOptions:
    """Options for the positions and the watermark of an input's messages.

    Attributes:
        lateness: How far the watermark trails the greatest event time, microseconds.
        max_ahead: How far ahead of the wall clock a message may be, microseconds; ``None`` for no
            limit.
        offset: The columns of a message's partition and of its offset in it.
        idle: Time without messages after which the watermark follows the wall clock, microseconds;
            ``None`` for never.
        watermark: ``source`` if each partition of the source has a clock, ``greatest`` if the
            input has one; ``None`` for ``source`` where the source reports partitions.
        clocks: The columns whose values have a clock each, instead of the partitions.
    """

    time: str | None = None
    lateness: int = 0
    max_ahead: int | None = AHEAD
    offset: tuple[str, str] | None = None
    clock: str | None = None
    idle: int | None = None
    watermark: WatermarkBy | None = None
    clocks: tuple[str, ...] = ()

    @classmethod
    def parse(
        cls,
        time: str | None,
        lateness: Duration,
        max_ahead: Duration | None,
        offset: tuple[str, str] | None,
        idle: Duration | None,
        clock: str | None = None,
        watermark: str | Sequence[str] | None = None,
    ) -> InputOptions:
        """Return the marks of these options, whose durations are text or ``timedelta``."""
        lateness_us = parse_duration("lateness", lateness)
        max_ahead_us = parse_max_ahead(max_ahead)
        idle_us = None if idle is None else parse_duration("idle", idle, zero=False)
        watermark_by, clocks = read_watermark(watermark)
        return cls(time, lateness_us, max_ahead_us, offset, clock, idle_us, watermark_by, clocks)

    def on(self, axis: Axis) -> InputOptions:
        """Return the marks for windows on an axis; on the rows axis without options of time."""
        if axis == "time":
            return self
        return replace(self, time=None, lateness=0, idle=None, watermark=None, clocks=())

    @property
    def options(self) -> dict[str, Any]:
        """The marks as options of ``InputSpec``, except the time column."""
        names = {one.name for one in fields(self)} - {"time", "clock"}
        return {name: getattr(self, name) for name in names}

    @property
    def limits(self) -> TimeLimits:
        """The bounds of a message's time, relative to the clock."""
        return TimeLimits(self.max_ahead)


def parse_max_ahead(value: Duration | None) -> int | None:
    """Return how far ahead of the clock a time may be, microseconds; ``None`` for any time.

    Example:
        >>> parse_max_ahead("1 second"), parse_max_ahead("any"), parse_max_ahead(None)
        (1000000, None, None)
    """
    if value is None or (isinstance(value, str) and value.strip().lower() == "any"):
        return None
    return parse_duration("max_ahead", value)


def read_watermark(value: object) -> tuple[WatermarkBy | None, tuple[str, ...]]:
    """Read the option ``watermark``: a word, or the columns whose values have a clock each.

    Example:
        >>> read_watermark("greatest"), read_watermark(["device"])
        (('greatest', ()), (None, ('device',)))
    """
    if value is None:
        return None, ()
    if isinstance(value, str) and value in (BY_SOURCE, BY_GREATEST):
        return (BY_SOURCE if value == BY_SOURCE else BY_GREATEST), ()
    names = [] if isinstance(value, str) or not isinstance(value, Sequence) else [*value]
    if not names or not all(isinstance(name, str) and name for name in names):
        hint = 'give "source", "greatest", or a list of columns, as in watermark=["device"]'
        raise OptionError("watermark", value, "isn't a kind of watermark", hint)
    if len({*names}) < len(names):
        raise OptionError("watermark", value, "names a column twice", "name it once")
    return None, tuple(names)


@dataclass(frozen=True)
class InputSpec(JsonDataclass):
    """One input of a query, as its checkpoint stores it; the rest are fields of `InputOptions`.

    Attributes:
        keys: The key columns, in order; in a join those that are compared for equality.
        firing: The trigger policies, with the grace for late messages and the retention.
        offset: The columns of a message's partition and of its offset in it, if messages have
            offsets. A message whose offset was accepted before changes nothing.
        types: The Arrow type of every column that is read, in words.
        zone: The session's time zone, if the messages depend on it.
    """

    keys: tuple[str, ...]
    time: str | None
    _: KW_ONLY
    firing: Firing = Firing()
    lateness: int = 0
    max_ahead: int | None = None
    offset: tuple[str, str] | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    zone: str | None = None
    idle: int | None = None
    watermark: WatermarkBy | None = None
    clocks: tuple[str, ...] = ()

    @property
    def used_columns(self) -> frozenset[str]:
        """The columns that the query reads by name: keys, time, offset and clocks."""
        time = () if self.time is None else (self.time,)
        return frozenset((*self.keys, *(self.offset or ()), *time, *self.clocks))

    @property
    def limits(self) -> TimeLimits:
        """The bounds of a message's time, relative to the clock."""
        return TimeLimits(self.max_ahead)

    def follows_upstream(self, axis: Axis) -> bool:
        """Return whether the watermark may follow that of an upstream operator.

        With a negative lateness, it would be ahead of rows that are still to come.
        """
        return axis == "time" and self.idle is None and self.lateness >= 0

    def check_input(self, axis: Axis, whose: str = "") -> None:
        """Refuse a retention below the grace, and options of time on the rows axis."""
        grace, retention = (
            format_length(n, axis) for n in (self.firing.grace, self.firing.retention)
        )
        if self.firing.retention < self.firing.grace:
            hint = f"keep at least {grace}"
            raise OptionError("keep", f"{retention}{whose}", f"is below the grace {grace}", hint)
        for option, duration in (("lateness", self.lateness), ("idle", self.idle)):
            if duration and axis == "rows":
                hint = "leave it out: offsets say what may still come"
                raise OptionError(
                    option, f"{format_duration(duration)}{whose}", "isn't measured in rows", hint
                )
        watermark = self.watermark or ", ".join(self.clocks)
        if watermark and axis == "rows":
            hint = "leave it out: rows have no watermark"
            raise OptionError("watermark", f"{watermark}{whose}", "isn't measured in rows", hint)

    def input_facts(self, axis: Axis) -> dict[str, Fact]:
        """Return the facts of the input by name; options that aren't set have no fact."""
        facts = {
            "time": Fact(self.time, "none" if self.time is None else format_name(self.time)),
            "late": make_fact(self.firing.late),
            "grace": length_fact(self.firing.grace, axis),
            "keep": length_fact(self.firing.retention, axis),
            "lateness": length_fact(self.lateness),
        }
        if self.idle is not None:
            facts["idle"] = length_fact(self.idle)
        if self.watermark is not None or self.clocks:
            watermark_fact = (
                make_fact(self.watermark) if self.watermark else names_fact(self.clocks)
            )
            facts["watermark"] = watermark_fact
        if self.offset is not None:
            facts["offset"] = names_fact(self.offset)
        if self.zone is not None:
            facts["zone"] = make_fact(self.zone)
        return facts | {
            type_fact(name): make_fact(kind) for name, kind in sorted(self.types.items())
        }

    def free_of_input(self, then: Self) -> set[str]:
        """Return the facts that may change: the idle time, the clocks, and a zone not in use."""
        free = {"idle", "watermark"}
        return free if then.zone and self.zone else {*free, "zone"}


def check_clocks(spec: InputSpec, columns: Collection[str], *, results: bool) -> None:
    """Refuse clocks by columns that an input lacks, and any for another query's results."""
    watermark = spec.watermark or spec.clocks
    if watermark and results:
        hint = "leave it out: the results' time follows the upstream query"
        raise OptionError("watermark", watermark, "can't be set for another query's results", hint)
    for name in spec.clocks:
        if name not in columns:
            hint = f"give one of {', '.join(columns)}"
            raise OptionError("watermark", name, "isn't a column", hint)


def type_fact(column: str) -> str:
    """Return the name of the fact of a column's type."""
    return f"type of {column}"
