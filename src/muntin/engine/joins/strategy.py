"""The interface of join strategies, which find partners in a shard of a join."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from muntin.engine import columns
from muntin.engine.firing import MAX_WINDOW
from muntin.engine.joins.joiner import Joiner
from muntin.model.joins import SIDES, Joint, SideName

SideWatermarks = Mapping[SideName, int | None]
SideFrames = Mapping[SideName, pl.DataFrame]
SidePlaces = Mapping[SideName, int | None]


@dataclass(frozen=True, slots=True)
class JoinClock:
    """The watermarks and clocks of a join in a step.

    Attributes:
        marks: Each side's watermark now.
        before: The first position that was kept on each side when the step began.
        after: The first position that is kept from now on.
        wall: The wall clock now, microseconds.
        last_wall: The wall clock of the step before; ``None`` for the first step.
        final: Whether the input has ended.
        ends_run: Whether the run ends, so that messages that wait for the wall clock enter now.
        caught_up: The sides whose source has no more messages than this batch reads, if it tells.
    """

    marks: SideWatermarks
    before: SidePlaces
    after: SidePlaces
    wall: int
    last_wall: int | None
    final: bool
    ends_run: bool = False
    caught_up: frozenset[SideName] = frozenset()

    def passed(self, period: int) -> bool:
        """Return whether the wall clock has passed a multiple of a period since the last step."""
        if self.ends_run:
            return True
        return self.last_wall is not None and self.wall // period > self.last_wall // period


class StoredSide(Protocol):
    """The stored messages of one side."""

    @property
    def rows(self) -> int:
        """Number of stored messages."""

    def drop_before(self, place: int | None) -> None:
        """Drop the messages before a position, unless it is ``None``."""

    def all_near(self, low: int, high: int, only: pl.DataFrame | None = None) -> pl.DataFrame:
        """Return the messages between two positions, both included, of some keys or of all."""


class JoinStrategy(ABC):
    """A strategy to find partners, for one kind of bound."""

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
    def kept(self) -> dict[str, Any]:
        """Counts of messages by position and side, for limits of rows; plain JSON."""
        return {}

    def late(self, messages: SideFrames, marks: SideWatermarks) -> Mapping[SideName, pl.Series]:
        """Return which messages are late by the watermark of their side."""
        found = {}
        for side in SIDES:
            edge = self.edge(side, marks)
            found[side] = messages[side][columns.TIME] < (-MAX_WINDOW if edge is None else edge)
        return found

    def edge(self, side: SideName, marks: SideWatermarks) -> int | None:
        """Return the first position at which a side accepts messages; ``None`` for any."""
        mark, bound = marks[side], self.spec.bound
        assert not isinstance(bound, Joint)
        return None if mark is None else bound.first_taken(mark, self.spec.side(side).firing.grace)

    def watermark(self, marks: SideWatermarks) -> int | None:
        """Return the join's watermark: the earlier one of both sides, once both have one."""
        known = [mark for mark in marks.values() if mark is not None]
        return min(known) if len(known) == len(SIDES) else None

    @abstractmethod
    def kept_from(self, marks: SideWatermarks) -> SidePlaces:
        """Return the first position that is kept on each side; ``None`` if all are."""

    def drop_before(self, places: SidePlaces) -> None:
        """Drop the messages before a position on each side."""
        for side in SIDES:
            self.buffers[side].drop_before(places[side])

    def stored(
        self, side: SideName, low: int, high: int, only: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        """Return a side's messages between two positions, both included, of some keys or all."""
        return self.buffers[side].all_near(low, high, only)

    def let_in(self, taken: SideFrames, moment: JoinClock) -> SideFrames:
        """Return the messages that enter the join in this step; others wait for their policy."""
        return taken

    @abstractmethod
    def meet(self, new: SideFrames, moment: JoinClock) -> list[pl.DataFrame]:
        """Join new messages with the other side, and return the rows to emit."""
