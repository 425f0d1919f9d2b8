"""The base class of context managers that are closed at the end of ``with``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closeable(ABC):
    """A context manager that calls ``close`` however its ``with`` ends.

    Example:
        >>> class Valve(Closeable):
        ...     def close(self):
        ...         print("closed")
        >>> with Valve():
        ...     print("open")
        open
        closed
    """

    @abstractmethod
    def close(self) -> None:
        """Release all resources; a second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
