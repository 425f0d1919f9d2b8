"""The interface of aggregates in columns: lift, merge, slide and lower, each on whole frames.

An **algebra** computes one aggregate. It owns a few *partial* columns and defines how they are
computed from messages (``lift``), how several rows of partials are merged into one (``merge``), how
they are combined over windows of consecutive panes (``slide``), and their value (``lower``). All
merging is associative. Except for float rounding and large sketches, it is also independent of the
order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import polars as pl

from muntin.engine.windows.compose import Line
from muntin.engine.windows.dense import Scatter


class Algebra(ABC):
    """The computation of one aggregate.

    Attributes:
        slides: Whether ``slide`` is implemented; else overlapping windows are merged from copies of
            the panes.
        single: Whether ``slide`` also accepts single messages as cells, several of which may have
            the same time.
        scatters: Whether ``scatter`` is implemented.
    """

    slides = single = True
    scatters = False

    def prepare(self) -> list[pl.Expr]:
        """Return columns to add to the messages before they are grouped."""
        return []

    @abstractmethod
    def lift(self, messages: pl.DataFrame) -> list[pl.Expr]:
        """Return the partials of a group of these messages."""

    def scatter(self, messages: pl.DataFrame, groups: Scatter) -> list[pl.Series] | None:
        """Compute the partials of all groups in arrays; ``None`` if only ``lift`` can."""
        return None

    @abstractmethod
    def merge(self) -> list[pl.Expr]:
        """Return the merged partials of a group of rows of partials."""

    def settle(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Complete a lift or merge with the steps that can't run inside of the grouping."""
        return frame

    def slide(self, cells: pl.DataFrame, line: Line) -> list[pl.Series]:
        """Compute the partials of every window over cells that are laid out on a line."""
        raise NotImplementedError

    @abstractmethod
    def lower(self, frame: pl.DataFrame) -> pl.Series:
        """Compute the value of each row of partials; a missing partial counts as empty."""

    def find_overflows(self, frame: pl.DataFrame) -> pl.Series | None:
        """Return the rows of partials whose value overflows its type; ``None`` if none can."""
        return None
