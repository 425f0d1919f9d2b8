"""The interface of join strategies, each of which finds partners by one kind of bound."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from muntin.engine import columns
from muntin.engine.firing import MAX_WINDOW, WallClock
from muntin.engine.joins.joiner import Joiner
from muntin.model.bounds import SideName
from muntin.model.joins import SIDES

SideWatermarks = Mapping[SideName, int | None]
SideFrames = Mapping[SideName, pl.DataFrame]
SidePositions = Mapping[SideName, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinClock(WallClock):
    """The watermarks and clocks of a join in a step.

    Attributes:
        before: The first position of stored messages on each side when the step began.
        after: The first position of stored messages on each side after the step.
        caught_up: The sides whose source has reported that this batch reads its last messages.
    """

    watermarks: SideWatermarks
    before: SidePositions
    after: SidePositions
    final: bool
    caught_up: frozenset[SideName] = frozenset()


class StoredSide(Protocol):
    """The stored messages of one side."""

    @property
    def rows(self) -> int:
        """Number of stored messages."""

    def drop_before(self, position: int | None) -> None:
        """Drop the messages before a position, unless it is ``None``."""

    def read_messages(self, low: int, high: int, only: pl.DataFrame | None = None) -> pl.DataFrame:
        """Return the messages between two positions, both included, of some keys or of all."""


class JoinStrategy(ABC):
    """A strategy that finds partners for one kind of bound."""

    buffers: Mapping[SideName, StoredSide]

    def __init__(self, joiner: Joiner) -> None:
        self.joiner = joiner
        self.spec = joiner.spec

    @property
    def rows(self) -> int:
        """Number of stored messages on both sides."""
        return sum(buffer.rows for buffer in self.buffers.values())

    @property
    def pending(self) -> int:
        """Number of messages that wait for their policy."""
        return 0

    @property
    def row_counts(self) -> dict[str, Any]:
        """Counts of messages by position and side, for limits of rows; plain JSON."""
        return {}

    def find_late(
        self, messages: SideFrames, watermarks: SideWatermarks
    ) -> Mapping[SideName, pl.Series]:
        """Return, for each message, whether it is late by the watermark of its side."""
        late = {}
        for side in SIDES:
            first = self.find_first_accepted(side, watermarks)
            late[side] = messages[side][columns.TIME] < (-MAX_WINDOW if first is None else first)
        return late

    def find_first_accepted(self, side: SideName, watermarks: SideWatermarks) -> int | None:
        """Return the first position at which a side accepts messages; ``None`` for any."""
        watermark, bound = watermarks[side], self.spec.bound
        if watermark is None:
            return None
        return bound.first_taken(watermark, self.spec.side(side).firing.grace)

    def compute_watermark(self, watermarks: SideWatermarks) -> int | None:
        """Return the join's watermark: the earlier one of both sides, once both have one."""
        present = [watermark for watermark in watermarks.values() if watermark is not None]
        return min(present) if len(present) == len(SIDES) else None

    @abstractmethod
    def find_first_stored(self, watermarks: SideWatermarks) -> SidePositions:
        """Return the first position of stored messages on each side; ``None`` for any."""

    def drop_before(self, positions: SidePositions) -> None:
        """Drop the messages before a position on each side."""
        for side in SIDES:
            self.buffers[side].drop_before(positions[side])

    def read_messages(
        self, side: SideName, low: int, high: int, only: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        """Return a side's messages between two positions, both included, of some keys or all."""
        return self.buffers[side].read_messages(low, high, only)

    def select_entering(self, accepted: SideFrames, clock: JoinClock) -> SideFrames:
        """Return the messages that enter the join in this step; others wait for their policy."""
        return accepted

    @abstractmethod
    def join_messages(self, new: SideFrames, clock: JoinClock) -> list[pl.DataFrame]:
        """Join new messages with the other side, and return the rows to emit."""
