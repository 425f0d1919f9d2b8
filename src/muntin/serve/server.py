"""The page's server beside running queries, in a thread of its own."""

from __future__ import annotations

import secrets
import threading
from typing import Self
from urllib.parse import quote

from muntin.model.closeable import Closeable
from muntin.model.errors import MissingExtraError, OptionError
from muntin.model.listening import listen, loopback, url
from muntin.serve.app import application
from muntin.serve.feed import Feed

try:
    import uvicorn

    from muntin.serve.timeouts import protocol
except ImportError as error:
    raise MissingExtraError("the live page", "web") from error

PORT = 8765
# Connections and answers at once; others are refused until one ends.
_MOST = 256


class Server(Closeable):
    """Serves the page while it is entered.

    Args:
        feed: What queries emit.
        host: Where to listen. Elsewhere than on this machine's own loopback a token is needed.
        port: The port; 0 is any that is free.
        token: What who looks has to know; ``new`` makes one up.
    """

    def __init__(
        self, feed: Feed, host: str = "127.0.0.1", port: int = PORT, token: str | None = None
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
            application(feed, self.token, self._closing.is_set),
            http=protocol(),
            ws="none",
            log_level="error",
            limit_concurrency=_MOST,
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="muntin-page", daemon=True
        )

    @property
    def address(self) -> str:
        """Where the page is."""
        asked = f"?token={quote(self.token, safe='')}" if self.token else ""
        return url(self.host, self.port, f"/{asked}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop answering."""
        # Open pages get it first, and leave by themselves.
        self._closing.set()
        self._server.should_exit = True
        self._thread.join(timeout=5)
        self._socket.close()
