"""What a shard emits after a step, and what every kind of shard can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl

from muntin.engine import columns
from muntin.engine.state import State
from muntin.engine.windows.combine import Combined
from muntin.model.joins import SideName


@dataclass(frozen=True)
class LetIn:
    """Messages of one side that were let into a join.

    Attributes:
        messages: The messages, at their places on the axis.
        mark: The side's watermark then; ``None`` before the first message.
        final: Whether the input ended.
        start: What place 0 is, where each partition is an axis of its own.
    """

    messages: pl.DataFrame
    mark: int | None
    final: bool
    start: int = 0


@dataclass
class Output:
    """What a step emits.

    Attributes:
        results: Keys, ``window_start``, ``window_end`` (microseconds), aggregates, ``emission``,
            ``revision``; by window start, then key.
        rejected: The input columns and ``reason``.
        judged: The watermark that messages of this step were judged by.
        watermark: The watermark now.
        counts: Messages so far: ``seen``, ``counted``, ``filtered``, and each reason.
        pending: How many changed windows wait for their policy.
        rows: How many rows the state holds.
        let_in: Of a join, what each side let in.
        clocks: The clocks of the input, where it has several; see ``State.describe_clocks``.
    """

    results: pl.DataFrame
    rejected: pl.DataFrame
    judged: int | None
    watermark: int | None
    counts: dict[str, int] = field(default_factory=dict)
    pending: int = 0
    rows: int = 0
    let_in: dict[SideName, list[LetIn]] = field(default_factory=dict)
    clocks: dict[str, Any] = field(default_factory=dict)

    @property
    def progress(self) -> dict[str, Any]:
        """What the shard has counted, for a host to sum up."""
        return {
            "watermark": self.watermark,
            "counts": self.counts,
            "pending": self.pending,
            "rows": self.rows,
            "fired": dict(self.results[columns.EMISSION].value_counts().iter_rows()),
            **self.clocks,
        }

    @classmethod
    def together(
        cls,
        emitted: Sequence[Output],
        nothing: pl.DataFrame,
        rejected: Sequence[pl.DataFrame],
        counts: dict[str, int],
    ) -> Output:
        """What several partitions emit, whose watermarks have nothing in common."""
        return cls(
            pl.concat([nothing, *(one.results for one in emitted)]),
            pl.concat([*rejected, *(one.rejected for one in emitted)], how="diagonal"),
            None,
            None,
            counts,
            sum(one.pending for one in emitted),
            sum(one.rows for one in emitted),
        )


class Shard(Protocol):
    """The windows of some keys.

    A shard owns some of the keys. It knows no Spark and no clock: its host gives it the time, and
    commits the store after each step. A step is a function of the state and its input alone, so a
    batch that is repeated from the same state emits the same again.

    It is made of the query's combiner, a store as the last commit left it, and the decoded blobs
    of this process; see ``windows.operator.shard``.
    """

    state: State

    def step(self, combined: Sequence[Combined], wall: int, *, final: bool = False) -> Output:
        """Take a batch in, and emit what is due.

        Args:
            combined: The batch, combined and judged by the watermark in force.
            wall: The wall clock, microseconds; the messages' own clock goes before it.
            final: Whether the input has ended, so that every window emits now.

        Returns:
            What is to be emitted; the store holds the new state, not yet committed.
        """

    def snapshot(
        self, start: int | None, end: int | None, only: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        """What the windows within retention hold that overlap a range of the axis.

        Args:
            start: Where the range begins; ``None`` is open.
            end: Where it ends, included; ``None`` is open.
            only: The keys wanted, under the engine's names and each once; all where not given.

        Returns:
            The columns of results but ``emission`` and ``revision``; by window start, then key.
        """
