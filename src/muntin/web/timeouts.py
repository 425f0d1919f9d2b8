"""Connections without a whole request: each has a timeout, and there are only so many of them.

Uvicorn waits for a request's end without a timeout, so that a client which opens connections and
sends nothing would hold them indefinitely.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# How long a request may take to arrive, seconds, and how many may be incomplete at once: one more
# ends the oldest.
TIMEOUT = 10.0
MOST_OPEN = 64

_INCOMPLETE = (h11.IDLE, h11.SEND_BODY)


def protocol(patience: float = TIMEOUT) -> type[asyncio.Protocol]:
    """HTTP of one server.

    Args:
        patience: How many seconds a request may take to arrive.
    """
    waiting: dict[Any, asyncio.TimerHandle] = {}

    class TimedProtocol(H11Protocol):
        """HTTP that waits for a request only so long."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._await_request()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state not in _INCOMPLETE:
                self._received()
            elif self not in waiting:
                self._await_request()

        def connection_lost(self, exc: Exception | None) -> None:
            self._received()
            super().connection_lost(exc)

        def _await_request(self) -> None:
            if len(waiting) >= MOST_OPEN:
                next(iter(waiting))._give_up()
            waiting[self] = self.loop.call_later(patience, self._give_up)

        def _received(self) -> None:
            timer = waiting.pop(self, None)
            if timer is not None:
                timer.cancel()

        def _give_up(self) -> None:
            self._received()
            self.transport.abort()

    return TimedProtocol
