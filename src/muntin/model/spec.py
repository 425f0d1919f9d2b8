"""The spec of a windowed query, and the differences between two specs.

A checkpoint stores the spec. It holds everything that the state depends on, and nothing else: sinks
and triggers aren't part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import ClassVar, Literal, get_args

from muntin.model.aggregates import Aggregate
from muntin.model.aggregates.entry import LIST
from muntin.model.axis import Axis, format_length
from muntin.model.conditions import read_condition
from muntin.model.errors import OptionError
from muntin.model.facts import STORED_SHARDS, Fact, QuerySpec, make_fact, names_fact
from muntin.model.fill import check_fill
from muntin.model.grouping_sets import GROUPING_ID, format_sets
from muntin.model.inputs import InputSpec, type_fact
from muntin.model.kinds import Kind, Uniform
from muntin.model.policies import Each, WaitingLimit, When, parts

Nulls = Literal["reject", "group"]
DUPLICATES = "duplicates"
# Messages that a session may have or not, depending on messages that may still come.
UNDECIDED = "undecided"
# Messages that are counted, but not in all of their windows, since some were closed.
PARTLY_LATE = "partly_late"


@dataclass(frozen=True)
class WindowSpec(QuerySpec, InputSpec):
    """One windowed aggregation over an input.

    Attributes:
        windows: The kind of windows.
        aggregates: The aggregates by output name, in order.
        shards: Number of shards of the state, if it is known.
        nulls: Treatment of messages with NULL in a key: they are rejected, or NULL is a value of
            the key like any other.
        sets: The numbers of the grouping sets, with ``grouping_id`` as the last key. ``None`` if
            windows are grouped by all keys only.

    On the rows axis a message's position is its offset, and the partition is the first key. Without
    offsets the position is the number of messages of the key that were accepted before.
    """

    KIND: ClassVar[str] = "windows"

    windows: Kind
    aggregates: Mapping[str, Aggregate]
    _: KW_ONLY
    shards: int | None = field(default=None, metadata={"stored": STORED_SHARDS})
    nulls: Nulls = "reject"
    sets: tuple[int, ...] | None = None

    @property
    def axis(self) -> Axis:
        """The axis that the windows are measured on."""
        return self.windows.axis

    @property
    def zone_column(self) -> str | None:
        """The key column with each key's time zone; ``None`` if there is none."""
        return self.windows.zone_column

    def in_zone(self, zone: str | None = None) -> WindowSpec:
        """Return the query with the windows of one zone in place of a zone per key.

        The default, UTC, is for estimates that hold for every zone.
        """
        if self.zone_column is None:
            return self
        return replace(self, windows=self.windows.in_zone(zone or "UTC"))

    @property
    def uniform_windows(self) -> Uniform:
        """The windows on one axis; with a zone per key those of UTC, for estimates."""
        return self.windows.in_zone("UTC")

    @property
    def by_arrival(self) -> bool:
        """True if a message's position is the number of messages of its key before it."""
        return self.axis == "rows" and self.offset is None

    @property
    def emits_at_once(self) -> bool:
        """True if each message has a window that is full with it, so nothing is ever early."""
        return self.axis == "rows" and self.windows.moves and self.windows.is_numbered

    @property
    def lag(self) -> int:
        """Greatest time by which a full emission trails others, which come in order of their ends.

        A filled window may wait for the next one with messages.
        """
        fill = self.firing.fill
        if fill is None or not fill.waits:
            return 0
        windows = self.uniform_windows
        uneven = 0 if windows.even else windows.pace
        return fill.up_to + self.firing.grace + uneven

    @property
    def non_null_keys(self) -> tuple[str, ...]:
        """The keys in which NULL rejects a message."""
        if self.nulls == "group":
            return () if self.zone_column is None else (self.zone_column,)
        return self.key_columns

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The keys that are columns of the messages, without ``grouping_id`` or ``look_back``."""
        return self.state_keys if self.sets is None else self.keys[:-1]

    @property
    def state_keys(self) -> tuple[str, ...]:
        """The keys of the state, without the one that only results have."""
        return self.keys if self.windows.result_key is None else self.keys[:-1]

    def __post_init__(self) -> None:
        check_nulls(self.nulls)
        self.check_input(self.axis)
        self._check_axis()
        self._check_zones()
        if self.keys:
            self.check_conditions()
        own = {"window_start", "window_end", "emission", "revision"}
        for position, key in enumerate(self.keys):
            if key == GROUPING_ID and self.sets is not None and position < len(self.keys) - 1:
                raise OptionError(
                    "key", key, "is the name of the column with a row's grouping set", "rename it"
                )
            is_added = key == self.windows.result_key
            if key in self.keys[:position] and not is_added:
                raise OptionError("key", key, "is named twice", "name it once")
            if key in own or (is_added and key in self.keys[:position]):
                raise OptionError("key", key, "is a column of the output already", "rename it")
        for name in self.aggregates:
            if name in own or name in self.keys:
                raise OptionError("agg", name, "is a column of the output already", "rename it")
        self._check_frames()

    def check_conditions(self) -> None:
        """Refuse conditions of policies on names that are neither an aggregate nor a key."""
        for policy in (*parts(self.firing.early), *parts(self.firing.late)):
            for name in read_condition(policy.condition).names if isinstance(policy, When) else ():
                aggregate = self.aggregates.get(name)
                if aggregate is not None and aggregate.entry.gives == LIST:
                    hint = "compare a number or a text, such as a count"
                    raise OptionError("when", name, "is a list of values", hint)
                if aggregate is None and name not in self.keys:
                    hint = f"give some of {', '.join([*self.keys, *self.aggregates])}"
                    raise OptionError("when", name, "is neither an aggregate nor a key", hint)

    def _check_frames(self) -> None:
        for name, aggregate in self.aggregates.items():
            if aggregate.frame:
                self.windows.check_frame(name, aggregate.frame, aggregate.frame_axis)

    def _check_zones(self) -> None:
        """Refuse what can't be combined with a zone per key."""
        column = self.zone_column
        if column is None:
            return
        if self.sets is not None:
            hint = "write a query for each set, or give one zone"
            raise OptionError("sets", self.windows, "have no zone without their key", hint)
        if self.firing.rows is not None:
            hint = "bound it by time, as in keep(DURATION)"
            raise OptionError("rows", self.firing.rows, "can't be counted over zones", hint)
        if self.firing.over is not None:
            hint = "leave it out, or give one zone"
            raise OptionError("over", self.firing.over.windows, "can't be counted over zones", hint)
        if self.keys and column not in self.keys:
            raise OptionError("zone_column", column, "isn't a key column", "add it to the key")

    def _check_axis(self) -> None:
        windows = self.windows
        if self.sets is not None and (self.axis == "rows" or windows.retracts):
            hint = "measure windows of one length in time, or write a query for each set"
            raise OptionError("sets", str(windows), "are others for each set of keys", hint)
        if self.axis == "time" and self.time is None:
            hint = "name the column of event times, or measure windows in muntin.rows(N)"
            raise OptionError("time", None, f"is missing for {windows}", hint)
        self._check_policies()
        if self.by_arrival and self.firing.grace:
            hint = 'give no grace, or offset=("partition", "offset")'
            raise OptionError("grace", self.firing.grace, "means nothing: no arrival is late", hint)
        offset = self.offset if self.axis == "rows" else None
        if offset is not None and self.keys and self.keys[0] != offset[0]:
            hint = f"let the first key be {offset[0]!r}"
            raise OptionError("key", self.keys, "doesn't begin with the partition", hint)

    def _check_policies(self) -> None:
        windows, firing = self.windows, self.firing
        if not firing.repeat and firing.early is None:
            hint = "add early(), or leave it out: each window emits once"
            raise OptionError("repeat", False, "means nothing without early firings", hint)
        if self.axis == "rows" and firing.rows is not None:
            hint = "give the number as what is kept: keep(muntin.rows(N))"
            raise OptionError("rows", firing.rows, f"is a second measure for {windows}", hint)
        if firing.over is not None:
            self._check_over(firing.over)
        if firing.fill is not None:
            check_fill(firing.fill, windows, self.aggregates, firing.accumulate)
        windows.check_policies(firing)
        if windows.rolls and not firing.accumulate:
            hint = "leave deltas() out: each row has the whole of what lay before it"
            raise OptionError("deltas", str(windows), "emit a row for each message", hint)
        if windows.retracts:
            if not firing.accumulate:
                hint = "leave deltas() away"
                raise OptionError("deltas", str(windows), "can't take back what they emitted", hint)
            if self.by_arrival:
                hint = 'give offset=("partition", "offset")'
                raise OptionError("gap", str(windows), "counts messages of other keys too", hint)

    def _check_over(self, over: WaitingLimit) -> None:
        if self.axis == "rows" or self.windows.moves:
            hint = "give rows= or after=, which let windows emit one by one"
            problem = f"isn't for {self.windows}, which wait in another order"
            raise OptionError("over", over.windows, problem, hint)
        if self.firing.early == Each():
            hint = "leave one of them out"
            raise OptionError(
                "over", over.windows, "limits nothing: with each=True none waits", hint
            )

    @property
    def title(self) -> str:
        """The windows and their keys, in words."""
        keys = self.state_keys
        return f"{self.windows} by {', '.join(keys)}" if keys else str(self.windows)

    def facts(self) -> dict[str, Fact]:
        """Return the facts of the query, its input and its aggregates, by name."""
        windows, firing = self.windows, self.firing
        facts = {
            "key": names_fact(self.state_keys),
            "windows": Fact(windows, f"{windows}, origin {windows.begins}"),
            "early": Fact(firing.early, str(firing.early or "never")),
            "accumulate": make_fact(firing.accumulate),
            **self.input_facts(self.axis),
        }
        if not firing.repeat:
            facts["repeat"] = make_fact(firing.repeat)
        if firing.over is not None:
            facts["over"] = make_fact(firing.over)
        if firing.fill is not None:
            facts["fill"] = make_fact(firing.fill)
        if firing.rows is not None:
            facts["keep rows"] = make_fact(firing.rows)
        if self.keys:
            facts["nulls"] = make_fact(self.nulls)
        if self.sets is not None:
            facts["sets"] = Fact(self.sets, format_sets(self.sets, self.key_columns))
        if self.shards is not None:
            facts["shards"] = make_fact(self.shards)
        return facts | {
            _aggregate_fact_name(name): make_fact(agg) for name, agg in self.aggregates.items()
        }

    def free(self, then: WindowSpec) -> set[str]:
        """Return the facts that may differ from the spec that wrote the state.

        These may change from one start to the next: the idle time, the retention, the late policy,
        the repetition of full firings, the filling of empty windows and, without ``deltas()``, the
        early policy. An early policy can't be removed, since the windows that have emitted by it
        would number their revisions from the start again. Lines between values can't be started or
        stopped, since other windows would have been filled by then. A value from before the start
        of ``previous`` is null.

        Aggregates may be added after the existing ones; they don't include earlier messages. NULL
        keys may be accepted as groups, without the messages rejected before, but groups of NULL
        can't be rejected again.
        """
        free = self.free_of_input(then)
        if then.nulls == "reject":
            free.add("nulls")
        if self.emits_at_once and self.firing.early is None:
            free.add("early")
        if self.by_arrival:
            return free | {"keep"}
        free |= {"late", "repeat", "keep", "keep rows", "over"}
        old_fill, fill = then.firing.fill, self.firing.fill
        if old_fill is None or fill is None or old_fill.waits == fill.waits:
            free.add("fill")
        if self.firing.early is not None and self.firing.accumulate:
            free.add("early")
        return free | self._find_added_facts(then)

    def differences(self, then: WindowSpec) -> list[str]:
        """Return the changes that aren't allowed, with those of the order of aggregates.

        The order counts because the state has its columns by the number of the aggregate, not by
        its name.
        """
        lines = super().differences(then)
        old_names, new_names = list(then.aggregates), list(self.aggregates)
        if not lines and new_names[: len(old_names)] != old_names:
            old_words, new_words = (names_fact(order).words for order in (old_names, new_names))
            lines.append(f"order of aggregates: was {old_words}, is {new_words}")
        return lines

    def _find_added_facts(self, then: WindowSpec) -> set[str]:
        """Return the facts of aggregates that were added since, if they may be added."""
        old_names, new_names = list(then.aggregates), list(self.aggregates)
        if new_names[: len(old_names)] != old_names or not self.firing.accumulate:
            return set()
        added = new_names[len(old_names) :]
        if not all(self._starts_empty(self.aggregates[name]) for name in added):
            return set()
        return {
            *map(_aggregate_fact_name, added),
            *map(type_fact, self.types.keys() - then.types.keys()),
        }

    def _starts_empty(self, aggregate: Aggregate) -> bool:
        """Return whether an aggregate may be added to stored state."""
        has_values = aggregate.column is not None or self.windows.reads_whole(None)
        return aggregate.starts_empty and has_values


def check_effects(spec: WindowSpec) -> WindowSpec:
    """Refuse policies without an effect, and return the spec.

    A spec doesn't refuse them by itself, since checkpoints of earlier builds may have some.
    """
    windows, firing = spec.windows, spec.firing
    if spec.emits_at_once and firing.early not in (None, Each()):
        problem = f"has no effect on {windows}, which emit with each message"
        raise OptionError("early", str(firing.early), problem, "leave it out")
    if spec.by_arrival and firing.retention:
        problem = "has no effect: windows in the order of arrival go when they are full"
        hint = 'leave it out, or give offset=("partition", "offset")'
        raise OptionError("keep", format_length(firing.retention, "rows"), problem, hint)
    return spec


def check_nulls(nulls: object) -> None:
    """Refuse a value that isn't one of ``Nulls``."""
    if nulls not in get_args(Nulls):
        hint = 'give "reject", or "group" to make NULL a group of its own'
        raise OptionError("nulls", nulls, "isn't a treatment of NULL keys", hint)


def list_result_keys(windows: Kind, sets: Sequence[int] | None) -> tuple[str, ...]:
    """Return the keys that results have and messages don't."""
    if sets is not None:
        return (GROUPING_ID,)
    return () if windows.result_key is None else (windows.result_key,)


def _aggregate_fact_name(aggregate: str) -> str:
    return f"agg {aggregate}"
