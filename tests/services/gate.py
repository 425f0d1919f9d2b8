"""A proxy in front of an S3 server that refuses some requests, as a busy server does."""

from __future__ import annotations

import http.client
import random
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_XML = (
    '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code>'
    "<Message>tried again later, it is taken</Message></Error>"
)
# One in ten refusals gives no reason.
_REFUSALS = [(503, "SlowDown")] * 9 + [(500, "InternalError")]
_OF_THE_LINK = {"connection", "keep-alive", "transfer-encoding"}


class _Handler(BaseHTTPRequestHandler):
    """Answers one client."""

    protocol_version = "HTTP/1.1"
    # Otherwise a body waits 40 ms until the client has acknowledged the head.
    disable_nagle_algorithm = True
    server: Gate

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        refusal = self.server.choose_refusal()
        if refusal is not None:
            status, code = refusal
            self._answer(status, [], _XML.format(code=code).encode())
            return
        link = http.client.HTTPConnection("127.0.0.1", self.server.beyond, timeout=60)
        try:
            # The host that the client named is part of what it has signed.
            link.request(self.command, self.path, body, dict(self.headers))
            response = link.getresponse()
            self._answer(response.status, response.getheaders(), response.read())
        finally:
            link.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass  # noqa: N815

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _OF_THE_LINK:
                self.send_header(name, value)
        if "content-length" not in {name.lower() for name, _ in headers}:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing, since there are thousands of requests."""


class Gate(ThreadingHTTPServer):
    """A proxy that forwards requests to a port, except those that it refuses.

    Args:
        beyond: The server's port.
        share: The share of the requests that is refused.

    Attributes:
        port: The port that it listens on.
        refused: Number of refused requests by error code.
    """

    daemon_threads = True

    def __init__(self, beyond: int, share: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.port = int(self.server_address[1])
        self.beyond = beyond
        self.refused: Counter[str] = Counter()
        self._share = share
        self._chance, self._turn = random.Random(20260107), threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)
        self._thread.start()

    def choose_refusal(self) -> tuple[int, str] | None:
        """Return the status and code that refuse the next request, if it is refused."""
        with self._turn:
            if self._chance.random() >= self._share:
                return None
            refusal = self._chance.choice(_REFUSALS)
            self.refused[refusal[1]] += 1
            return refusal

    def close(self) -> None:
        """Stop the proxy."""
        self.shutdown()
        self.server_close()
        self._thread.join(timeout=10)
