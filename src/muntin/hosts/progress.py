"""What the shards of a query's operators have counted, as one value."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import Any

from muntin.explain.glance import format_html_table
from muntin.model.axis import SECOND, as_datetime
from muntin.model.counts import accounted, rejections, summed

# In an operator's figures: what it is to the one behind it, which may be the side of a join. The
# last operator doesn't say.
STAGE, INNER = "stage", "inner"
# Clocks of two machines differ by less, microseconds.
SKEW = 5 * SECOND
_LOG = logging.getLogger(__name__)
# What an operator may be to the one behind it.
_BEFORE = ("join", INNER, "left", "right")


@dataclass(repr=False)
class Progress:
    """What the last batch left behind, over all shards.

    Attributes:
        batch: Its number; -1 before the first.
        watermark_micros: The watermark, microseconds since the epoch; ``None`` while no message has
            moved it.
        counts: Messages since the checkpoint began: ``seen``, what became of them (``counted``, of
            agents ``taken``; ``filtered``, ``duplicates``), and one figure a reason of rejection;
            ``overflow`` is none of them, since a window isn't a message. ``seen`` is the sum of the
            others, of agents at most: what a table refuses was taken before. Beside them
            ``partly_late`` says how many of the counted ones some of their windows, which
            overlap, no longer took.
        pending: Changed windows that wait for their policy.
        state_rows: Rows in the state.
        fired: Firings of this run by emission.
        join: The same of the join whose pairs the windows take, where there is one.
        unstorable: Rows that this run's sinks couldn't take; they are in a folder of the
            checkpoint, with the reason.
        inner: The same of the windows whose firings these windows take, where there are such.
        left: The same of the operator whose results are the left side of this join, where there is
            one.
        right: The same of the right side.
        lag: How many messages of each partition of Kafka weren't read yet when the batch was
            planned, as ``orders[0]``; nothing where a source doesn't say.
        clocks: How far each clock of the input has come, where it has several: those of partitions,
            as ``orders[0]``, or of the values of columns. Microseconds; the slowest 64.
        held_by: The clock that holds the watermark back; ``None`` where none does.
        held_since: The batch since which it does.
    """

    batch: int = -1
    watermark_micros: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    pending: int = 0
    state_rows: int = 0
    fired: dict[str, int] = field(default_factory=dict)
    join: Progress | None = None
    unstorable: int = 0
    inner: Progress | None = None
    left: Progress | None = None
    right: Progress | None = None
    lag: dict[str, int] = field(default_factory=dict)
    clocks: dict[str, int] = field(default_factory=dict)
    held_by: str | None = None
    held_since: int | None = None

    def __repr__(self) -> str:
        shown = {"batch": self.batch, "watermark": str(self.watermark)}
        rest = (f.name for f in fields(self) if f.name not in ("batch", "watermark_micros"))
        shown |= {name: getattr(self, name) for name in rest if getattr(self, name)}
        return f"Progress({', '.join(f'{name}={value}' for name, value in shown.items())})"

    def _repr_html_(self) -> str:
        return format_html_table("figure", "value", self.lines())

    def lines(self) -> Iterator[tuple[str, str]]:
        """What is known, name by name, in words; of operators before this one behind it.

        Example:
            >>> list(Progress(3, counts={"seen": 1200, "late": 0}, fired={"full": 2}).lines())
            [('batch', '3'), ('watermark', 'none'), ('seen', '1,200'), ('full firings', '2')]
        """
        yield "batch", str(self.batch) if self.batch >= 0 else "none"
        yield "watermark", str(self.watermark or "none")
        if self.held_by is not None:
            yield "watermark held by", f"{self.held_by}, since batch {self.held_since}"
        for name, time in self.clocks.items():
            yield f"clock of {name}", str(as_datetime(time))
        fired = {f"{emission} firings": number for emission, number in self.fired.items()}
        kept = {
            "rows in the state": self.state_rows, "unstorable": self.unstorable,
            "messages behind": self.messages_behind,
        }  # fmt: skip
        figures = {**self.counts, **fired, "waiting": self.pending, **kept}
        for name, figure in figures.items():
            if figure:
                yield name, f"{figure:,}"
        for before, part in self.before.items():
            for name, said in list(part.lines())[1:]:
                yield f"{before}: {name}", said

    @property
    def watermark(self) -> datetime | None:
        """How far time has come, in UTC; ``None`` while no message has moved it.

        What lies beyond the times that Python has is exact in ``watermark_micros``.

        Example:
            >>> Progress(3, 1_767_225_600_000_000).watermark
            datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)
        """
        return None if self.watermark_micros is None else as_datetime(self.watermark_micros)

    @property
    def messages_behind(self) -> int:
        """How many messages weren't read yet when the batch was planned, of all partitions.

        Example:
            >>> Progress(3, lag={"orders[0]": 40, "orders[1]": 2}).messages_behind
            42
        """
        return sum(self.lag.values())

    @property
    def before(self) -> dict[str, Progress]:
        """Those of the operators before, by what they are to this one."""
        found = {name: getattr(self, name) for name in _BEFORE}
        return {name: one for name, one in found.items() if one is not None}

    def adds_up(self) -> bool:
        """Whether every message that came in is accounted for."""
        rest = accounted(self.counts)
        # An event that an agent was given may then be refused by a table, or by several.
        adds_up = self.seen <= rest if "taken" in self.counts else self.seen == rest
        return adds_up and all(one.adds_up() for one in self.before.values())

    @property
    def seen(self) -> int:
        """How many messages, or pairs of a join, came in."""
        return self.counts.get("seen", 0)

    @property
    def received(self) -> int:
        """How many messages came in, to the first operators where there are several.

        Where a join has messages on one side and results of another operator on the other, both
        count.
        """
        before = [one.received for one in self.before.values()]
        mixed = (self.left is None) != (self.right is None)
        return sum(before) + (self.seen if mixed or not before else 0)

    def waits(self) -> bool:
        """Whether something waits for its policy."""
        return self.pending > 0 or any(one.waits() for one in self.before.values())

    @classmethod
    def of(cls, batch: int, shards: Sequence[dict[str, Any]], fired: dict[str, int]) -> Progress:
        """The figures of all shards together.

        Args:
            batch: The batch's number.
            shards: What each shard emitted last.
            fired: Firings of this run.
        """
        counts = summed(shard["counts"] for shard in shards)
        marks = [s["watermark"] for s in shards if s["watermark"] is not None]
        pending, rows = (sum(s[name] for s in shards) for name in ("pending", "rows"))
        one = shards[0] if shards else {}
        held, clocks = one.get("held_by"), one.get("clocks", {})
        return cls(
            batch, max(marks, default=None), counts, pending, rows, fired,
            clocks=clocks, held_by=held, held_since=None if held is None else batch,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON can hold it."""
        return asdict(self)

    def of_new_run(self) -> Progress:
        """The figures that a query resumes with, without those of the run before."""
        before = {name: one.of_new_run() for name, one in self.before.items()}
        return replace(self, fired={}, unstorable=0, **before)  # type: ignore[arg-type]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Progress:
        """What ``to_dict`` wrote."""
        before = {name: data[name] and cls.from_dict(data[name]) for name in _BEFORE}
        return cls(**{**data, **before})


def warn_of_rejected(progress: Progress, warned: Collection[str]) -> frozenset[str]:
    """Warn once of each reason for which messages are rejected that nobody keeps.

    Args:
        progress: What a batch left behind, with the operators before.
        warned: The reasons that were warned of before.

    Returns:
        The reasons that are new.
    """
    new: set[str] = set()
    for one in (progress, *progress.before.values()):
        for reason, number in rejections(one.counts).items():
            if number and reason not in {*warned, *new}:
                new.add(reason)
                _LOG.warning(
                    "batch %d: messages were rejected as %s (%d so far), and no sink keeps them. "
                    "Give rejected=… to start(), and each comes with its columns and its reason",
                    progress.batch, reason, number,
                )  # fmt: skip
    return frozenset(new)


def micros_ahead(progress: Progress, now: int) -> int:
    """Return by how much a watermark is ahead of the clock, more than clocks differ; else 0.

    Args:
        progress: The figures of a query, with the operators before.
        now: The clock, microseconds.

    Example:
        >>> micros_ahead(Progress(3, 8_000_000), 1_000_000)
        7000000
        >>> micros_ahead(Progress(3, 2_000_000), 1_000_000)
        0
    """
    every = [progress.watermark_micros, *(one.watermark_micros for one in progress.before.values())]
    ahead = max((mark - now for mark in every if mark is not None), default=0)
    return ahead if ahead > SKEW else 0


def warn_of_time_ahead(progress: Progress, now: int) -> bool:
    """Warn if a watermark is ahead of the clock; returns whether it is."""
    ahead = micros_ahead(progress, now)
    if ahead:
        _LOG.warning(
            "batch %d: the watermark is %.0f s ahead of this machine's clock, so that messages "
            "with the right time are late. Fix the producer's clock; max_ahead= bounds how far "
            "ahead a message may be",
            progress.batch, ahead / SECOND,
        )  # fmt: skip
    return ahead > 0


class Totals:
    """Adds up what the shards of a query emit, batch by batch."""

    def __init__(self, progress: Progress | None = None) -> None:
        self.progress = progress or Progress()
        self._shards: dict[str, dict[int, dict[str, Any]]] = {}
        self._unstorable = 0

    def without_shards(self) -> Totals:
        """Return the same totals for a query whose keys are in other shards from now on."""
        totals = Totals(self.progress)
        totals._unstorable = self._unstorable
        return totals

    def add(self, batch: int, lines: Sequence[str], unstorable: int = 0) -> Progress:
        """Add the figures that the shards emitted with a batch; what it left behind."""
        return self.add_shards(batch, [json.loads(line) for line in lines], unstorable)

    def add_shards(
        self, batch: int, emitted: Sequence[dict[str, Any]], unstorable: int = 0
    ) -> Progress:
        """Add the figures that the shards emitted with a batch, as JSON holds them."""
        for shard in emitted:
            self._shards.setdefault(shard.get(STAGE, ""), {})[shard["bucket"]] = shard
        found: dict[str, Progress] = {}
        for stage, shards in self._shards.items():
            before = self._known(stage)
            fired = dict(before.fired) if before and batch > self.progress.batch else {}
            for shard in emitted:
                for emission, n in shard["fired"].items() if shard.get(STAGE, "") == stage else ():
                    fired[emission] = fired.get(emission, 0) + n
            current = Progress.of(batch, list(shards.values()), fired)
            if before and before.held_by is not None and before.held_by == current.held_by:
                current = replace(current, held_since=before.held_since)
            found[stage] = current
        self._unstorable += unstorable
        self.progress = replace(nested(found, "", batch), unstorable=self._unstorable)
        return self.progress

    def _known(self, stage: str) -> Progress | None:
        """The figures of an operator, by the way to it from the last one."""
        progress: Progress | None = self.progress
        for part in stage.split("/") if stage else ():
            progress = progress and getattr(progress, part)
        return progress


def nested(found: Mapping[str, Progress], stage: str, batch: int) -> Progress:
    """The figures of an operator, with those of the operators before it."""
    whole = found.get(stage, Progress(batch))

    def before(part: str) -> Progress | None:
        way = f"{stage}/{part}" if stage else part
        there = any(f"{one}/".startswith(f"{way}/") for one in found)
        return nested(found, way, batch) if there else None

    parts: dict[str, Any] = {name: before(name) for name in _BEFORE}
    return replace(whole, **parts)
