"""Measures what a step of a shard receives, and which keys most of it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from muntin.engine import columns
from muntin.model.printable import escape_line

# The number of messages from which on the heaviest keys are looked for.
_FEW = 1000
# The number of rows that are looked at, about, and of keys that a shard names.
_SAMPLE, _MOST_KEYS = 10_000, 3
# The least share of a heavy key.
_SHARE = 0.01


@dataclass(frozen=True)
class Received:
    """A frame that a step received.

    Attributes:
        rows: Messages, or cells with their number of messages.
        keys: The key columns; empty for a query without keys.
        has_cells: Whether the rows are cells.
    """

    rows: pl.DataFrame
    keys: Sequence[str]
    has_cells: bool = False

    def count_messages(self) -> int:
        """Count the messages."""
        return int(self.rows[columns.MESSAGES].sum()) if self.has_cells else len(self.rows)

    def find_heavy_keys(self, count: int) -> list[tuple[str, int]]:
        """Return the heaviest keys as text with their messages, from a bounded part of the rows."""
        if not count or not self.keys:
            return []
        if self.has_cells:
            # A key of many messages has cells with many.
            sample = self.rows.filter(pl.col(columns.MESSAGES) * _SAMPLE >= count)
            messages = pl.col(columns.MESSAGES).sum()
        else:
            step = max(1, len(self.rows) // _SAMPLE)
            sample = self.rows.gather_every(step)
            messages = pl.len().cast(pl.Int64) * step
        sums = sample.group_by(self.keys).agg(messages.alias(columns.MESSAGES))
        heaviest = sums.top_k(_MOST_KEYS, by=columns.MESSAGES)
        return [
            (", ".join(map(_format_value, key)), number) for *key, number in heaviest.iter_rows()
        ]


def measure_load(frames: Sequence[Received]) -> dict[str, dict[str, int]]:
    """Return the load of a step as part of an operator's figures.

    Args:
        frames: The frames that it received.

    Returns:
        ``load`` (``messages``, and their ``bytes`` as they came) and, for a step of many messages,
        ``heaviest``: the estimated number of messages of each heavy key.

    Example:
        >>> rows = pl.DataFrame({"page": ["home"] * 900 + ["help"] * 300})
        >>> measure_load([Received(rows, ["page"])])["heaviest"]
        {'home': 900, 'help': 300}
    """
    counts = [frame.count_messages() for frame in frames]
    messages = sum(counts)
    size = sum(int(frame.rows.estimated_size()) for frame in frames)
    figures = {"load": {"messages": messages, "bytes": size}}
    if messages < _FEW:
        return figures
    heaviest: dict[str, int] = {}
    for frame, count in zip(frames, counts, strict=True):
        for key, number in frame.find_heavy_keys(count):
            heaviest[key] = heaviest.get(key, 0) + number
    most = sorted(heaviest, key=heaviest.__getitem__, reverse=True)[:_MOST_KEYS]
    heavy = {key: heaviest[key] for key in most if heaviest[key] >= messages * _SHARE}
    return {**figures, "heaviest": heavy} if heavy else figures


def _format_value(value: Any) -> str:
    return r"\N" if value is None else escape_line(str(value)[:100])
