"""A whole query in one frozen value, and how two of them differ.

The spec is what a checkpoint remembers. It says everything that state depends on and nothing
that it doesn't (sinks, triggers).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from muntin.model.aggregates import Aggregate
from muntin.model.axis import Axis, phrase, say
from muntin.model.days import Days
from muntin.model.errors import OptionError, SpecChangedError
from muntin.model.kinds import Kind
from muntin.model.policies import Firing
from muntin.model.sessions import Sessions

REASONS = ("late", "future", "null_key", "null_time", "malformed", "overflow")
DUPLICATES = "duplicates"
# Messages that are counted, but not in all of their windows, since some took nothing more.
PARTLY_LATE = "partly_late"
# Aggregates to which a message with a null says nothing, so that they may begin with any message.
STARTS_EMPTY = frozenset(
    (
        "count", "count_if", "sum", "min", "max", "mean", "variance", "stddev", "bool_and",
        "bool_or", "approx_distinct", "quantile", "top_k", "median", "exact_quantile",
        "collect_list", "distinct",
    )
)  # fmt: skip


@dataclass(frozen=True)
class WindowSpec:
    """One windowed aggregation.

    Attributes:
        keys: The key columns, in order.
        time: The event-time column; on the rows axis there may be none.
        windows: Which windows.
        aggregates: What they compute, by output name, in order.
        firing: When they speak.
        lateness: How far the watermark trails the greatest event time, microseconds.
        max_ahead: How far ahead of the wall clock a message may be; ``None`` is any.
        types: The Arrow type of every column that the aggregates and keys read, in words.
        buckets: How many shards the keys are kept in, if that is known.
        offset: The columns of a message's partition and of its offset in it, if they are known: a
            message whose offset was taken before changes nothing. On the rows axis the offset is
            the position, and the partition is the first key; without offsets the position is the
            number of messages of the key that were taken before.
    """

    keys: tuple[str, ...]
    time: str | None
    windows: Kind
    aggregates: Mapping[str, Aggregate]
    firing: Firing = Firing()
    lateness: int = 0
    max_ahead: int | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    buckets: int | None = None
    offset: tuple[str, str] | None = None

    @property
    def axis(self) -> Axis:
        """What windows are measured on."""
        return self.windows.axis

    @property
    def by_arrival(self) -> bool:
        """Whether a message's position is the number of messages of its key before it."""
        return self.axis == "rows" and self.offset is None

    def __post_init__(self) -> None:
        firing = self.firing
        if firing.retention < firing.grace:
            grace = say(firing.grace, self.axis)
            raise OptionError(
                "keep",
                say(firing.retention, self.axis),
                f"is below the grace {grace}",
                f"keep at least {grace}",
            )
        self._check_axis()
        own = {"window_start", "window_end", "emission", "revision"}
        for position, key in enumerate(self.keys):
            if key in own or key in self.keys[:position]:
                raise OptionError("key", key, "is a column of the output already", "rename it")
        for name in self.aggregates:
            if name in own or name in self.keys:
                raise OptionError("agg", name, "is a column of the output already", "rename it")

    def _check_axis(self) -> None:
        windows, firing = self.windows, self.firing
        if self.axis == "time" and self.time is None:
            cure = "name the column of event times, or measure windows in muntin.rows(N)"
            raise OptionError("time", None, f"is missing for {windows}", cure)
        if self.axis == "rows" and firing.rows is not None:
            cure = "give the number as what is kept: keep(muntin.rows(N))"
            raise OptionError("rows", firing.rows, f"is a second measure for {windows}", cure)
        if self.axis == "rows" and self.lateness:
            cure = "leave it away: offsets say when a window is full"
            raise OptionError("lateness", phrase(self.lateness), "isn't measured in rows", cure)
        if isinstance(windows, Sessions):
            if not firing.accumulate:
                cure = "leave deltas() away"
                raise OptionError("deltas", windows, "can't take back what they told", cure)
            if self.by_arrival:
                cure = 'give offset=("partition", "offset")'
                raise OptionError("gap", windows, "counts messages of other keys too", cure)
        if self.by_arrival and firing.grace:
            cure = 'give no grace, or offset=("partition", "offset")'
            raise OptionError("grace", firing.grace, "means nothing: no arrival is late", cure)
        offset = self.offset if self.axis == "rows" else None
        if offset is not None and self.keys and self.keys[0] != offset[0]:
            cure = f"let the first key be {offset[0]!r}"
            raise OptionError("key", self.keys, "doesn't begin with the partition", cure)

    def facts(self) -> dict[str, str]:
        """What state depends on, each fact by name and in words."""
        windows, firing = self.windows, self.firing
        facts = {
            "key": ", ".join(self.keys),
            "time": self.time or "none",
            "windows": f"{windows}, origin {_origin(windows)}",
            "early": str(firing.early) if firing.early else "never",
            "late": str(firing.late),
            "grace": say(firing.grace, self.axis),
            "keep": say(firing.retention, self.axis),
            "accumulate": str(firing.accumulate),
            "lateness": phrase(self.lateness),
        }
        if firing.rows is not None:
            facts["keep rows"] = str(firing.rows)
        if self.offset is not None:
            facts["offset"] = ", ".join(self.offset)
        if self.buckets is not None:
            facts["buckets"] = str(self.buckets)
        facts |= {f"agg {name}": str(agg) for name, agg in self.aggregates.items()}
        return facts | {f"type of {name}": kind for name, kind in sorted(self.types.items())}

    def dumps(self) -> str:
        """The facts as JSON, for the checkpoint."""
        return json.dumps(self.facts())

    def check_same(self, stored: str) -> None:
        """Refuse to go on from state that another spec wrote.

        What is kept, the late policy and (but for ``deltas()``) the early one may be others from
        one start to the next; an early policy that was there may not be left away, since windows
        that spoke by it would begin anew to number what they say. Aggregates may be added behind
        those that were there: of messages that came before they know nothing.

        Args:
            stored: What ``dumps`` gave when the state was written.

        Raises:
            SpecChangedError: Naming each fact that differs and may not, then and now.
        """
        check_facts(stored, self.facts(), () if self.by_arrival else self._free(json.loads(stored)))

    def _free(self, then: Mapping[str, str]) -> set[str]:
        """The facts that may have changed since state was written."""
        free = {"late"}
        if self.firing.rows is None and "keep rows" not in then:
            free.add("keep")
        if self.firing.early is not None and self.firing.accumulate:
            free.add("early")
        return free | self._added(then)

    def _added(self, then: Mapping[str, str]) -> set[str]:
        """The facts of aggregates that were added since, where that can be."""
        before = [name for name in then if name.startswith("agg ")]
        now = {f"agg {name}": aggregate for name, aggregate in self.aggregates.items()}
        if list(now)[: len(before)] != before or not self.firing.accumulate:
            return set()
        added = list(now)[len(before) :]
        if any(now[name].kind not in STARTS_EMPTY for name in added):
            return set()
        types = {name for name in self.facts() if name.startswith("type of ")}
        return {*added, *(types - then.keys())}


def check_facts(stored: str, now: Mapping[str, str], free: Collection[str] = ()) -> None:
    """Refuse to go on where the facts of a spec aren't those that state was written by.

    Args:
        stored: The facts then, as JSON.
        now: The facts now.
        free: The facts that may have changed.

    Raises:
        SpecChangedError: Naming each fact that differs, then and now.
    """
    then = json.loads(stored)
    lines = [
        f"{name}: was {then.get(name, 'absent')}, is {now.get(name, 'absent')}"
        for name in sorted(then.keys() | now.keys())
        if then.get(name) != now.get(name) and name not in free
    ]
    if not lines:
        return
    raise SpecChangedError(
        "the checkpoint was written by another spec ("
        + "; ".join(lines)
        + "); go back to it, or start with a new checkpoint folder"
    )


def _origin(windows: Kind) -> str:
    if isinstance(windows, Days):
        return f"day {windows.grid.origin}"
    origin = getattr(windows, "origin", 0)
    return f"{origin} us" if windows.axis == "time" else f"row {origin}"
