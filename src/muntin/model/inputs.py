"""Options of a query's input: the positions of its messages, its watermark and its columns.

An option is declared once, in `INPUT_OPTIONS`: Python, SQL, TOML, checks, `explain` and the
reference follow from the declaration. Its value is a field of `InputValues`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from typing import Any, Literal, Self, TypedDict

from muntin.model.axis import (
    MAX_POSITION,
    MINUTE,
    Axis,
    Duration,
    format_duration,
    format_length,
    parse_duration,
)
from muntin.model.declared_options import DeclaredOption
from muntin.model.errors import OptionError
from muntin.model.facts import Fact, format_name, length_fact, make_fact, names_fact
from muntin.model.json_dataclass import JsonDataclass
from muntin.model.policies import Firing, Policy, by_clock

AHEAD = 15 * MINUTE
"""Default of ``max_ahead``: how far a message may be ahead of the wall clock."""
WatermarkBy = Literal["source", "greatest"]
BY_SOURCE: WatermarkBy = "source"
"""Each partition of the source has a clock of its own."""
BY_GREATEST: WatermarkBy = "greatest"
"""The input has one clock, which follows the greatest event time."""

ANY_TIME = "any"
"""The word for no limit."""


@dataclass(frozen=True)
class TimeLimit:
    """A bound of a message's time, relative to the clock.

    Attributes:
        reason: Why messages beyond it are rejected.
        ahead: How far ahead of the clock a time may be, microseconds.
    """

    reason: str
    ahead: int

    def excludes(self, time: Any, clock: Any, to_length: Callable[[int], Any] = int) -> Any:
        """Return whether a time is beyond the bound.

        Args:
            time: The time as a number, or as an expression over columns, microseconds.
            clock: The clock, likewise.
            to_length: Converts microseconds to what is added to a clock of another type.
        """
        return time > clock + to_length(self.ahead)


Limits = tuple[TimeLimit, ...]


def find_exceeded(limits: Limits, time: int, clock: int) -> str | None:
    """Return the reason to reject a time, which is that of the first bound that it exceeds."""
    for limit in limits:
        if limit.excludes(time, clock):
            return limit.reason
    return None


def find_safe_time(limits: Limits, clock: int) -> int:
    """Return the time up to which all times are accepted, now and when the clock has advanced."""
    return min((clock + limit.ahead for limit in limits), default=MAX_POSITION)


class InputOptionTypes(TypedDict, total=False):
    """The options of an input in Python, for type checkers."""

    offset: tuple[str, str] | tuple[str, str, str] | None
    lateness: Duration | None
    max_ahead: Duration | None
    idle: Duration | None
    watermark: str | Sequence[str] | None


@dataclass(frozen=True)
class DurationOption(DeclaredOption):
    """An option whose value is a duration.

    Attributes:
        title: What it does in a few words, for the reference of TOML.
        sql: Its words behind a watermark; empty if it has a syntax of its own.
        line: Its line in `explain`, with ``{}`` for the duration: the label and the text.
        any_line: The text of that line without a limit; empty if there is no such line.
        reason: Why messages are rejected whose time is further ahead of the clock than this; empty
            if it limits no times.
        missing: The value of an option that isn't set, microseconds.
        is_positive: Whether zero is refused.
        takes_any: Whether the word `ANY_TIME` means no limit.
        takes_rows: Whether it has a meaning for windows that are measured in rows.
        is_fact: Whether the state depends on it.
        may_change: Whether it may change from one start to the next.
    """

    _: KW_ONLY
    title: str
    sql: str = ""
    line: tuple[str, str] | None = None
    any_line: str = ""
    reason: str = ""
    missing: int | None = None
    is_positive: bool = False
    takes_any: bool = False
    takes_rows: bool = False
    is_fact: bool = True
    may_change: bool = False

    def parse(self, value: Duration | None) -> int | None:
        """Return a value in microseconds."""
        if value is None:
            return self.missing
        if self.takes_any and isinstance(value, str) and value.strip().lower() == ANY_TIME:
            return None
        return parse_duration(self.name, value, zero=not self.is_positive)

    def limit(self, value: int | None) -> Limits:
        """Return the bound of times that a value means, if it means one."""
        return () if value is None or not self.reason else (TimeLimit(self.reason, value),)

    def describe(self, value: int | None, axis: Axis) -> Iterator[tuple[str, str]]:
        """Yield the line of a value in `explain`, if it has one."""
        if self.line is None:
            return
        label, text = self.line
        if value is None and self.any_line:
            yield label, self.any_line
        elif value is not None and axis == "time":
            yield label, text.format(format_duration(value))


MAX_AHEAD = DurationOption(
    "max_ahead",
    "How far ahead of the wall clock an event time may be. A message further ahead is rejected "
    "as `future` and doesn't advance the watermark. Raise it where times are ahead by design, "
    'as in forecasts; `None` or `"any"` accepts any time.',
    "15 minutes",
    title='How far ahead of the wall clock a message may be, or "any".',
    sql="MAX AHEAD",
    line=("future", "rejected beyond {} ahead of the wall clock; max_ahead= widens it"),
    any_line="any time is taken",
    reason="future",
    takes_any=True,
    takes_rows=True,
    is_fact=False,
)
DURATIONS = (
    DurationOption(
        "lateness",
        "How far the watermark trails the greatest event time. The default is 0; for pairs of a "
        "join it is the time by which they may be out of order.",
        title="How far the watermark trails.",
        missing=0,
    ),
    MAX_AHEAD,
    DurationOption(
        "idle",
        "The time without messages after which the watermark advances with the wall clock, so that "
        "the last windows emit. Messages behind it are late then. By default it never does.",
        title="After how long without messages the watermark follows the wall clock.",
        sql="IDLE AFTER",
        line=("idle", "after {} without messages the watermark follows the clock"),
        is_positive=True,
        may_change=True,
    ),
)
"""The options of an input that are durations."""
INPUT_OPTIONS: tuple[DeclaredOption, ...] = (
    DeclaredOption(
        "offset",
        "The columns of a message's partition and of its offset in it, or of its topic, its "
        "partition and its offset. (If `mt.kafka` reads several topics, the name of a partition "
        "includes its topic.) A message whose offset was already read changes nothing, also after "
        "a restart. Windows that are measured in rows then count the offsets of a partition, and "
        "the partition is the first key. Without offsets they count a key's messages in the order "
        "of arrival.",
    ),
    *DURATIONS,
    DeclaredOption(
        "watermark",
        "The clocks that determine the watermark, where parts of the input aren't equally far. "
        '`"source"`: each partition has a clock, and one that isn\'t read to its end holds the '
        "watermark back, so a backlog makes no message late. It is the default for `mt.kafka` read "
        'in columns. `"greatest"`: one clock, the greatest event time; the default elsewhere. A '
        'list of columns, `["device"]`: each of their values has a clock, and the slowest holds '
        "the watermark back until it has been silent for the `idle` time. The 4 096 clocks that "
        "advanced last are kept.",
    ),
)
"""All options of an input that have a value of their own in Python, TOML and checkpoints."""


@dataclass(frozen=True, kw_only=True)
class InputValues:
    """The values of an input's options, as a query and its checkpoint have them.

    Attributes:
        lateness: How far the watermark trails the greatest event time, microseconds.
        max_ahead: How far ahead of the wall clock a message may be, microseconds; ``None`` for no
            limit.
        idle: Time without messages after which the watermark follows the wall clock, microseconds;
            ``None`` for never.
        offset: The columns of a message's partition and of its offset in it, if messages have
            offsets. A message whose offset was accepted before changes nothing.
        watermark: ``source`` if each partition of the source has a clock, ``greatest`` if the
            input has one; ``None`` for ``source`` where the source reports partitions.
        clocks: The columns whose values have a clock each, instead of the partitions.
    """

    lateness: int = 0
    max_ahead: int | None = None
    idle: int | None = None
    offset: tuple[str, str] | None = None
    watermark: WatermarkBy | None = None
    clocks: tuple[str, ...] = ()

    @property
    def limits(self) -> Limits:
        """The bounds of a message's time, relative to the clock."""
        values = ((option, getattr(self, option.name)) for option in DURATIONS)
        return tuple(limit for option, value in values for limit in option.limit(value))


@dataclass(frozen=True)
class InputOptions(InputValues):
    """The options of an input as they are declared, before its keys and types are known.

    Attributes:
        time: The column of the event time.
        clock: The column of the arrival time, in place of the machine's clock.
    """

    time: str | None = None
    clock: str | None = None
    _: KW_ONLY
    max_ahead: int | None = AHEAD

    @classmethod
    def parse(
        cls, time: str | None, options: Mapping[str, Any], clock: str | None = None
    ) -> InputOptions:
        """Return the values of the options of an input; other options are ignored."""
        durations: dict[str, Any] = {
            one.name: one.parse(options.get(one.name, one.default)) for one in DURATIONS
        }
        for one in DURATIONS if time is None else ():
            if one.reason and durations[one.name] not in (None, one.parse(one.default)):
                hint = "give time=, or leave it out"
                raise OptionError(one.name, options[one.name], "needs an event time", hint)
        watermark, clocks = read_watermark(options.get("watermark"))
        offset = _read_offset(options.get("offset"))
        return cls(time, clock, offset=offset, watermark=watermark, clocks=clocks, **durations)

    def on(self, axis: Axis) -> InputOptions:
        """Return the options for windows on an axis; on the rows axis without those of time."""
        if axis == "time":
            return self
        missing: dict[str, Any] = {o.name: o.missing for o in DURATIONS if not o.takes_rows}
        return replace(self, time=None, watermark=None, clocks=(), **missing)

    def find_clock(self, spec: InputSpec) -> str | None:
        """Return the column of arrival times for a query that reads it, else ``None``.

        The options of a table hold for all queries that read it, not all of which need them.
        """
        return self.clock if spec.reads_clock else None

    @property
    def options(self) -> dict[str, Any]:
        """The values as options of an `InputSpec`."""
        return {one.name: getattr(self, one.name) for one in fields(InputValues)}


def _read_offset(value: Any) -> tuple[str, str] | None:
    if value is None:
        return None
    if isinstance(value, str) or len(value) != 2:
        hint = 'give the columns of a partition and of an offset: ("partition", "offset")'
        raise OptionError("offset", value, "isn't a pair of columns", hint)
    partition, offset = value
    # Expressions can't be compared, and are refused by their host.
    if isinstance(partition, str) and isinstance(offset, str) and partition == offset:
        hint = "give the column of the partition, and that of the offset"
        raise OptionError("offset", value, "names one column twice", hint)
    return partition, offset


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
class InputSpec(InputValues, JsonDataclass):
    """One input of a query, as its checkpoint stores it.

    Attributes:
        keys: The key columns, in order; in a join those that are compared for equality.
        firing: The trigger policies, with the grace for late messages and the retention.
        types: The Arrow type of every column that is read, in words.
        zone: The session's time zone, if the messages depend on it.
    """

    keys: tuple[str, ...]
    time: str | None
    _: KW_ONLY
    firing: Firing = Firing()
    types: Mapping[str, str] = field(default_factory=dict)
    zone: str | None = None

    @property
    def used_columns(self) -> frozenset[str]:
        """The columns that the query reads by name: keys, time, offset and clocks."""
        time = () if self.time is None else (self.time,)
        return frozenset((*self.keys, *(self.offset or ()), *time, *self.clocks))

    @property
    def policies(self) -> tuple[Policy | None, Policy | None]:
        """The early and late policies in force: without a grace, no window emits late."""
        return self.firing.early, self.firing.late if self.firing.grace else None

    @property
    def fires_by_clock(self) -> bool:
        """True if some policy follows the wall clock, also without input."""
        return any(map(by_clock, self.policies))

    @property
    def follows_clock(self) -> bool:
        """True if the clock alone moves the watermark or makes windows emit."""
        return self.idle is not None or self.fires_by_clock

    @property
    def reads_clock(self) -> bool:
        """True if the clock has an effect: it judges event times, or the query follows it."""
        judges_time = self.time is not None and bool(self.limits)
        return judges_time or self.follows_clock

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
        for option in DURATIONS:
            duration = getattr(self, option.name)
            if duration and axis == "rows" and not option.takes_rows:
                hint = "leave it out: offsets say what may still come"
                shown = f"{format_duration(duration)}{whose}"
                raise OptionError(option.name, shown, "isn't measured in rows", hint)
        watermark = self.watermark or ", ".join(self.clocks)
        if watermark and axis == "rows":
            hint = "leave it out: rows have no watermark"
            raise OptionError("watermark", f"{watermark}{whose}", "isn't measured in rows", hint)

    def check_end(self, is_finite: bool, whose: str = "") -> None:
        """Refuse an idle time of input that ends, which has no silence."""
        if is_finite and self.idle is not None:
            hint = "leave it out: all windows emit when the input has been read"
            shown = f"{format_duration(self.idle)}{whose}"
            raise OptionError("idle", shown, "has no effect on input that ends", hint)

    def input_facts(self, axis: Axis) -> dict[str, Fact]:
        """Return the facts of the input by name; options that aren't set have no fact."""
        facts = {
            "time": Fact(self.time, "none" if self.time is None else format_name(self.time)),
            "late": make_fact(self.firing.late),
            "grace": length_fact(self.firing.grace, axis),
            "keep": length_fact(self.firing.retention, axis),
        }
        for option in DURATIONS:
            duration = getattr(self, option.name)
            if option.is_fact and duration is not None:
                facts[option.name] = length_fact(duration)
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
        free = {"watermark", *(option.name for option in DURATIONS if option.may_change)}
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
