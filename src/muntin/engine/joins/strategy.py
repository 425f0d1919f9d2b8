"""How the messages of both sides come together in a shard of a join."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from muntin.engine import columns
from muntin.engine.firing import FOREVER
from muntin.engine.joins.joiner import Joiner
from muntin.model.joins import SIDES, Joint, SideName

SideWatermarks = Mapping[SideName, int | None]
SideFrames = Mapping[SideName, pl.DataFrame]
SidePlaces = Mapping[SideName, int | None]


@dataclass(frozen=True, slots=True)
class JoinClock:
    """Where a step finds the clocks of a join.

    Attributes:
        marks: Each side's watermark now.
        before: The first place kept on each side when the step began.
        after: The first place kept from now on.
        wall: The wall clock now, microseconds.
        last_wall: The wall clock of the step before; ``None`` at the first.
        final: Whether the input has ended.
        ends_run: Whether what waits for the clock emits now, since the run ends.
    """

    marks: SideWatermarks
    before: SidePlaces
    after: SidePlaces
    wall: int
    last_wall: int | None
    final: bool
    ends_run: bool = False

    def passed(self, period: int) -> bool:
        """Whether the clock has passed a multiple of a period since the last step."""
        if self.ends_run:
            return True
        return self.last_wall is not None and self.wall // period > self.last_wall // period


class StoredSide(Protocol):
    """The messages of one side, as they are stored."""

    @property
    def rows(self) -> int:
        """How many there are."""

    def drop_before(self, place: int | None) -> None:
        """Forget those before a place, if there is one."""

    def all_near(self, low: int, high: int, only: pl.DataFrame | None = None) -> pl.DataFrame:
        """Those between two places, both included; of some keys or of all."""


class JoinStrategy(ABC):
    """One way for messages to find partners."""

    buffers: Mapping[SideName, StoredSide]

    def __init__(self, joiner: Joiner) -> None:
        self.joiner = joiner
        self.spec = joiner.spec

    @property
    def rows(self) -> int:
        """How many messages are stored."""
        return sum(buffer.rows for buffer in self.buffers.values())

    @property
    def pending(self) -> int:
        """How many messages wait to be let in."""
        return 0

    @property
    def kept(self) -> dict[str, Any]:
        """How many messages lie where, by side, where there is a limit; plain JSON."""
        return {}

    def late(self, messages: SideFrames, marks: SideWatermarks) -> Mapping[SideName, pl.Series]:
        """Which messages come when all that they could be part of is over."""
        found = {}
        for side in SIDES:
            edge = self.edge(side, marks)
            found[side] = messages[side][columns.TIME] < (-FOREVER if edge is None else edge)
        return found

    def edge(self, side: SideName, marks: SideWatermarks) -> int | None:
        """The first place at which a side still takes messages; ``None`` where all are taken."""
        mark, bound = marks[side], self.spec.bound
        assert not isinstance(bound, Joint)
        return None if mark is None else bound.first_taken(mark, self.spec.side(side).firing.grace)

    @abstractmethod
    def kept_from(self, marks: SideWatermarks) -> SidePlaces:
        """The first place of each side that is kept; ``None`` where all are."""

    def drop_before(self, places: SidePlaces) -> None:
        """Forget what isn't kept."""
        for side in SIDES:
            self.buffers[side].drop_before(places[side])

    def stored(
        self, side: SideName, low: int, high: int, only: pl.DataFrame | None = None
    ) -> pl.DataFrame:
        """The messages of a side between two places, both included; of some keys or of all."""
        return self.buffers[side].all_near(low, high, only)

    def let_in(self, taken: SideFrames, moment: JoinClock) -> SideFrames:
        """The messages that meet the other side in this step; others wait for their policy."""
        return taken

    @abstractmethod
    def meet(self, new: SideFrames, moment: JoinClock) -> list[pl.DataFrame]:
        """Let messages in, and give the rows that are emitted."""
