"""A schema registry for tests, on loopback, with schemas in memory.

The paths, the answers and the wire format are those that Confluent documents, since no package
index has a registry.
"""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fastavro

from muntin.sources import avro_registry


class SchemaRegistry:
    """Schemas by number and by subject.

    Attributes:
        url: Its address.
        asked: The requested paths, in order.
        user: The user and the password that it requires, if any.
        down: How many of the next requests it answers with an error of its own.
        page: Status, body and headers that it answers instead of JSON.
        answers: Answers by number, which replace schemas.
        authorized: The credentials that came with each request.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.user: str | None = None
        self.down = 0
        self.page: tuple[int, bytes, dict[str, str]] | None = None
        self.answers: dict[int, Any] = {}
        self.authorized: list[str | None] = []
        self._schemas: list[dict[str, Any]] = []
        self._subjects: dict[str, int] = {}
        registry = self
        # An earlier registry of this process may have had its port, and other schemas.
        avro_registry._SCHEMAS.clear()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                registry.authorized.append(self.headers.get("Authorization"))
                if registry.page is None:
                    self.reply(*registry.answer(self.path, self.headers))
                    return
                status, body, headers = registry.page
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(body)

            def do_POST(self) -> None:
                registry.asked.append(self.path)
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                subject = self.path.removeprefix("/subjects/").removesuffix("/versions")
                try:
                    schema = json.loads(body["schema"])
                    fastavro.parse_schema(schema)
                except Exception as error:
                    self.reply(422, {"error_code": 42201, "message": f"Invalid schema: {error}"})
                else:
                    self.reply(200, {"id": registry.register(subject, schema)})

            def reply(self, code: int, answer: Any) -> None:
                body = json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, path: str, headers: Mapping[str, str]) -> tuple[int, Any]:
        """Return the status and the body for a path."""
        if self.user is not None:
            expected = f"Basic {base64.b64encode(self.user.encode()).decode()}"
            if headers.get("Authorization") != expected:
                return 401, {"error_code": 401, "message": "Unauthorized"}
        if self.down:
            self.down -= 1
            return 503, {"error_code": 50301, "message": "Leader isn't known"}
        kind, _, rest = path.strip("/").partition("/")
        if kind == "schemas":
            number = int(rest.removeprefix("ids/"))
            if number in self.answers:
                return 200, self.answers[number]
            if 0 < number <= len(self._schemas):
                return 200, self._schemas[number - 1]
            return 404, {"error_code": 40403, "message": "Schema not found"}
        subject = rest.removesuffix("/versions/latest")
        number = self._subjects.get(subject, 0)
        if number:
            return 200, {"subject": subject, "id": number, **self._schemas[number - 1]}
        return 404, {"error_code": 40401, "message": "Subject not found"}

    def register(self, subject: str, schema: Any, **attributes: Any) -> int:
        """Add a schema, and return its number."""
        entry = {"schema": json.dumps(schema), **attributes}
        if entry not in self._schemas:
            self._schemas.append(entry)
        self._subjects[subject] = self._schemas.index(entry) + 1
        return self._subjects[subject]

    def written(self, number: int, message: Mapping[str, Any]) -> bytes:
        """Encode a message as a serializer of the registry does."""
        schema = fastavro.parse_schema(json.loads(self._schemas[number - 1]["schema"]))
        buffer = io.BytesIO()
        buffer.write(b"\0" + number.to_bytes(4, "big"))
        fastavro.schemaless_writer(buffer, schema, message)
        return buffer.getvalue()

    def close(self) -> None:
        """Stop the registry."""
        self._server.shutdown()
        self._server.server_close()
