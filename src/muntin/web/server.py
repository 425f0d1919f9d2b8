"""A small HTTP server in its own thread, with limits for every application that it serves."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Self

import uvicorn
from starlette.applications import Starlette

from muntin.model.closeable import Closeable
from muntin.model.errors import OptionError
from muntin.model.listening import format_url, is_loopback, listen
from muntin.web.timeouts import create_protocol

# The most connections and requests at once; others are refused until one ends.
_MAX_CONNECTIONS = 256


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
