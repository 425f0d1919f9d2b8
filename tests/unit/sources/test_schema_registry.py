"""Tests of a schema registry that is away or slow, that redirects, or gives wrong answers."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.services.registry import SchemaRegistry

from muntin.model.errors import OptionError, SourceError
from muntin.sources import schema_registry
from muntin.sources.schema_registry import Registry, registry_at

SCHEMA = {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    service = SchemaRegistry()
    service.register("a-value", SCHEMA)
    yield service
    service.close()


def open_with_password(registry: SchemaRegistry, patience: float = 60.0) -> Registry:
    return Registry(registry.url.replace("//", "//me:sesame@"), patience)


def test_one_that_is_away_for_a_moment_is_waited_for(
    registry: SchemaRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    registry.down = 2
    with caplog.at_level(logging.WARNING):
        assert json.loads(Registry(f"{registry.url}/").latest("a")) == SCHEMA
    assert len(registry.asked) == 3
    away, back = caplog.messages
    assert away.startswith(f"the schema registry at {registry.url} fails (answers 503")
    assert away.endswith("retrying for 60 s")
    assert "answers again" in back


def test_errors_say_what_to_do(registry: SchemaRegistry) -> None:
    with pytest.raises(SourceError, match=r"has no schema of 'b-value'. Register one, or give"):
        Registry(registry.url).latest("b")
    registry.user = "reader:se/same"
    with pytest.raises(SourceError, match="answers 401") as error:
        Registry(registry.url.replace("//", "//reader:wrong@")).latest("a")
    assert "wrong" not in str(error.value)
    authorized = Registry(registry.url.replace("//", "//reader:se%2Fsame@"))
    assert json.loads(authorized.latest("a")) == SCHEMA
    assert "same" not in repr(authorized)
    registry.close()
    with pytest.raises(SourceError, match=r"hasn't answered for 0 s: .*refused") as error:
        Registry(registry.url, patience=0.0).latest("a")
    assert f"{registry.url}/subjects/a-value/versions/latest" in str(error.value)


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (200, b"<html>sesame</html>", "answers 200 without valid JSON"),
        (200, b"", "answers 200 without valid JSON"),
        (200, b"[" * 200_000, "answers 200 without valid JSON"),
        (404, b"<!DOCTYPE html>sesame", "answers 404"),
        (500, b"<html>sesame</html>", "answers 500"),
        (502, b"sesame", "answers 502"),
        (403, b"sesame", "answers 403"),
    ],
)
def test_what_isnt_its_own_answer_is_named_by_status(
    registry: SchemaRegistry, status: int, body: bytes, problem: str
) -> None:
    registry.page = status, body, {"Content-Type": "text/html"}
    with pytest.raises(SourceError, match=problem) as error:
        open_with_password(registry, 0.0).latest("a")
    assert "sesame" not in str(error.value)
    assert f"{registry.url}/subjects" in str(error.value)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 404 None\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n", "answers 404"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\n", "IncompleteRead"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n{}", "got more than 65536 bytes"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 200 + b"\r\n{}", "got more than 100 headers"),
        (b"SSH-2.0-OpenSSH\r\n", "hasn't answered for 0 s: SSH-2.0-OpenSSH (http"),
        (b"HTTP/1.1 302 F\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", "an infinite loop. The"),
        (b"HTTP/1.1 302 F\r\nLocation: http://h:99999/\r\n\r\n", "Port out of range"),
        (b"", "closed connection without response"),
    ],
)
def test_an_answer_that_is_no_http_is_an_error_in_one_line(answer: bytes, problem: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def reply() -> None:
            with suppress(OSError):
                while True:
                    client, _ = server.accept()
                    with client:
                        client.recv(65_536)
                        client.sendall(answer)

        threading.Thread(target=reply, daemon=True).start()
        url = f"http://me:sesame@127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(SourceError) as error:
            Registry(url, 0.0).latest("a")
        server.shutdown(socket.SHUT_RDWR)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)
    assert "sesame" not in str(error.value)


@pytest.mark.parametrize("answer", [[1, 2], 5, {}, {"schema": 5}, "x", None])
def test_json_of_another_kind_is_no_schema(registry: SchemaRegistry, answer: Any) -> None:
    registry.page = 200, json.dumps(answer).encode(), {}
    with pytest.raises(SourceError, match="no schema of 'a-value'"):
        Registry(registry.url).latest("a")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_credentials_follow_no_redirect_to_another_server(
    registry: SchemaRegistry, status: int
) -> None:
    other = SchemaRegistry()
    port = registry.url.rpartition(":")[2]
    # Another port, another host, another scheme.
    for target in (
        f"{other.url}/x?token=t",
        f"http://localhost:{port}/x",
        f"https://127.0.0.1:{port}",
    ):
        registry.page = status, b"", {"Location": target}
        with pytest.raises(SourceError, match="redirects to") as error:
            open_with_password(registry).latest("a")
        assert "token" not in str(error.value)
        assert "sesame" not in str(error.value)
    assert other.asked == []
    other.close()


def test_redirects_to_what_no_registry_is_are_refused(registry: SchemaRegistry) -> None:
    for target in ("file:///etc/passwd", "ftp://127.0.0.1/x", "//other.invalid/x"):
        registry.page = 302, b"", {"Location": target}
        with pytest.raises(SourceError):
            open_with_password(registry, 0.0).latest("a")


def test_a_redirect_within_the_registry_is_followed(registry: SchemaRegistry) -> None:
    registry.page = 302, b"", {"Location": "/elsewhere"}
    with pytest.raises(SourceError):
        open_with_password(registry, 0.0).latest("a")
    assert registry.asked[1] == "/elsewhere"
    assert registry.authorized[0] == registry.authorized[1] is not None
    assert len(registry.asked) < 10


def test_answers_are_bounded(registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_registry, "_LARGEST", 1000)
    registry.page = 200, b'"' + b"x" * 2000 + b'"', {}
    with pytest.raises(SourceError, match="answers with more than"):
        Registry(registry.url).latest("a")


def test_one_that_drips_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of the whole answer ends the wait, since each byte restarts that of the socket."""
    run_with_timeout = schema_registry._run_with_timeout
    monkeypatch.setattr(
        schema_registry, "_run_with_timeout", lambda _, ask: run_with_timeout(0.2, ask)
    )
    ended, sent = threading.Event(), []
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]

    def drip() -> None:
        with server:
            client, _ = server.accept()
            with client, suppress(OSError):
                while not sent or not ended.wait(0.02):
                    sent.append(client.send(b"H"))

    thread = threading.Thread(target=drip)
    thread.start()
    with pytest.raises(SourceError, match="no whole answer in"):
        Registry(f"http://127.0.0.1:{port}", 0.0).latest("a")
    # The server was still sending when the registry gave up.
    assert thread.is_alive()
    ended.set()
    thread.join()


def test_an_address_is_http() -> None:
    assert registry_at(None) is None
    for address in ("there:8081", "ftp://there", "http://", "http://there:99999", "http://[::1",
                  " http://there", "http://there\n", "http://h?a=1", "http://h#a"):  # fmt: skip
        with pytest.raises(OptionError, match=r"registry='.*' isn't an address"):
            registry_at(address)
