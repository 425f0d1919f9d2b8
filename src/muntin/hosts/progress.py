"""The figures of a query, added up over the shards of all its operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

from muntin.engine.function_times import FUNCTION_TIMES, sum_function_times
from muntin.engine.operator import STATE_SIZE
from muntin.explain.summary import format_html_table
from muntin.hosts.health import describe_degradation
from muntin.model.axis import to_datetime
from muntin.model.counts import add_counts, count_outcomes
from muntin.model.patience import list_waits
from muntin.model.printable import escape_line

# The entry of an operator's figures that says which input of the downstream operator it feeds, such
# as the side of a join. The last operator has none.
STAGE, INNER = "stage", "inner"
# The inputs of a downstream operator that an operator may feed.
_BEFORE = ("join", INNER, "left", "right")
# Figures of the last batch alone, which aren't stored.
_OF_BATCH = ("shards", "heaviest_keys", "seconds", FUNCTION_TIMES)
# The number of keys among the heaviest.
_MOST_KEYS = 5
_NO_TIMES: Mapping[str, float] = {}


@dataclass(repr=False)
class Progress:
    """The figures of a query after its last batch, over all shards.

    Attributes:
        batch: The number of the batch; -1 before the first.
        watermark_micros: The watermark, microseconds since the epoch; ``None`` while no message has
            advanced it.
        counts: Counts of messages since the checkpoint began: ``seen``; their outcome (``counted``,
            for agents ``taken``; ``filtered``, ``duplicates``); and one count for each reason of
            rejection, except that ``overflow`` counts windows. Where sessions have a start, it is
            open whether ``undecided`` messages are in one. ``seen`` is the sum of the others.
            For agents it is at most that sum, since a table may refuse a message that was
            ``taken``. In addition ``partly_late`` is the number of counted messages that were too
            late for some of their overlapping windows.
        pending: The number of changed windows that wait for their policy.
        state_rows: The number of rows in the state.
        fired: The number of emissions of this run, by kind.
        join: The figures of the join whose pairs these windows read, if there is one.
        unwritable: The number of rows that this run's sinks couldn't store; they are in a folder of
            the checkpoint, with the reason.
        inner: The figures of the windows whose results these windows read, if there are such.
        left: The figures of the operator that feeds the left side of this join, if there is one.
        right: The figures of the operator that feeds the right side, if there is one.
        lag: The number of messages of each Kafka partition, such as ``orders[0]``, that weren't
            read yet when the batch was planned; empty where a source doesn't report it.
        clocks: The event time of each clock of the input, microseconds, where it has several: those
            of partitions, such as ``orders[0]``, or of values of columns. The slowest 64.
        held_by: The clock that holds the watermark back; ``None`` where none does.
        held_since: The batch since which it holds it back.
        examples: The position and the key of one message of the last batch for each reason for
            which messages were rejected.
        shards: The figures of each shard of the last operator, by its number: ``rows`` and
            ``state_bytes`` of its state as it is stored, ``messages`` of its last step, and the
            ``bytes`` of these as it got them.
        heaviest_keys: About how many messages of the last batch the heaviest keys had, if it had
            some thousands: those with at least a hundredth of a shard's.
        seconds: The time of the parts of the last batch: ``plan``, ``read``, ``step``, and each
            sink. On Spark ``step`` includes reading, and Spark's own parts are in ``time_phases``.
        functions: The time of each of the user's functions in the last batch, by its name: sinks,
            functions of aggregates, and agents. It is a part of ``seconds``; that of shards that
            run at the same time is added up.
    """

    batch: int = -1
    watermark_micros: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    pending: int = 0
    state_rows: int = 0
    fired: dict[str, int] = field(default_factory=dict)
    join: Progress | None = None
    unwritable: int = 0
    inner: Progress | None = None
    left: Progress | None = None
    right: Progress | None = None
    lag: dict[str, int] = field(default_factory=dict)
    clocks: dict[str, int] = field(default_factory=dict)
    held_by: str | None = None
    held_since: int | None = None
    examples: dict[str, str] = field(default_factory=dict, compare=False)
    shards: dict[int, dict[str, int]] = field(default_factory=dict, compare=False)
    heaviest_keys: dict[str, int] = field(default_factory=dict, compare=False)
    seconds: dict[str, float] = field(default_factory=dict, compare=False)
    functions: dict[str, float] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        shown = {"batch": self.batch, "watermark": str(self.watermark)}
        hidden = ("batch", "watermark_micros", "examples", *_OF_BATCH)
        rest = (f.name for f in fields(self) if f.name not in hidden)
        shown |= {name: getattr(self, name) for name in rest if getattr(self, name)}
        if self.clocks:
            shown["clocks"] = repr({name: str(to_datetime(at)) for name, at in self.clocks.items()})
        if degradation := self.degradation:
            shown["degraded"] = repr(degradation)
        # A clock is named by a value of the messages.
        figures = (f"{name}={escape_line(value)}" for name, value in shown.items())
        return f"Progress({', '.join(figures)})"

    def _repr_html_(self) -> str:
        return format_html_table("figure", "value", self.lines())

    def lines(self) -> Iterator[tuple[str, str]]:
        """Yield the figures as names and texts, those of upstream operators last.

        Example:
            >>> list(Progress(3, counts={"seen": 1200, "late": 0}, fired={"full": 2}).lines())
            [('batch', '3'), ('watermark', 'none'), ('seen', '1,200'), ('full firings', '2')]
        """
        yield "batch", str(self.batch) if self.batch >= 0 else "none"
        yield "watermark", str(self.watermark or "none")
        if degradation := self.degradation:
            yield "degraded", degradation
        if self.held_by is not None:
            yield "watermark held by", f"{self.held_by}, since batch {self.held_since}"
        for name, time in self.clocks.items():
            yield f"clock of {name}", str(to_datetime(time))
        fired = {f"{emission} firings": number for emission, number in self.fired.items()}
        reserved = {
            "rows in the state": self.state_rows, "bytes in the state": self.state_bytes,
            "unwritable": self.unwritable,
            "messages behind": self.messages_behind,
        }  # fmt: skip
        figures = {**self.counts, **fired, "waiting": self.pending, **reserved}
        for name, figure in figures.items():
            if figure:
                yield name, f"{figure:,}"
        if self.heaviest_keys:
            heaviest = (f"{key} {number:,}" for key, number in self.heaviest_keys.items())
            yield "heaviest keys", ", ".join(heaviest)
        for function, seconds in sorted(self.functions.items(), key=lambda one: -one[1]):
            yield f"time in {function}", f"{seconds:.3f} s"
        for before, part in self.upstreams.items():
            for name, text in list(part.lines())[1:]:
                yield f"{before}: {name}", text

    @property
    def watermark(self) -> datetime | None:
        """The watermark in UTC; ``None`` while no message has advanced it.

        A watermark outside of Python's range of times is only exact in ``watermark_micros``.

        Example:
            >>> Progress(3, 1_767_225_600_000_000).watermark
            datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)
        """
        return None if self.watermark_micros is None else to_datetime(self.watermark_micros)

    @property
    def degradation(self) -> str | None:
        """Why the query doesn't do what it should now; ``None`` if it does.

        Either the watermark is ahead of the clock, or a server or a sink is waited for.
        """
        return "; ".join(describe_degradation(self).values()) or None

    @property
    def waiting_for(self) -> dict[str, int]:
        """The servers and sinks that this process waits for now, with the failed attempts at each.

        A sink that doesn't answer has none. ``degradation`` says since when each is waited for.
        """
        return {name: wait.retries for name, wait in list_waits().items()}

    @property
    def messages_behind(self) -> int:
        """The number of messages of all partitions that weren't read when the batch was planned.

        Example:
            >>> Progress(3, lag={"orders[0]": 40, "orders[1]": 2}).messages_behind
            42
        """
        return sum(self.lag.values())

    @property
    def state_bytes(self) -> int:
        """The bytes of the state of all shards as they are stored; 0 before the first batch.

        Example:
            >>> Progress(3, shards={0: {"state_bytes": 900}, 1: {"state_bytes": 80}}).state_bytes
            980
        """
        return sum(shard.get(STATE_SIZE, 0) for shard in self.shards.values())

    @property
    def upstreams(self) -> dict[str, Progress]:
        """The figures of the upstream operators, by the input that they feed."""
        figures = {name: getattr(self, name) for name in _BEFORE}
        return {name: part for name, part in figures.items() if part is not None}

    def adds_up(self) -> bool:
        """Return whether every message that was read is accounted for."""
        rest = count_outcomes(self.counts)
        # An event that an agent took may then be refused by one table or by several.
        adds_up = self.seen <= rest if "taken" in self.counts else self.seen == rest
        return adds_up and all(one.adds_up() for one in self.upstreams.values())

    @property
    def seen(self) -> int:
        """The number of messages that this operator read; for windows over a join, of pairs."""
        return self.counts.get("seen", 0)

    @property
    def received(self) -> int:
        """The number of messages that the first operators of the chain read.

        If one side of a join reads messages and the other one results of another operator, all that
        the join reads count, too.
        """
        before = [one.received for one in self.upstreams.values()]
        mixed = (self.left is None) != (self.right is None)
        return sum(before) + (self.seen if mixed or not before else 0)

    def waits(self) -> bool:
        """Return whether a changed window waits for its policy."""
        return self.pending > 0 or any(one.waits() for one in self.upstreams.values())

    @classmethod
    def of(cls, batch: int, shards: Sequence[dict[str, Any]], fired: dict[str, int]) -> Progress:
        """Add up the figures of all shards.

        Args:
            batch: The batch's number.
            shards: The last figures of each shard.
            fired: The number of emissions of this run, by kind.
        """
        counts = add_counts(shard["counts"] for shard in shards)
        marks = [s["watermark"] for s in shards if s["watermark"] is not None]
        pending, rows = (sum(s[name] for s in shards) for name in ("pending", "rows"))
        one = shards[0] if shards else {}
        held, clocks = one.get("held_by"), one.get("clocks", {})
        heaviest = Counter({k: n for s in shards for k, n in s.get("heaviest", {}).items()})
        return cls(
            batch, max(marks, default=None), counts, pending, rows, fired,
            clocks=clocks, held_by=held, held_since=None if held is None else batch,
            examples={k: v for s in shards for k, v in s.get("examples", {}).items()},
            shards={s["shard"]: _describe_shard(s) for s in shards},
            heaviest_keys=dict(heaviest.most_common(_MOST_KEYS)),
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as a dictionary that JSON can hold."""
        figures = {
            name: value.copy() if isinstance(value, dict) else value
            for name, value in vars(self).items()
            if name not in _OF_BATCH
        }
        return {**figures, **{name: one.to_dict() for name, one in self.upstreams.items()}}

    def of_new_run(self) -> Progress:
        """Return the figures with which a query resumes, without those of the last run."""
        before = {name: one.of_new_run() for name, one in self.upstreams.items()}
        return replace(self, fired={}, unwritable=0, **before)  # type: ignore[arg-type]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Progress:
        """Rebuild the figures from the dictionary that ``to_dict`` returns."""
        before = {name: data[name] and cls.from_dict(data[name]) for name in _BEFORE}
        return cls(**{**data, **before})


def _describe_shard(figures: Mapping[str, Any]) -> dict[str, int]:
    size = figures.get(STATE_SIZE)
    stored = {} if size is None else {STATE_SIZE: size}
    return {"rows": figures["rows"], **stored, **figures.get("load", {})}


class Totals:
    """Adds up the figures that the shards of a query emit, batch by batch."""

    def __init__(self, progress: Progress | None = None) -> None:
        self.progress = progress or Progress()
        self._shards: dict[str, dict[int, dict[str, Any]]] = {}
        self._unwritable = 0

    def without_shards(self) -> Totals:
        """Return the totals for a query that resumes in other shards."""
        totals = Totals(self.progress)
        totals._unwritable = self._unwritable
        return totals

    def add(
        self,
        batch: int,
        emitted: Sequence[dict[str, Any]],
        unwritable: int = 0,
        functions: Mapping[str, float] = _NO_TIMES,
    ) -> Progress:
        """Add the figures of a batch, and return those of the query.

        Args:
            batch: The batch's number.
            emitted: The figures of each shard.
            unwritable: The number of unwritable rows.
            functions: The seconds of the user's functions outside of shards.
        """
        for shard in emitted:
            self._shards.setdefault(shard.get(STAGE, ""), {})[shard["shard"]] = shard
        by_stage: dict[str, Progress] = {}
        for stage, shards in self._shards.items():
            before = self._find_figures(stage)
            fired = dict(before.fired) if before and batch > self.progress.batch else {}
            for shard in emitted:
                for emission, n in shard["fired"].items() if shard.get(STAGE, "") == stage else ():
                    fired[emission] = fired.get(emission, 0) + n
            current = Progress.of(batch, list(shards.values()), fired)
            if before and before.held_by is not None and before.held_by == current.held_by:
                current.held_since = before.held_since
            by_stage[stage] = current
        self._unwritable += unwritable
        times = sum_function_times([functions, *(one.get(FUNCTION_TIMES, {}) for one in emitted)])
        self.progress = nest_figures(by_stage, "", batch)
        self.progress.unwritable, self.progress.functions = self._unwritable, times
        return self.progress

    def _find_figures(self, stage: str) -> Progress | None:
        """Return the figures of an operator, by the path to it from the last one."""
        progress: Progress | None = self.progress
        for part in stage.split("/") if stage else ():
            progress = progress and getattr(progress, part)
        return progress


def nest_figures(by_stage: Mapping[str, Progress], stage: str, batch: int) -> Progress:
    """Return the figures of an operator, with those of its upstream operators."""
    own = by_stage.get(stage, Progress(batch))

    def nest_upstream(part: str) -> Progress | None:
        path = f"{stage}/{part}" if stage else part
        exists = any(f"{other_stage}/".startswith(f"{path}/") for other_stage in by_stage)
        return nest_figures(by_stage, path, batch) if exists else None

    for name in _BEFORE:
        setattr(own, name, nest_upstream(name))
    return own
