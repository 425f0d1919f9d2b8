"""A connection to one broker of Kafka: encryption, login, and one request at a time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np

_TIMEOUT = 30.0
# The size limit of an answer, in bytes. Servers of other protocols seem to announce gigabytes.
_LARGEST = 256 << 20
# The limit of the rounds of a SCRAM login, which cost time before the broker has proved itself.
_MOST_ROUNDS = 1 << 20
_CLIENT = b"muntin"
_VERSIONS, _HANDSHAKE, _AUTHENTICATE = 18, 17, 36
_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_MECHANISMS = ("PLAIN", *_HASHES)
# Settings of librdkafka that a connection follows.
_SUPPORTED = frozenset(
    ("bootstrap.servers", "security.protocol", "isolation.level", "ssl.ca.location",
     "ssl.certificate.location", "ssl.key.location", "ssl.key.password",
     "enable.ssl.certificate.verification", "ssl.endpoint.identification.algorithm",
     "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password")
)  # fmt: skip
# Settings that change how librdkafka reads, but not which messages it returns.
_IRRELEVANT = (
    "client.id", "fetch.", "queued.", "socket.", "log", "metadata.", "topic.metadata.",
    "reconnect.", "retry.", "statistics.", "broker.address.ttl", "group.id", "check.crcs",
    "max.poll.", "session.timeout", "heartbeat.", "enable.auto.", "auto.offset.reset",
    "enable.partition.eof", "receive.message.max.bytes", "message.max.bytes",
)  # fmt: skip


class FetchError(Exception):
    """A range can't be fetched by this reader; librdkafka reads it instead."""


@dataclass(frozen=True)
class ConnectionSettings:
    """The security settings of connections; ``of_admin`` is for librdkafka's admin client."""

    of_admin: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, client: Mapping[str, str]) -> ConnectionSettings:
        """Take settings of librdkafka, or raise ``FetchError`` for an unsupported one."""
        unknown = [n for n in client if n not in _SUPPORTED and not n.startswith(_IRRELEVANT)]
        if unknown:
            raise FetchError(f"{unknown[0]!r} is followed by librdkafka only")
        settings = cls({n: client[n] for n in client if n in _SUPPORTED - {"isolation.level"}})
        if settings.protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
            raise FetchError(f"{settings.protocol!r} is followed by librdkafka only")
        if settings.logs_in and settings.mechanism not in _MECHANISMS:
            raise FetchError(f"{settings.mechanism!r} is followed by librdkafka only")
        return settings

    @property
    def protocol(self) -> str:
        """The security protocol, in capitals."""
        return self.of_admin.get("security.protocol", "PLAINTEXT").upper()

    @property
    def logs_in(self) -> bool:
        """True if a connection logs in."""
        return self.protocol.startswith("SASL_")

    @property
    def mechanism(self) -> str:
        """The SASL mechanism of the login, in capitals."""
        either = self.of_admin.get("sasl.mechanism"), self.of_admin.get("sasl.mechanisms")
        return next(filter(None, either), "GSSAPI").upper()

    def encrypt(self, plain: socket.socket, host: str) -> socket.socket:
        """Encrypt a connection, if the protocol asks for it."""
        if not self.protocol.endswith("SSL"):
            return plain
        get = self.of_admin.get
        context = ssl.create_default_context(cafile=get("ssl.ca.location"))
        if get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
            context.check_hostname = False
        if get("enable.ssl.certificate.verification", "true").lower() == "false":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate := get("ssl.certificate.location"):
            context.load_cert_chain(certificate, get("ssl.key.location"), get("ssl.key.password"))
        return context.wrap_socket(plain, server_hostname=host)


class Connection:
    """One connection to one broker.

    Raises:
        OSError: When the broker can't be reached.
        FetchError: When the login fails.
    """

    def __init__(self, host: str, port: int, settings: ConnectionSettings) -> None:
        self._numbers = itertools.count()
        plain = socket.create_connection((host, port), _TIMEOUT)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = settings.encrypt(plain, host)
            self._versions = self._find_versions()
            if settings.logs_in:
                self._log_in(settings)
        except BaseException:
            plain.close()
            raise

    def require(self, request: int, version: int) -> None:
        """Check that the broker takes a version of a request, or raise ``FetchError``."""
        if not self.takes(request, version):
            raise FetchError(f"the broker takes no request {request} of version {version}")

    def takes(self, request: int, version: int) -> bool:
        """Return whether the broker takes a version of a request."""
        lowest, highest = self._versions.get(request, (0, -1))
        return lowest <= version <= highest

    def ask(self, request: int, version: int, body: bytes, *, has_tags: bool = False) -> memoryview:
        """Send a request and return its answer, without the correlation number.

        The answer isn't copied, and can only be read.

        Args:
            request: The number of the request.
            version: Its version.
            body: Its body.
            has_tags: Whether headers of this version have optional fields; the answer then begins
                with those of its header.
        """
        number = next(self._numbers) & 0x7FFFFFFF
        head = struct.pack(">hhih", request, version, number, len(_CLIENT)) + _CLIENT
        if has_tags:
            head += b"\0"
        self._socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
        (size,) = struct.unpack(">i", self._receive(4))
        if not 4 <= size <= _LARGEST:
            raise FetchError(f"a broker announces an answer of {size} bytes")
        answer = self._receive(size)
        if struct.unpack_from(">i", answer) != (number,):
            raise FetchError("the broker's answer is for another request")
        return answer[4:]

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _receive(self, size: int) -> memoryview:
        # Zeros needn't be written before the bytes.
        view, received = np.empty(size, np.uint8).data, 0
        while received < size:
            count = self._socket.recv_into(view[received:])
            if not count:
                raise ConnectionResetError("the broker closed the connection")
            received += count
        return view.toreadonly()

    def _find_versions(self) -> dict[int, tuple[int, int]]:
        answer = self.ask(_VERSIONS, 0, b"")
        error, count = struct.unpack_from(">hi", answer)
        if error:
            raise FetchError(f"the broker answers with error {error}")
        triples = [struct.unpack_from(">hhh", answer, 6 + 6 * n) for n in range(count)]
        return {request: (lowest, highest) for request, lowest, highest in triples}

    def _log_in(self, settings: ConnectionSettings) -> None:
        name = settings.mechanism.encode()
        answer = self.ask(_HANDSHAKE, 1, struct.pack(">h", len(name)) + name)
        if struct.unpack_from(">h", answer) != (0,):
            raise FetchError(f"the broker doesn't take {settings.mechanism}")
        user = settings.of_admin.get("sasl.username", "")
        password = settings.of_admin.get("sasl.password", "")
        if settings.mechanism == "PLAIN":
            self._authenticate(f"\0{user}\0{password}".encode())
        else:
            self._challenge(_HASHES[settings.mechanism], user, password)

    def _authenticate(self, token: bytes) -> bytes:
        answer = self.ask(_AUTHENTICATE, 0, struct.pack(">i", len(token)) + token)
        error, size = struct.unpack_from(">hh", answer)
        if error:
            raise FetchError("the broker refuses the login")
        return bytes(answer[8 + max(size, 0) :])

    def _challenge(self, digest: str, user: str, password: str) -> None:
        """Log in by SCRAM (RFC 5802), and check that the broker knows the password too."""
        nonce = base64.b64encode(os.urandom(24)).decode()
        first = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        challenge = self._authenticate(f"n,,{first}".encode()).decode(errors="replace")
        parts = dict(part.partition("=")[::2] for part in challenge.split(","))
        rounds = parts.get("i", "")
        if not parts.get("r", "").startswith(nonce) or not rounds.isdecimal():
            raise FetchError("the broker's challenge isn't for this login")
        if int(rounds) > _MOST_ROUNDS:
            raise FetchError(f"the broker asks for {rounds} rounds of hashing")
        try:
            salt = base64.b64decode(parts.get("s", ""))
        except ValueError as error:
            raise FetchError("the broker's challenge has no salt") from error
        salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, int(rounds))
        final = f"c=biws,r={parts['r']}"
        message = f"{first},{challenge},{final}".encode()
        key = hmac.digest(salted, b"Client Key", digest)
        proof = hmac.digest(hashlib.new(digest, key).digest(), message, digest)
        signed = bytes(a ^ b for a, b in zip(key, proof, strict=True))
        answer = self._authenticate(f"{final},p={base64.b64encode(signed).decode()}".encode())
        server = hmac.digest(hmac.digest(salted, b"Server Key", digest), message, digest)
        if not hmac.compare_digest(answer, b"v=" + base64.b64encode(server)):
            raise FetchError("the broker doesn't know the password")


Connected = TypeVar("Connected")


class ConnectionPool(Generic[Connected]):
    """Connections by the name of where they lead; those that were returned are lent again."""

    def __init__(self) -> None:
        self.idle: dict[str, list[Connected]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def lend(self, name: str, connect: Callable[[], Connected]) -> Iterator[Connected]:
        """Lend a connection; ``connect`` creates one if all others are in use."""
        with self._lock:
            idle = self.idle.setdefault(name, [])
            connection = idle.pop() if idle else None
        if connection is None:
            connection = connect()
        try:
            yield connection
        finally:
            with self._lock:
                idle.append(connection)
