"""The event loop of an app's agents."""

from __future__ import annotations

import asyncio
from _thread import start_new_thread
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

_T = TypeVar("_T")


class EventLoop:
    """A private event loop that also works where another one is running, as in a notebook."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread: ThreadPoolExecutor | None = None

    def complete(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to its end, along with the other tasks of the loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._loop.run_until_complete(work)
        # This thread's loop is busy with the caller, so another thread runs the coroutine.
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "muntin")
        context = copy_context()
        return self._thread.submit(context.run, self._loop.run_until_complete, work).result()

    def finish(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a last coroutine, and close the loop, from any point of a garbage collection.

        The thread that collects may hold the locks of thread pools, so none is used here. Where the
        thread has a loop that runs, another thread ends the work, and nobody waits for it.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._finish(work)
        else:
            start_new_thread(self._finish, (work,))

    def _finish(self, work: Coroutine[Any, Any, None]) -> None:
        self._loop.run_until_complete(work)
        self.close(wait=False)

    def close(self, *, wait: bool = True) -> None:
        """Close the loop, and wait for the end of its thread."""
        if self._thread is not None:
            self._thread.shutdown(wait)
        self._loop.close()
