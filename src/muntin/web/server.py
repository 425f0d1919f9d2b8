"""A small HTTP server in its own thread, with access checks and limits for its application.

Uvicorn waits without a timeout for the end of a request, and for a client to read its answer. So a
client that sends nothing, or reads nothing, would hold its connections forever. Here both are
limited by time, and incomplete requests by number.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import threading
from collections.abc import Callable
from typing import Any, Self

import h11
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

from muntin.model.closeable import Closeable
from muntin.model.errors import OptionError
from muntin.model.listening import format_url, is_loopback, listen
from muntin.model.secrets import HIDDEN

# How long a request may take to arrive, and a client not to read, in seconds, and how many requests
# may be incomplete at once: a further one closes the oldest.
TIMEOUT = 10.0
MAX_INCOMPLETE = 64

# The most connections and requests at once; others are refused until one ends.
_MAX_CONNECTIONS = 256
COOKIE = "muntin-token"
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:@/]+))(?::\d*)?")
_INCOMPLETE = (h11.IDLE, h11.SEND_BODY)


class _UnreadProtocol(H11Protocol):
    """HTTP that waits for a client that reads nothing only so long."""

    patience = TIMEOUT
    _unread: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self.patience, self.transport.abort)

    def resume_writing(self) -> None:
        self._forget_unread()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_unread()
        super().connection_lost(exc)

    def _forget_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None


def create_protocol(patience: float = TIMEOUT) -> type[asyncio.Protocol]:
    """Create the HTTP protocol of one server, in which a client may take so many seconds."""
    waiting: dict[Any, asyncio.TimerHandle] = {}

    class TimedProtocol(_UnreadProtocol):
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

    TimedProtocol.patience = patience
    return TimedProtocol


class WebServer(Closeable):
    """Serves an application while the context is entered.

    Args:
        application: Creates the application from the server's token, and a function that returns
            whether the server is about to stop.
        host: The address to listen on. Any address but this machine's loopback needs a token.
        port: The port; 0 for any free one.
        token: Access token that clients have to send; use ``new`` to generate one.
        name: The name of the thread.

    Raises:
        OptionError: When the token is empty or missing, or the port is in use.
    """

    def __init__(
        self,
        application: Callable[[str | None, Callable[[], bool]], Starlette],
        host: str,
        port: int,
        token: str | None,
        name: str,
    ) -> None:
        # An empty token would let everybody in.
        if token == "":
            hint = "give --token new, or leave it out and listen on 127.0.0.1"
            raise OptionError("token", token, "is empty, so that everybody knows it", hint)
        if token is not None and not (token.isascii() and token.isprintable()):
            hint = "write letters and digits, or give --token new"
            raise OptionError("token", HIDDEN, "has characters that no header can hold", hint)
        if token is None and not is_loopback(host):
            hint = "give --token new, or listen on 127.0.0.1"
            raise OptionError("host", host, "lets others look without a token", hint)
        self.token = secrets.token_urlsafe(16) if token == "new" else token
        self._socket = listen(host, port)
        self.port: int = self._socket.getsockname()[1]
        self.host = host
        self._closing = threading.Event()
        settings = uvicorn.Config(
            application(self.token, self._closing.is_set),
            http=create_protocol(),
            ws="none",
            log_level="error",
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name=name, daemon=True
        )

    def url(self, path: str) -> str:
        """Return the URL of a path."""
        return format_url(self.host, self.port, path)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop answering."""
        # Tell open pages first, which then disconnect by themselves.
        self._closing.set()
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        self._socket.close()


def has_access(request: Request, token: str | None) -> bool:
    """Return whether a request has the server's token as bearer, ``?token=…`` or cookie.

    Without a token, the request must name this machine: a foreign name that resolves to this
    machine belongs to another site's page.
    """
    if token is None:
        return is_loopback(_host(request))
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    request_token = bearer if scheme.lower() == "bearer" else ""
    request_token = (
        request_token or request.query_params.get("token") or request.cookies.get(COOKIE) or ""
    )
    return hmac.compare_digest(request_token.encode(), token.encode())


def _host(request: Request) -> str:
    """Return the host that a request names, or an empty text."""
    named = _HOST.fullmatch(request.headers.get("host", "").strip().lower())
    return "" if named is None else named[1] or named[2]
