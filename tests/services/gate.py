"""What stands between a client and an S3 server, and refuses some requests as a busy one does."""

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
# One in ten refusals is of the kind that says nothing of why.
_REFUSALS = [(503, "SlowDown")] * 9 + [(500, "InternalError")]
_OF_THE_LINK = {"connection", "keep-alive", "transfer-encoding"}


class _Handler(BaseHTTPRequestHandler):
    """Answers one client."""

    protocol_version = "HTTP/1.1"
    # Else a body waits 40 ms until the client has acknowledged the head.
    disable_nagle_algorithm = True
    server: Gate

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        refusal = self.server.refusal()
        if refusal is not None:
            status, code = refusal
            self._answer(status, [], _XML.format(code=code).encode())
            return
        link = http.client.HTTPConnection("127.0.0.1", self.server.beyond, timeout=60)
        try:
            # The host that the client named is part of what it has signed.
            link.request(self.command, self.path, body, dict(self.headers))
            found = link.getresponse()
            self._answer(found.status, found.getheaders(), found.read())
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
        """Say nothing: there are thousands."""


class Gate(ThreadingHTTPServer):
    """Passes requests on to a port, but for those that it refuses.

    Args:
        beyond: The server's port.
        share: Which share of the requests is refused.

    Attributes:
        port: Where it listens.
        refused: How many requests it refused, by their code.
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

    def refusal(self) -> tuple[int, str] | None:
        """The status and code that the next request is refused with, if it is."""
        with self._turn:
            if self._chance.random() >= self._share:
                return None
            found = self._chance.choice(_REFUSALS)
            self.refused[found[1]] += 1
            return found

    def close(self) -> None:
        """Listen no more."""
        self.shutdown()
        self.server_close()
        self._thread.join(timeout=10)
