"""Outputs that wait, in their order, until they are sent on or cleared."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import polars as pl

from muntin.engine.named_rows import named_rows
from muntin.model.errors import RefusedError

Receiver = Callable[[dict[str, Any]], Any]
"""Takes one output as a dictionary; refuses it by returning ``False`` or raising RefusedError."""


class PendingOutputs:
    """Rows in the order in which they were added, each until it is sent or all are cleared.

    Guarantees:
        - Rows are sent in order, each once: what was refused is the first to be sent next time.

    Example:
        >>> outputs = PendingOutputs()
        >>> outputs.add(pl.DataFrame({"n": [1, 2, 3]}))
        >>> outputs.send(lambda row: row["n"] < 2), len(outputs)
        (False, 2)
    """

    def __init__(self) -> None:
        self._frames: deque[pl.DataFrame] = deque()
        self._sent = 0  # rows of the first frame

    def __len__(self) -> int:
        return sum(map(len, self._frames)) - self._sent

    def add(self, frame: pl.DataFrame) -> None:
        """Let more rows wait, behind the others."""
        if len(frame):
            self._frames.append(frame)

    def waiting(self, nothing: pl.DataFrame) -> pl.DataFrame:
        """All rows that wait."""
        if not self._frames:
            return nothing
        return pl.concat(self._frames)[self._sent :]

    def clear(self) -> None:
        """Forget all rows."""
        self._frames.clear()
        self._sent = 0

    def send(self, receiver: Receiver) -> bool:
        """Send row after row, from where it stopped before, until one is refused.

        Raises:
            Exception: What the receiver raises but to refuse; that row waits on.
        """
        while self._frames:
            for row in named_rows(self._frames[0][self._sent :]):
                if not _taken(receiver, row):
                    return False
                self._sent += 1
            self._frames.popleft()
            self._sent = 0
        return True


def _taken(receiver: Receiver, row: dict[str, Any]) -> bool:
    try:
        return receiver(row) is not False
    except RefusedError:
        return False
