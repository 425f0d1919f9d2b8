"""The cuts between sessions, for all keys of a frame of cells at once.

A **cell** has the messages of a key at one position. In the order of positions, a cell begins
another session after a gap, beyond the longest duration, behind a cell that ends its session, and
where a condition or a value changes. Cells that no session has are outside.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from muntin.engine import columns
from muntin.engine.order import find_group_starts
from muntin.engine.sessions.combine import MIXED, SessionCombiner
from muntin.engine.windows.ranges import search_positions
from muntin.model.sessions import Sessions

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Cuts:
    """The sessions of cells.

    Attributes:
        number: The number of each cell's session, in order; -1 for cells outside of sessions.
        last: The last position of each session, as ``Sessions`` counts it.
    """

    number: IntArray
    last: IntArray
    end: IntArray

    @property
    def is_inside(self) -> BoolArray:
        """The mask of cells that are in sessions."""
        return self.number >= 0


def find_cuts(cells: pl.DataFrame, combiner: SessionCombiner) -> Cuts:
    """Find the sessions of cells, which are sorted by key and position.

    Several rows may belong to one cell.
    """
    begins = find_group_starts(cells, [*combiner.keys, columns.PANE])
    if begins.all():
        return _divide(cells, combiner)
    cell = np.cumsum(begins) - 1
    merged = cells.with_columns(pl.Series("__cell", cell)).group_by("__cell", maintain_order=True)
    flags = merged.agg(e for algebra in combiner.cutting for e in algebra.merge()).drop("__cell")
    places = cells[[*combiner.keys, columns.PANE]].filter(begins)
    cuts = _divide(places.hstack(flags), combiner)
    return replace(cuts, number=cuts.number[cell])


def _divide(cells: pl.DataFrame, combiner: SessionCombiner) -> Cuts:
    windows, position = combiner.sessions, cells[columns.PANE].to_numpy()
    if not len(cells):
        nothing = np.zeros(0, dtype=np.int64)
        return Cuts(nothing, nothing, nothing)
    is_near = ~find_group_starts(cells, combiner.keys)
    is_near[1:] &= np.diff(position) < windows.reach
    ends = _read_flag(cells, columns.ENDS)
    begins = _read_flag(cells, columns.STARTS) | (windows.start is None)
    is_near[1:] &= ~ends[:-1]
    changes = is_near & _find_changes(cells)
    if windows.start is not None and windows.end is None:
        changes |= is_near & begins
    stretch: IntArray = np.cumsum(~is_near | changes, dtype=np.int64)
    follower = None
    if windows.longest is not None:
        # The first cell of each cell's stretch that isn't in a session that the cell begins.
        beyond = windows.longest - windows.gap + windows.reach
        follower = search_positions(stretch, position, position + beyond, "left")
    is_first = _find_first_cells(stretch, begins, follower)
    index = np.arange(len(cells))
    first = np.maximum.accumulate(np.where(is_first, index, -1))
    is_inside = (first >= 0) & (stretch[first] == stretch)
    if follower is not None:
        is_inside &= index < follower[first]
    number = np.where(is_inside, np.cumsum(is_first) - 1, -1)
    final = np.flatnonzero(is_first) + np.bincount(number[is_inside]) - 1
    return Cuts(number, *_find_ends(windows, position, is_first, final, ends, changes))


def _read_flag(cells: pl.DataFrame, name: str) -> BoolArray:
    """Return a condition of cells; one that is unknown isn't fulfilled."""
    if name not in cells.columns:
        return np.zeros(len(cells), dtype=np.bool_)
    flag: BoolArray = cells[name].cast(pl.Boolean).fill_null(False).to_numpy()
    return flag


def _find_changes(cells: pl.DataFrame) -> BoolArray:
    """Return the cells that don't have the one value of the cell before."""
    if columns.SAME not in cells.columns:
        return np.zeros(len(cells), dtype=np.bool_)
    value, mixed = pl.col(columns.SAME), pl.col(MIXED)
    differs = value.ne_missing(value.shift(1)) | mixed | mixed.shift(1, fill_value=False)
    changes: BoolArray = cells.select(differs).to_series().to_numpy()
    return changes


def _find_first_cells(stretch: IntArray, begins: BoolArray, follower: IntArray | None) -> BoolArray:
    """Return the first cells of sessions, none of which crosses a stretch.

    ``follower`` is the first cell behind a session that a cell begins, as far as its longest
    duration determines it; ``None`` if it is the next stretch.
    """
    count = len(stretch)
    # The next cell, from each one on, that may begin a session.
    opener = np.minimum.accumulate(np.where(begins, np.arange(count), count)[::-1])[::-1]
    opener = np.append(opener, count)
    behind = np.append(stretch, -1)
    is_first = np.zeros(count, dtype=np.bool_)
    earlier = np.flatnonzero(np.diff(stretch, prepend=-1))
    cells = opener[earlier]
    while True:
        cells = cells[behind[cells] == stretch[earlier]]
        is_first[cells] = True
        if follower is None or not len(cells):
            return is_first
        earlier, cells = cells, opener[follower[cells]]


def _find_ends(
    windows: Sessions,
    position: IntArray,
    is_first: BoolArray,
    final: IntArray,
    ends: BoolArray,
    changes: BoolArray,
) -> tuple[IntArray, IntArray]:
    """Return the last position and the end of each session.

    ``is_first`` marks the first cell of each session and ``final`` numbers its last one; ``ends``
    marks cells that end their session, ``changes`` those that begin another one within the gap.
    """
    last = position[final]
    if windows.longest is not None:
        last = np.minimum(last, position[is_first] + (windows.longest - windows.gap))
    end = last + windows.gap
    is_ended = ends[final]
    end = np.where(is_ended, position[final], end)
    last = np.where(is_ended, position[final] + (1 - windows.reach), last)
    after = np.minimum(final + 1, len(position) - 1)
    change = position[after]
    is_changed = changes[after] & (after > final) & (change - windows.reach < last)
    return np.where(is_changed, change - windows.reach, last), np.where(is_changed, change, end)
