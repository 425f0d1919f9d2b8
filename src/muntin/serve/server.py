"""The page's server beside running queries, in a thread of its own."""

from __future__ import annotations

from functools import partial
from urllib.parse import quote

from muntin.model.errors import MissingExtraError
from muntin.serve.app import application
from muntin.serve.feed import Feed

try:
    from muntin.web.server import WebServer
except ImportError as error:
    raise MissingExtraError("the live page", "web") from error

PORT = 8765


class Server(WebServer):
    """Serves the page while it is entered.

    Args:
        feed: What queries emit.
        host: Where to listen. Elsewhere than on this machine's own loopback a token is needed.
        port: The port; 0 is any that is free.
        token: Access token required to view the page; ``new`` makes one up.
    """

    def __init__(
        self, feed: Feed, host: str = "127.0.0.1", port: int = PORT, token: str | None = None
    ) -> None:
        super().__init__(partial(application, feed), host, port, token, "muntin-page")

    @property
    def address(self) -> str:
        """Where the page is."""
        asked = f"?token={quote(self.token, safe='')}" if self.token else ""
        return self.url(f"/{asked}")
