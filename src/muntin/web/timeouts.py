"""Limits connections with incomplete requests, by time and by number.

Uvicorn waits for the end of a request without a timeout, so a client that opens connections and
sends nothing would hold them forever.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# How long a request may take to arrive, in seconds, and how many may be incomplete at once: a
# further one closes the oldest.
TIMEOUT = 10.0
MAX_INCOMPLETE = 64

_INCOMPLETE = (h11.IDLE, h11.SEND_BODY)


def create_protocol(patience: float = TIMEOUT) -> type[asyncio.Protocol]:
    """Create the HTTP protocol of one server, in which a request may take so many seconds."""
    waiting: dict[Any, asyncio.TimerHandle] = {}

    class TimedProtocol(H11Protocol):
        """HTTP that waits for a request only so long."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._start_timer()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state not in _INCOMPLETE:
                self._stop_timer()
            elif self not in waiting:
                self._start_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def _start_timer(self) -> None:
            if len(waiting) >= MAX_INCOMPLETE:
                next(iter(waiting))._give_up()
            waiting[self] = self.loop.call_later(patience, self._give_up)

        def _stop_timer(self) -> None:
            timer = waiting.pop(self, None)
            if timer is not None:
                timer.cancel()

        def _give_up(self) -> None:
            self._stop_timer()
            self.transport.abort()

    return TimedProtocol
