"""The handle on a running query: the same on every host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from muntin.hosts.progress import Progress


@runtime_checkable
class Query(Protocol):
    """A handle on a started query, as `.start(…)` returns it on every host.

    Attributes:
        progress: What the last batch left behind: its number, the watermark, counts of messages.
        watchers: Functions that are called with the number of each batch and its rows by kind,
            each in a thread of its own. A slow one gets the newest batches.
    """

    watchers: list[Callable[[int, list[Any]], None]]

    @property
    def progress(self) -> Progress:
        """What the last batch left behind."""

    @property
    def is_active(self) -> bool:
        """Whether the query runs."""

    def stop(self, patience: float = 30.0) -> None:
        """Stop the query; it can be started again from its checkpoint."""

    def await_end(self, timeout: float | None = None) -> bool:
        """Wait until the query ends; raises what it ended by."""

    def await_idle(self, timeout: float = 60.0) -> bool:
        """Wait until all input there is now has been read and no changed window waits to emit."""
