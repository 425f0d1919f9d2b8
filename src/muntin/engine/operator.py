"""The interface between hosts and operators, which don't depend on each other.

A host cuts a stream into batches. Its tasks read a part of a batch each, and its shards own some of
the keys each, with their state. The host passes every task's messages to the operator, brings the
resulting parts to their shards, and lets the operator run a step there. The operator decides what
to keep and when to emit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl

from muntin.state.blobs import Blobs
from muntin.state.frames import FrameCache
from muntin.state.offsets import TakenOffsets

# The kinds of rows that most operators emit.
RESULTS, REJECTED = "results", "rejected"
# The figure of a step with the bytes of all blobs of its shard; ``None`` if they aren't known.
STATE_SIZE = "state_bytes"


@dataclass(frozen=True, slots=True)
class TaskWatermark:
    """The watermark in force, if it is known before the shuffle.

    Attributes:
        taken: The source offsets that were taken before, if they are known.
    """

    is_known: bool
    watermark: int | None
    taken: TakenOffsets | None = None


@dataclass(frozen=True)
class Task:
    """A part of a batch, before the shuffle.

    Attributes:
        input: The input of the operator that the task reads.
        number: The number of the task, by which shards order messages by arrival.
        load_watermark: Returns the watermark that the shards left for this batch. Calls are
            expensive.
        reached: Returns the upstream watermark once the task has read all of its input; ``None``
            if it isn't known.
        backlog: Returns, once the task has read all of its input, the partitions that it read, and
            whether each has more messages than the batch reads. It is empty if clocks aren't by
            partition.
        finished: Whether the source is finite and ends with this batch.
    """

    input: str
    number: int
    shards: int
    load_watermark: Callable[[], TaskWatermark] = lambda: TaskWatermark(False, None)
    reached: Callable[[], int | None] = lambda: None
    backlog: Callable[[], Mapping[str, bool]] = dict
    finished: bool = False


@dataclass
class Part:
    """A part of a task's output, for one shard.

    Attributes:
        header: Information for the shard; plain JSON.
        frames: Rows, by a name that the operator chooses.
    """

    shard: int
    header: dict[str, Any] = field(default_factory=dict)
    frames: dict[str, pl.DataFrame] = field(default_factory=dict)
    input: str = ""


@dataclass(frozen=True)
class ShardState:
    """The state of a shard.

    Attributes:
        operator: The identity of the operator in this run of its query.
        blobs: The shard's store, which the host commits after the step.
        cache: The decoded blobs of this shard in this process.
    """

    operator: str
    shard: int
    blobs: Blobs
    cache: FrameCache


@dataclass
class StepOutput:
    """The output of a step.

    Attributes:
        rows: Rows by kind; the columns of each kind are fixed when the query is built.
        progress: Counts and clocks of the shard; plain JSON. Hosts combine ``counts``,
            ``watermark``, ``pending``, ``rows`` and ``fired`` over the shards.
    """

    rows: Mapping[str, pl.DataFrame]
    progress: dict[str, Any]


class Step(Protocol):
    """A shard, opened for a batch, or for all batches of a process that alone writes its store."""

    @property
    def task_watermark(self) -> TaskWatermark | None:
        """The watermark for the tasks of the next batch; ``None`` if they don't need it."""

    def run(
        self, parts: Sequence[Part], wall: int | None, *, final: bool, ends_run: bool = False
    ) -> StepOutput:
        """Process a batch and emit what is due; the state is changed, but not committed.

        The output depends only on the state and the arguments, so that a batch that is repeated
        from the same state emits the same rows.

        Args:
            parts: The parts of all tasks for this shard, in the order of the tasks.
            wall: The wall clock of the batch, microseconds; ``None`` if there is no clock.
            final: Whether the input ends with this batch.
            ends_run: Whether the run of the query ends with this batch, so that windows that wait
                for the wall clock emit now.
        """


class Operator(Protocol):
    """A stateful operator, which keeps its state by key in shards and none in itself."""

    def prepare(self, messages: Iterable[pl.DataFrame], task: Task) -> list[Part]:
        """Combine, partition and reject the messages of a task, without access to state.

        Args:
            messages: The messages, in frames of a bounded number of rows. The first task of each
                input is called even without messages, so that every shard takes a step.
            task: The task.
        """

    def open(self, state: ShardState) -> Step:
        """Open a shard over its state as of the last commit."""
