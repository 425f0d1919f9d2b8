"""Tests that a hostile server, or one that isn't a broker, costs neither memory nor time."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from muntin.sources.kafka_connection import Connection, ConnectionSettings, FetchError


@contextmanager
def serve_answers(*answers: bytes) -> Iterator[int]:
    """Listen, and send the next answer to each request, whatever it is."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            peer, _ = listening.accept()
            with peer, suppress(ConnectionResetError):
                for encode_answer in answers:
                    peer.recv(65536)
                    peer.sendall(encode_answer)
                peer.recv(65536)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]


def encode_answer(number: int, body: bytes) -> bytes:
    return struct.pack(">ii", 4 + len(body), number) + body


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 400 Bad Request\r\n", b"\xff\xff\xff\xff", b"\0\0\0\0"]
)
def test_no_memory_is_kept_for_what_isnt_an_answer(head: bytes) -> None:
    with serve_answers(head) as port, pytest.raises(FetchError, match="announces an answer of"):
        Connection("127.0.0.1", port, ConnectionSettings.of({}))


@pytest.mark.parametrize(
    ("challenge", "problem"),
    [
        ("r={nonce}x,s=AAAA,i=2000000000", "asks for 2000000000 rounds"),
        ("r={nonce}x,s=AAAA,i=many", "isn't for this login"),
        ("r=another,s=AAAA,i=4096", "isn't for this login"),
        ("r={nonce}x,s=A,i=4096", "has no salt"),
        ("nothing", "isn't for this login"),
    ],
)
def test_a_login_is_hashed_so_many_times_and_no_more(
    challenge: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.urandom", bytes)
    # 24 null bytes in base 64.
    text = challenge.replace("{nonce}", "A" * 32).encode()
    versions = struct.pack(">hihhh", 0, 1, 1, 0, 11)
    bodies = [versions, struct.pack(">hi", 0, 0), struct.pack(">hhi", 0, -1, len(text)) + text]
    settings = ConnectionSettings.of(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "me",
            "sasl.password": "sesame",
        }
    )
    with (
        serve_answers(*(encode_answer(number, body) for number, body in enumerate(bodies))) as port,
        pytest.raises(FetchError, match=problem),
    ):
        Connection("127.0.0.1", port, settings)
