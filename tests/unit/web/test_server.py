"""Tests of the access to a server of figures or of a page."""

from __future__ import annotations

import socket
from contextlib import closing, suppress

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from muntin.model.errors import OptionError
from muntin.web.server import WebServer, create_protocol, has_access


def make_request(**headers: str) -> Request:
    query = headers.pop("query", "")
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    return Request({"type": "http", "headers": raw, "query_string": query.encode(), "path": "/",
                    "server": ("127.0.0.1", 80), "scheme": "http", "method": "GET"})  # fmt: skip


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:8765", True),
        ("localhost", True),
        ("LOCALHOST:1", True),
        ("[::1]:8765", True),
        ("::1", False),
        ("", False),
        (" ", False),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example:80", False),
        ("localhost:80@evil.example", False),
        ("localhost@evil.example", False),
        ("[::1]evil.example", False),
        ("localhost/", False),
        ("0.0.0.0", False),
    ],
)
def test_without_a_token_only_this_machine_is_named(host: str, expected: bool) -> None:
    assert has_access(make_request(host=host), None) is expected


def test_a_request_that_names_no_host_is_refused() -> None:
    assert not has_access(make_request(), None)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"authorization": "Bearer sesame"}, True),
        ({"authorization": "bearer sesame"}, True),
        ({"authorization": "Basic sesame"}, False),
        ({"authorization": "Bearer open"}, False),
        ({"query": "token=sesame"}, True),
        ({"query": "token=ses"}, False),
        ({"cookie": "muntin-token=sesame"}, True),
        ({"host": "127.0.0.1"}, False),
    ],
)
def test_a_token_is_asked_for_wherever_a_client_is(headers: dict[str, str], expected: bool) -> None:
    assert has_access(make_request(**headers), "sesame") is expected


def make_application(token: str | None, closing: object) -> Starlette:
    def answer(request: Request) -> Response:
        return PlainTextResponse("here")

    return Starlette(routes=[Route("/", answer)])


def test_connections_that_ask_for_nothing_are_few() -> None:
    with WebServer(make_application, "127.0.0.1", 0, None, "test") as server:
        connections = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(200)]
        for connection in connections:
            connection.sendall(b"GET / HTTP/1.1\r\nHost:")
        with closing(socket.create_connection(("127.0.0.1", server.port), timeout=10)) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert b"200 OK" in client.recv(1000)
        # The oldest connections have been closed.
        connections[0].settimeout(10)
        with suppress(ConnectionResetError):
            assert connections[0].recv(1) == b""
        for connection in connections:
            connection.close()


def test_a_client_that_reads_no_answer_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sends requests without a token, whose answers fill the kernel's buffer."""
    monkeypatch.setattr("muntin.web.server.create_protocol", lambda: create_protocol(patience=0.3))

    def refuse(token: str | None, closing: object) -> Starlette:
        def answer(request: Request) -> Response:
            return PlainTextResponse("no" * 50_000, status_code=403)

        return Starlette(routes=[Route("/", answer)])

    requests = b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n" * 500
    with (
        WebServer(refuse, "127.0.0.1", 0, "sesame", "test") as server,
        closing(socket.create_connection(("127.0.0.1", server.port), timeout=60)) as client,
        suppress(ConnectionError),
    ):
        while True:
            client.sendall(requests)


@pytest.mark.parametrize(("host", "token"), [("0.0.0.0", None), ("127.0.0.1", "")])
def test_others_need_a_token(host: str, token: str | None) -> None:
    with pytest.raises(OptionError, match="give --token new"):
        WebServer(make_application, host, 0, token, "test")


@pytest.mark.parametrize("token", ["schlüssel", "€", "a\nb", "\udc80"])
def test_a_token_that_no_header_can_hold_is_refused(token: str) -> None:
    with pytest.raises(OptionError, match="token='\\(hidden\\)' has characters that no header"):
        WebServer(make_application, "127.0.0.1", 0, token, "test")
