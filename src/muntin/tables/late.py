"""What agents change inside of windows that have expired."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from muntin.tables.current import EventCursor


class Late:
    """A value that an agent was given of a window that has expired: what it changes is late."""

    __slots__ = ("before", "cursor", "value")

    def __init__(self, value: Any, cursor: EventCursor) -> None:
        self.value = value
        self.before = deepcopy(value)
        self.cursor = cursor.copy()

    @property
    def changed(self) -> bool:
        """Whether the agent has changed it."""
        return bool(self.value != self.before)
