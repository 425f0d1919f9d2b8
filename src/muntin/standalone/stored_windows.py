"""The stored windows of an operator of the engine: one shard on a store, with a manual clock.

Messages arrive as frames and outputs leave as frames, in the types of the messages. This module
doesn't depend on how outputs are used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.operator import REJECTED, RESULTS, Operator, Step
from muntin.engine.state import State
from muntin.hosts.local.run import OperatorShards
from muntin.state.blobs import Blobs

# The clock of steps until it is set.
_UNSET = -(2**62)


StepRows = Mapping[str, pl.DataFrame]
"""The outputs of a step by kind: results, rejected messages, and the sides whose windows emit."""


class ManualClock:
    """A clock that only advances when it is set, and never goes back.

    Attributes:
        wall: The latest time that was set, microseconds; ``None`` before the first.
    """

    def __init__(self) -> None:
        self.wall: int | None = None

    def advance(self, wall: int) -> None:
        """Set the time; an earlier time than before changes nothing."""
        self.wall = wall if self.wall is None else max(self.wall, wall)

    def resume(self, state: State) -> None:
        """Continue from the time of a shard's last step."""
        if state.wall not in (None, _UNSET):
            self.advance(state.wall)

    def note_active(self, state: State) -> None:
        """Count the messages since the clock was last set as arriving now."""
        if self.wall is not None:
            state.note_moving(self.wall)
        state.moving.clear()

    def read(self, state: State) -> int:
        """Return the clock of a shard's next step."""
        if state.wall == _UNSET:
            state.wall = None
        return _UNSET if self.wall is None else self.wall


class StoredWindows(ABC):
    """The stored windows of one operator or join; empty until the types of all columns are known.

    Attributes:
        empty: A step without outputs.
    """

    def __init__(self, blobs: Blobs, results: Sequence[str], rejected: Sequence[str]) -> None:
        self.blobs = blobs
        self.clock = ManualClock()
        self.empty: StepRows = {
            RESULTS: _empty_frame(results),
            REJECTED: _empty_frame([*rejected, "unread"]),
        }
        self._state: State | None = None

    def _open_shard(self, operator: Operator) -> Step:
        """Open the operator over the store, as its only shard."""
        self._shards = OperatorShards(operator, [self.blobs])
        return self._shards.steps[0]

    def _finish_opening(self, state: State, nothing: StepRows) -> None:
        self.clock.resume(state)
        self._state, self.empty = state, self._to_step_rows(nothing)

    @property
    def is_open(self) -> bool:
        """True once the types of all columns are known."""
        return self._state is not None

    @property
    def watermark(self) -> int | None:
        """The watermark in force (for a join, of both sides); ``None`` if there is none."""
        return None if self._state is None else self._state.watermark

    @property
    def counts(self) -> dict[str, int]:
        """Number of messages by outcome."""
        return {} if self._state is None else dict(self._state.counts)

    @property
    @abstractmethod
    def next_offsets(self) -> dict[Any, Any]:
        """The offset after the last one taken, by partition (for a join, by side)."""

    def start_clock(self, wall: int) -> list[StepRows]:
        """Set the clock for the first time, before messages count as arriving now."""
        self.clock.advance(wall)
        return [] if self._state is None else [self._step()]

    def tick(self, wall: int) -> list[StepRows]:
        """Set the clock and emit what is due; the clock never goes back."""
        self.clock.advance(wall)
        if self._state is None:
            return []
        self.clock.note_active(self._state)
        return [self._step()]

    @abstractmethod
    def _step(self) -> StepRows:
        """Run a step without messages."""

    def _run(
        self,
        messages: Mapping[Any, pl.DataFrame],
        reached: Mapping[Any, int] | None = None,
        *,
        final: bool = False,
    ) -> StepRows:
        """Run a step over messages by input; inputs may have reached a time without a message."""
        assert self._state is not None
        reached = reached or {}
        parts = [
            part
            for name in dict.fromkeys([*messages, *reached])
            for part in self._shards.prepare(
                [messages[name]] if name in messages else [], name, reached=reached.get(name)
            )
        ]
        return self._shards.run(parts, self.clock.read(self._state), final=final)[0].rows

    @abstractmethod
    def _to_step_rows(self, rows: StepRows) -> StepRows:
        """Convert rows of the engine to the types of the messages, without internal columns."""


def cast_bounds(windows: pl.DataFrame, time_type: pl.DataType) -> pl.DataFrame:
    """Convert window bounds to the type of the messages' times, or on the rows axis of offsets."""
    if time_type.is_integer():
        return windows
    return windows.with_columns(pl.col(columns.WINDOW_START, columns.WINDOW_END).cast(time_type))


def _empty_frame(names: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame(schema=dict.fromkeys(names, pl.Null()))
