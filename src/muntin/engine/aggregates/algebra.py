"""What an aggregate is in columns: lift, merge, slide and lower, each on whole frames.

An **algebra** computes one aggregate. It owns a few *partial* columns and says how they come to be
from messages (``lift``), how several rows of partials become one (``merge``), how they are combined
over windows of consecutive panes (``slide``), and what value they stand for (``lower``). All
merging is associative, and but for float rounding and large sketches it is also independent of
order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import polars as pl

from muntin.engine.windows.compose import Line
from muntin.engine.windows.dense import Scatter


class Algebra(ABC):
    """How one aggregate is computed.

    Attributes:
        slides: Whether ``slide`` exists; else overlapping windows are merged from copied panes.
        single: Whether ``slide`` also takes single messages for cells, of which several may have
            one time.
        scatters: Whether ``scatter`` may find something.
    """

    slides = single = True
    scatters = False

    def prepare(self) -> list[pl.Expr]:
        """Columns to add to the messages before they are grouped."""
        return []

    @abstractmethod
    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        """Partials of a group of these messages."""

    def scatter(self, messages: pl.DataFrame, places: Scatter) -> list[pl.Series] | None:
        """The same as ``lift`` where a group is a place; ``None`` where it must be ``lift``."""
        return None

    @abstractmethod
    def merge(self) -> list[pl.Expr]:
        """Partials of a group of rows of partials."""

    def settle(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Finish what a lift or merge left to be done outside of the grouping."""
        return frame

    def slide(self, cells: pl.DataFrame, line: Line) -> list[pl.Series]:
        """Partials of every window over laid out cells."""
        raise NotImplementedError

    @abstractmethod
    def lower(self, frame: pl.DataFrame) -> pl.Series:
        """The aggregate's value for each row of partials; a missing partial is an empty one."""

    def overflowed(self, frame: pl.DataFrame) -> pl.Series | None:
        """For which rows of partials no value fits its type; ``None`` where all do."""
        return None
