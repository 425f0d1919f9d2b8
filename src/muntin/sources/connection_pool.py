"""Lends connections to readers, so that no two threads use one at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

Connected = TypeVar("Connected")


class ConnectionPool(Generic[Connected]):
    """Connections by the name of where they lead; those that were returned are lent again."""

    def __init__(self) -> None:
        self.idle: dict[str, list[Connected]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def lend(self, name: str, connect: Callable[[], Connected]) -> Iterator[Connected]:
        """Lend a connection; ``connect`` creates one if all others are in use."""
        with self._lock:
            idle = self.idle.setdefault(name, [])
            connection = idle.pop() if idle else None
        if connection is None:
            connection = connect()
        try:
            yield connection
        finally:
            with self._lock:
                idle.append(connection)
