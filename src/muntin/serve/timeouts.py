"""Connections on which nothing whole is asked: each is given some seconds, and all a few places.

Uvicorn waits for a request's end as long as its beginning takes to come, so that whoever opens
connections and sends nothing would hold them for good.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# How long a request may take to come, in seconds, and how many may be on their way at once.
PATIENCE = 10.0
MOST_COMING = 64

_COMING = (h11.IDLE, h11.SEND_BODY)


def protocol(patience: float = PATIENCE, most: int = MOST_COMING) -> type[asyncio.Protocol]:
    """HTTP of one server.

    Args:
        patience: How many seconds a request may take to come.
        most: How many may be on their way at once; one more ends the oldest.
    """
    coming: dict[Any, asyncio.TimerHandle] = {}

    class Patient(H11Protocol):
        """HTTP that waits for a request only so long."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._await_request()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state not in _COMING:
                self._came()
            elif self not in coming:
                self._await_request()

        def connection_lost(self, exc: Exception | None) -> None:
            self._came()
            super().connection_lost(exc)

        def _await_request(self) -> None:
            if len(coming) >= most:
                next(iter(coming))._give_up()
            coming[self] = self.loop.call_later(patience, self._give_up)

        def _came(self) -> None:
            timer = coming.pop(self, None)
            if timer is not None:
                timer.cancel()

        def _give_up(self) -> None:
            self._came()
            self.transport.abort()

    return Patient
