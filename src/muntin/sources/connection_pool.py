"""Lends connections to readers, so that no two threads use one at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

Connected = TypeVar("Connected")


class ConnectionPool(Generic[Connected]):
    """Connections by name; those that were returned are lent again.

    Example:
        >>> pool = ConnectionPool[object]()
        >>> with pool.lend("broker", object) as one, pool.lend("broker", object) as other:
        ...     one is other
        False
        >>> with pool.lend("broker", object) as again:
        ...     again in (one, other)
        True
    """

    def __init__(self) -> None:
        self.idle: dict[str, list[Connected]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def lend(self, name: str, connect: Callable[[], Connected]) -> Iterator[Connected]:
        """Lend a connection, a new one if all others are in use.

        Args:
            name: The name that says where it leads.
            connect: Creates a connection.
        """
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
