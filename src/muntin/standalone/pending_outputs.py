"""A queue of outputs that wait, in order, until they are sent or cleared."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import polars as pl

from muntin.engine.named_rows import iter_named_rows
from muntin.model.errors import RefusedError

Receiver = Callable[[dict[str, Any]], Any]
"""Receives one output as a dictionary; refuses it by returning ``False`` or RefusedError."""


class PendingOutputs:
    """Rows in the order in which they were added, until they are sent or cleared.

    Guarantees:
        - Rows are sent in order, each once: a refused row is the first to be sent next time.

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
        """Append rows to the queue."""
        if len(frame):
            self._frames.append(frame)

    def to_frame(self, nothing: pl.DataFrame) -> pl.DataFrame:
        """Return all queued rows, or ``nothing`` if there are none."""
        if not self._frames:
            return nothing
        return pl.concat(self._frames)[self._sent :]

    def clear(self) -> None:
        """Discard all rows."""
        self._frames.clear()
        self._sent = 0

    def send(self, receiver: Receiver) -> bool:
        """Send row by row, continuing after the last sent one, until one is refused.

        Raises:
            Exception: Any exception of the receiver except a refusal; that row stays queued.
        """
        while self._frames:
            for row in iter_named_rows(self._frames[0][self._sent :]):
                if not _is_accepted(receiver, row):
                    return False
                self._sent += 1
            self._frames.popleft()
            self._sent = 0
        return True


def _is_accepted(receiver: Receiver, row: dict[str, Any]) -> bool:
    try:
        return receiver(row) is not False
    except RefusedError:
        return False
