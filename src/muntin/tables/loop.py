"""An event loop that can be used wherever one already runs, as in a notebook."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


class Loop:
    """A loop of its own, which runs a coroutine to its end when asked."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread: ThreadPoolExecutor | None = None

    def complete(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine, and whatever else waits in the loop, until it has ended."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._loop.run_until_complete(work)
        # The thread's own loop is busy with the caller, so another thread takes this one.
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "muntin")
        context = copy_context()
        return self._thread.submit(context.run, self._loop.run_until_complete, work).result()

    def close(self) -> None:
        """End the loop."""
        if self._thread is not None:
            self._thread.shutdown()
        self._loop.close()
