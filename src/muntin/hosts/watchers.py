"""Watchers of a query: callbacks in threads of their own, which can't delay or end the query."""

from __future__ import annotations

import logging
import threading
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from muntin.model.printable import escape_controls
from muntin.model.secrets import redact

_LOG = logging.getLogger(__name__)
# Time after which an idle thread ends, seconds.
_IDLE = 5.0


class RefCounted:
    """A resource with several users, which is released when the last one is done."""

    def __init__(self, give_back: Callable[[], Any]) -> None:
        self._give_back = give_back
        self._users = 1
        self._lock = threading.Lock()

    def hold(self) -> None:
        """Add a user."""
        with self._lock:
            self._users += 1

    def done(self) -> None:
        """Remove a user, and release the resource if it was the last one."""
        with self._lock:
            self._users -= 1
            last = self._users == 0
        if last:
            self._give_back()


@dataclass(frozen=True)
class WatcherCall:
    """One call of a watcher.

    Attributes:
        resource: A resource that must not be released before the call ends, if there is one.
    """

    batch: int
    values: Sequence[Any]
    resource: RefCounted | None = None


class Watcher:
    """A callback in a thread of its own, which runs while there are calls to make.

    Args:
        look: The callback, which gets the calls in order.
        most: The largest number of waiting calls; beyond it, the oldest is skipped.

    Attributes:
        failures: The number of calls that raised.
        skipped: The number of calls that were skipped, since the callback was too slow.
    """

    def __init__(self, look: Callable[..., Any], most: int) -> None:
        self.failures = self.skipped = 0
        self._look = look
        self._most = most
        self._waiting: deque[WatcherCall] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._busy = False

    def show(self, call: WatcherCall) -> None:
        """Queue a call, and return at once."""
        if call.resource is not None:
            call.resource.hold()
        skipped = None
        with self._changed:
            self._waiting.append(call)
            if len(self._waiting) > self._most:
                skipped = self._waiting.popleft()
                self.skipped += 1
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, daemon=True, name="muntin-watcher"
                )
                self._thread.start()
            self._changed.notify_all()
        if skipped is not None:
            _release(skipped)

    def settle(self, patience: float) -> bool:
        """Wait until no call is waiting or running; return whether that is so.

        Within the callback itself it returns at once.
        """
        with self._changed:
            is_own_thread = self._thread is threading.current_thread()
            return is_own_thread or self._changed.wait_for(self._idle, patience)

    def _idle(self) -> bool:
        return not self._waiting and not self._busy

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._waiting, _IDLE):
                    self._thread = None
                    return
                call, self._busy = self._waiting.popleft(), True
            try:
                self._look(*call.values)
            except Exception:
                self.failures += 1
                trace = redact(escape_controls(traceback.format_exc().rstrip()))
                _LOG.error("A watcher failed at batch %d; the query goes on\n%s", call.batch, trace)
            finally:
                _release(call)
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()


def _release(call: WatcherCall) -> None:
    if call.resource is None:
        return
    try:
        call.resource.done()
    except Exception:
        # The session may have ended meanwhile.
        _LOG.debug("Batch %d couldn't be released after a watcher", call.batch, exc_info=True)
