"""Runs the page's server beside running queries, in its own thread."""

from __future__ import annotations

from functools import partial
from urllib.parse import quote

from muntin.model.errors import MissingExtraError
from muntin.serve.app import create_application
from muntin.serve.feed import Feed

try:
    from muntin.web.server import WebServer
except ImportError as error:
    raise MissingExtraError("the live page", "web") from error

PORT = 8765


class Server(WebServer):
    """Serves the page while the context is entered; for the arguments see ``WebServer``."""

    def __init__(
        self, feed: Feed, host: str = "127.0.0.1", port: int = PORT, token: str | None = None
    ) -> None:
        super().__init__(partial(create_application, feed), host, port, token, "muntin-page")

    @property
    def address(self) -> str:
        """The URL of the page."""
        asked = f"?token={quote(self.token, safe='')}" if self.token else ""
        return self.url(f"/{asked}")
