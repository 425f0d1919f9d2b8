"""What a host and an operator know of each other: a host knows no operator, an operator no host.

A host has a stream cut into batches, tasks that read a part of a batch each, and shards that own
some of the keys each and keep state for them. It gives every task's messages to the operator,
brings the parts that come of it to their shards, and has the operator take a step there. What to
keep, and what to emit when, is the operator's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl

from muntin.state.blobs import Blobs
from muntin.state.offsets import TakenOffsets
from muntin.state.runs import FrameCache

# The kinds of rows that most operators emit.
RESULTS, REJECTED = "results", "rejected"


@dataclass(frozen=True, slots=True)
class Judged:
    """The watermark in force, if it is known before the shuffle.

    Attributes:
        known: Whether it is.
        watermark: Microseconds; ``None`` while no message has moved it.
        taken: The source offsets taken before, where they are known here.
    """

    known: bool
    watermark: int | None
    taken: TakenOffsets | None = None


@dataclass(frozen=True)
class Task:
    """A part of a batch, before the shuffle.

    Attributes:
        input: Which of the operator's inputs it reads.
        number: Its number, by which shards put messages in the order of their arrival.
        shards: How many shards there are.
        judged: Asks for what the shards left for this batch's tasks; that costs something.
        reached: Asks, when all messages were read, how far the input's event time has come though
            none of them says so; ``None`` where nothing is known.
        backlog: Asks, when all messages were read, which partitions of the source were read, and
            whether each has more than the batch reads; nothing where clocks aren't partitions.
        finished: Whether no message can come behind those of this batch: the source is finite.
    """

    input: str
    number: int
    shards: int
    judged: Callable[[], Judged] = lambda: Judged(False, None)
    reached: Callable[[], int | None] = lambda: None
    backlog: Callable[[], Mapping[str, bool]] = dict
    finished: bool = False


@dataclass
class Part:
    """What a task sends to a shard.

    Attributes:
        shard: The shard's number.
        header: What it is to know; plain JSON.
        frames: Rows, by a name of the operator's.
        input: Which of the operator's inputs it comes from.
    """

    shard: int
    header: dict[str, Any] = field(default_factory=dict)
    frames: dict[str, pl.DataFrame] = field(default_factory=dict)
    input: str = ""


@dataclass(frozen=True)
class ShardState:
    """What a shard keeps.

    Attributes:
        operator: The identity of the operator in this run of its query.
        shard: The shard's number.
        blobs: Its store, committed by the host after the step.
        cache: Decoded blobs of this process, turned to this shard.
        ends_run: Whether the run of the query ends with this step, which then emits what waits for
            the wall clock.
    """

    operator: str
    shard: int
    blobs: Blobs
    cache: FrameCache
    ends_run: bool = False


@dataclass
class StepOutput:
    """What a step emits.

    Attributes:
        rows: Rows by kind; which columns a kind has is agreed on when the query is built.
        progress: What the shard has counted; plain JSON. ``counts``, ``watermark``, ``pending``,
            ``rows`` and ``fired`` are summed up over the shards.
        judged: What the next batch's tasks are to know; ``None`` where they don't ask.
    """

    rows: Mapping[str, pl.DataFrame]
    progress: dict[str, Any]
    judged: Judged | None = None


class Step(Protocol):
    """A shard, opened for one batch."""

    def run(self, parts: Sequence[Part], wall: int | None, *, final: bool) -> StepOutput:
        """Take a batch in, and emit what is due; state is changed, and not committed.

        It is a function of the state and its input alone, so that a batch that is repeated from the
        same state emits the same again.

        Args:
            parts: What the tasks sent to this shard, in the tasks' order.
            wall: The wall clock of the batch, microseconds; ``None`` where nothing ticks.
            final: Whether the input ends with this batch.
        """


class Operator(Protocol):
    """Something that keeps state by key, and holds none itself."""

    def prepare(self, messages: Iterable[pl.DataFrame], task: Task) -> list[Part]:
        """Combine, partition and set aside the messages of a task; it knows no state.

        Args:
            messages: The messages, in frames of a bounded number of rows. The first task of each
                input is asked though there are none, so that shards may say where they stand.
            task: Which task it is.
        """

    def open(self, state: ShardState) -> Step:
        """Open a shard over what it kept at the last commit."""
