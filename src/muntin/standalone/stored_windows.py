"""What is inside an operator: a shard of the engine over one store, with a clock that is set.

Messages come as frames and rows leave as frames, in the types of the messages. Nothing in here
knows what is done with them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from muntin.engine import columns
from muntin.engine.state import State
from muntin.model.joins import SideName
from muntin.state.blobs import Blobs

# The clock of steps before it is set.
_UNSET = -(2**62)


class StepRows(NamedTuple):
    """What a step emits; of a join, with what its sides' windows send on where that is asked."""

    results: pl.DataFrame
    rejected: pl.DataFrame
    sides: Mapping[SideName, pl.DataFrame] = {}


class ManualClock:
    """A clock that only moves when it is set, and never goes back.

    Attributes:
        wall: The latest time that was given, microseconds; ``None`` before the first.
    """

    def __init__(self) -> None:
        self.wall: int | None = None

    def advance(self, wall: int) -> None:
        """Set the time; an earlier time than before changes nothing."""
        self.wall = wall if self.wall is None else max(self.wall, wall)

    def resume(self, state: State) -> None:
        """Go on from the time that a shard's last step saw."""
        if state.wall not in (None, _UNSET):
            self.advance(state.wall)

    def note_active(self, state: State) -> None:
        """Let the messages since it was set last have come now."""
        if self.wall is not None:
            state.note_moving(self.wall)
        state.moving.clear()

    def read(self, state: State) -> int:
        """The clock of a shard's next step."""
        if state.wall == _UNSET:
            state.wall = None
        return _UNSET if self.wall is None else self.wall


class StoredWindows(ABC):
    """The windows of one operator, or its join; nothing until the types of all columns are known.

    Attributes:
        empty: A step that emits nothing.
    """

    def __init__(self, blobs: Blobs, results: Sequence[str], rejected: Sequence[str]) -> None:
        self.blobs = blobs
        self.clock = ManualClock()
        self.empty = StepRows(_untyped(results), _untyped([*rejected, "unread"]))
        self._state: State | None = None

    def _opened(self, state: State, empty: StepRows) -> None:
        self.clock.resume(state)
        self._state, self.empty = state, empty

    @property
    def is_open(self) -> bool:
        """Whether the types of all columns are known."""
        return self._state is not None

    @property
    def watermark(self) -> int | None:
        """The watermark in force, of a join that of both sides; ``None`` where there is none."""
        return None if self._state is None else self._state.watermark

    @property
    def counts(self) -> dict[str, int]:
        """Messages so far, by what became of them."""
        return {} if self._state is None else dict(self._state.counts)

    @property
    @abstractmethod
    def reached(self) -> dict[Any, Any]:
        """For each partition (of a join's side) the offset behind the last one taken."""

    def tick(self, wall: int) -> list[StepRows]:
        """Let the clock emit what is due; it never goes back."""
        self.clock.advance(wall)
        if self._state is None:
            return []
        self.clock.note_active(self._state)
        return [self._step()]

    @abstractmethod
    def _step(self) -> StepRows:
        """Take a step without messages."""


def timed(windows: pl.DataFrame, moment: pl.DataType) -> pl.DataFrame:
    """Window bounds in the type of the messages' times, or on the rows axis of their offsets."""
    if moment.is_integer():
        return windows
    return windows.with_columns(pl.col(columns.WINDOW_START, columns.WINDOW_END).cast(moment))


def _untyped(names: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame(schema=dict.fromkeys(names, pl.Null()))
