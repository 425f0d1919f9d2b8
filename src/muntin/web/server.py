"""A small HTTP server in a thread of its own, with limits for all that it serves."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Self

import uvicorn
from starlette.applications import Starlette

from muntin.model.closeable import Closeable
from muntin.model.errors import OptionError
from muntin.model.listening import listen, loopback, url
from muntin.web.timeouts import protocol

# Connections and answers at once; others are refused until one ends.
_MOST = 256


class WebServer(Closeable):
    """Serves an application while it is entered.

    Args:
        application: Makes the application, of the server's token and of a function that says
            whether the server is about to end.
        host: Where to listen. Elsewhere than on this machine's own loopback a token is needed.
        port: The port; 0 is any that is free.
        token: Access token that a client has to send; ``new`` makes one up.
        name: The name of the thread.

    Raises:
        OptionError: When the token is empty or missing, or the port is taken.
    """

    def __init__(
        self,
        application: Callable[[str | None, Callable[[], bool]], Starlette],
        host: str,
        port: int,
        token: str | None,
        name: str,
    ) -> None:
        # No token is the same as an empty one.
        if token == "":
            hint = "give --token new, or leave it out and listen on 127.0.0.1"
            raise OptionError("token", token, "is empty, so that everybody knows it", hint)
        if token is None and not loopback(host):
            hint = "give --token new, or listen on 127.0.0.1"
            raise OptionError("host", host, "lets others look without a token", hint)
        self.token = secrets.token_urlsafe(16) if token == "new" else token
        self._socket = listen(host, port)
        self.port: int = self._socket.getsockname()[1]
        self.host = host
        self._closing = threading.Event()
        settings = uvicorn.Config(
            application(self.token, self._closing.is_set),
            http=protocol(),
            ws="none",
            log_level="error",
            limit_concurrency=_MOST,
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name=name, daemon=True
        )

    def url(self, path: str) -> str:
        """The address of a path."""
        return url(self.host, self.port, path)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop answering."""
        # Open pages get it first, and leave by themselves.
        self._closing.set()
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        self._socket.close()
