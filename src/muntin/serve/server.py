"""The page's server beside running queries, in a thread of its own."""

from __future__ import annotations

import ipaddress
import secrets
import socket
import threading
from typing import Self

from muntin.model.closing import Closes
from muntin.model.errors import MissingExtraError, OptionError
from muntin.serve.app import application
from muntin.serve.feed import Feed

try:
    import uvicorn
except ImportError as error:
    raise MissingExtraError("the live page", "web") from error

PORT = 8765


class Server(Closes):
    """Serves the page while it is entered.

    Args:
        feed: What queries tell.
        host: Where to listen. Elsewhere than on this machine's own loopback a token is needed.
        port: The port; 0 is any that is free.
        token: What who looks has to know; ``new`` makes one up.

    Raises:
        OptionError: When others could look without a token, or the port is taken.
    """

    def __init__(
        self, feed: Feed, host: str = "127.0.0.1", port: int = PORT, token: str | None = None
    ) -> None:
        if token is None and not _loopback(host):
            cure = "give --token new, or listen on 127.0.0.1"
            raise OptionError("host", host, "lets others look without a token", cure)
        self.token = secrets.token_urlsafe(16) if token == "new" else token
        self._socket = _bound(host, port)
        self.port: int = self._socket.getsockname()[1]
        self.host = host
        settings = uvicorn.Config(
            application(feed, self.token), log_level="error", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="muntin-page", daemon=True
        )

    @property
    def address(self) -> str:
        """Where the page is."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        asked = f"?token={self.token}" if self.token else ""
        return f"http://{host}:{self.port}/{asked}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        """Answer nobody any more."""
        self._server.should_exit = True
        self._thread.join(timeout=5)
        self._socket.close()


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        # At once, so that nobody else gets the port, and whoever asks early waits for the answer.
        made.listen()
    except OSError as error:
        made.close()
        cure = "give another, or 0 for any that is free"
        raise OptionError("port", port, f"can't be listened on ({error.strerror})", cure) from error
    return made
