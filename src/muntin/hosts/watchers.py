"""Those who watch a query: each in a thread of its own, so that none can delay or end it."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_LOG = logging.getLogger(__name__)
# How long a thread that has nothing to show waits for more.
_IDLE = 5.0


class RefCounted:
    """What several use, and is given back when the last of them is done."""

    def __init__(self, give_back: Callable[[], Any]) -> None:
        self._give_back = give_back
        self._users = 1
        self._lock = threading.Lock()

    def hold(self) -> None:
        """Somebody else uses it, too."""
        with self._lock:
            self._users += 1

    def done(self) -> None:
        """One of them is done."""
        with self._lock:
            self._users -= 1
            last = self._users == 0
        if last:
            self._give_back()


@dataclass(frozen=True)
class Shown:
    """What a watcher is to see.

    Attributes:
        batch: The number of the batch.
        values: What he is called with.
        kept: What must be there until he is done, if anything.
    """

    batch: int
    values: Sequence[Any]
    kept: RefCounted | None = None


class Watcher:
    """One who watches, in a thread that is there while there is something to see.

    Args:
        look: Is called with what there is to see, in order.
        most: How much may wait for him; of more, the oldest is skipped.

    Attributes:
        failures: How often he raised.
        skipped: How much he wasn't shown, since he was too slow.
    """

    def __init__(self, look: Callable[..., Any], most: int) -> None:
        self.failures = self.skipped = 0
        self._look = look
        self._most = most
        self._waiting: deque[Shown] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._busy = False

    def show(self, shown: Shown) -> None:
        """Show him something soon; returns at once."""
        if shown.kept is not None:
            shown.kept.hold()
        skipped = None
        with self._changed:
            self._waiting.append(shown)
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
            _done(skipped)

    def settle(self, patience: float) -> bool:
        """Wait until he has seen all; whether he has."""
        with self._changed:
            mine = self._thread is threading.current_thread()
            return mine or self._changed.wait_for(self._idle, patience)

    def _idle(self) -> bool:
        return not self._waiting and not self._busy

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._waiting, _IDLE):
                    self._thread = None
                    return
                shown, self._busy = self._waiting.popleft(), True
            try:
                self._look(*shown.values)
            except Exception:
                self.failures += 1
                _LOG.exception("A watcher failed at batch %d; the query goes on", shown.batch)
            finally:
                _done(shown)
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()


def _done(shown: Shown) -> None:
    if shown.kept is None:
        return
    try:
        shown.kept.done()
    except Exception:
        # The session may have ended meanwhile.
        _LOG.debug("What was shown of batch %d couldn't be given back", shown.batch, exc_info=True)
