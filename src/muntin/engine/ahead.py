"""Finds the message that moves the watermark ahead of this machine's clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.engine.admission import POSITION, format_message, moves_watermark
from muntin.engine.clocks import read_machine_clock
from muntin.engine.operator import Part
from muntin.model.axis import SECOND

# Largest difference that is normal between the clocks of two machines, microseconds.
SKEW = 5 * SECOND
# The name of the message among a step's examples, and in the header of a part.
AHEAD_EXAMPLE = "ahead"


class AheadMessage:
    """The message of a task that moves the watermark farthest ahead of this machine's clock.

    Args:
        names: Names of the key columns, and of those of the position in the source.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(dict.fromkeys((*POSITION, *names)))
        self._latest = read_machine_clock() + SKEW
        self._row: dict[str, Any] = {}

    def watch(self, messages: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield frames of messages, and note the message."""
        for frame in messages:
            time = frame[columns.TIME].max() if columns.TIME in frame.columns else None
            if isinstance(time, int) and time > self._latest:
                self._note(frame)
            yield frame

    def _note(self, frame: pl.DataFrame) -> None:
        shown = [name for name in self._names if name in frame.columns]
        moving = frame.filter(moves_watermark(frame)).top_k(1, by=columns.TIME)
        for row in moving.select(columns.TIME, *shown).iter_rows(named=True):
            time = row.pop(columns.TIME)
            if time > self._latest:
                self._latest, self._row = time, row

    def add_to(self, part: Part) -> None:
        """Have a part say which message it was, if there was one."""
        if self._row:
            part.header[AHEAD_EXAMPLE] = self._latest, format_message(self._row)

    @staticmethod
    def find_examples(parts: Iterable[Part]) -> dict[str, str]:
        """Return the message farthest ahead among those of several tasks, as an example."""
        ahead = [
            tuple(part.header[AHEAD_EXAMPLE]) for part in parts if AHEAD_EXAMPLE in part.header
        ]
        return {AHEAD_EXAMPLE: max(ahead)[1]} if ahead else {}
