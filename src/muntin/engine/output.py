"""The output of a shard's step, and the interface of window shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl

from muntin.engine import columns
from muntin.engine.state import State
from muntin.engine.windows.combine import Combined
from muntin.model.bounds import SideName
from muntin.state.rows import stack_rows


@dataclass(frozen=True)
class EnteringMessages:
    """Messages of one side that entered a join in a step.

    Attributes:
        messages: The messages, with their positions on the axis.
        watermark: The side's watermark in that step; ``None`` before the first message.
        start: The offset of position 0, if each partition is an axis of its own.
    """

    messages: pl.DataFrame
    watermark: int | None
    final: bool
    start: int = 0


@dataclass
class ShardOutput:
    """The output of a step.

    Attributes:
        results: Keys, ``window_start``, ``window_end`` (microseconds), aggregates, ``emission``,
            ``revision``; by window start, then key.
        judged: The watermark that decided which messages of this step are late.
        counts: Messages so far: ``seen``, ``counted``, ``filtered``, and rejected by reason.
        pending: Number of changed windows that wait for their policy.
        rows: Number of rows in the state.
        entering: The messages that entered a join, by side.
        clocks: The clocks of the input, if it has several; see ``State.describe_clocks``.
    """

    results: pl.DataFrame
    rejected: pl.DataFrame
    judged: int | None
    watermark: int | None
    counts: dict[str, int] = field(default_factory=dict)
    pending: int = 0
    rows: int = 0
    entering: dict[SideName, list[EnteringMessages]] = field(default_factory=dict)
    clocks: dict[str, Any] = field(default_factory=dict)

    @property
    def progress(self) -> dict[str, Any]:
        """Counts and clocks of the shard, which a host combines over the shards."""
        return {
            "watermark": self.watermark,
            "counts": self.counts,
            "pending": self.pending,
            "rows": self.rows,
            "fired": dict(self.results[columns.EMISSION].value_counts().iter_rows()),
            **self.clocks,
        }

    @classmethod
    def combine(
        cls,
        emitted: Sequence[ShardOutput],
        nothing: pl.DataFrame,
        rejected: Sequence[pl.DataFrame],
        counts: dict[str, int],
    ) -> ShardOutput:
        """Combine the outputs of several partitions, which have independent watermarks."""
        return cls(
            stack_rows([nothing, *(one.results for one in emitted)]),
            pl.concat([*rejected, *(one.rejected for one in emitted)], how="diagonal"),
            None,
            None,
            counts,
            sum(one.pending for one in emitted),
            sum(one.rows for one in emitted),
        )


class Shard(Protocol):
    """The windows of the keys that a shard owns.

    A shard depends neither on Spark nor on a clock: its host passes the time, and commits the store
    after each step. The output of a step depends only on the state and the arguments, so that a
    batch that is repeated from the same state emits the same rows.

    ``windows.operator.shard`` opens a shard from the query's combiner, the store as of the last
    commit, and the decoded blobs of this process.
    """

    state: State

    def step(self, combined: Sequence[Combined], wall: int, *, final: bool = False) -> ShardOutput:
        """Process a batch and emit what is due.

        Args:
            combined: The batch, combined and classified by the watermark in force.
            wall: The wall clock, microseconds; arrival times of messages take precedence.
            final: Whether the input has ended, so that every window emits now.

        Returns:
            The output; the store has the new state, which isn't committed yet.
        """

    def snapshot(
        self, start: int | None, end: int | None, only: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        """Return the values of the windows within retention that overlap a range of the axis.

        Args:
            start: The start of the range; ``None`` for an open range.
            end: The end of the range, included; ``None`` for an open range.
            only: The keys to return, each once, under the engine's names. Default: all keys.

        Returns:
            The columns of results except ``emission`` and ``revision``; by window start, then key.
        """
