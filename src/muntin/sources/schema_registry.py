"""A client of schema registries over HTTP, with retries, bounded answers and secret credentials.

The protocol is that of Confluent's registry, which Karapace, Apicurio and Redpanda also support.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, NoReturn
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, quote, unquote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from muntin.model.errors import OptionError, SourceError
from muntin.model.patience import AwayError, Patience
from muntin.model.references import resolve_address
from muntin.model.secrets import REFERENCE, redact

# The default time that a registry may be away, and the limit of one answer, in seconds.
_PATIENCE, _TIMEOUT = 60.0, 10.0
# The size limit of an answer, in bytes.
_LARGEST = 8 << 20
_PORTS = {"http": 80, "https": 443}
# The symptom of a registry that answers with errors.
_FAILS = "fails"
# Errors that pass by themselves: a timeout, or too many requests.
_PASSING = (408, 425, 429)


class _RefusedError(Exception):
    """The registry refuses a request, and would refuse it again."""


@dataclass(frozen=True)
class Registry:
    """The address of a registry.

    Attributes:
        url: Address, which may have a user and a password, or references to them.
    """

    url: str = field(repr=False)
    patience: float = _PATIENCE

    def latest(self, topic: str) -> str:
        """Return the newest schema of a topic's values."""
        subject = f"{topic}-value"
        answer = self.get(f"subjects/{quote(subject, safe='')}/versions/latest")
        if answer is None:
            raise SourceError(
                f"the registry at {self.origin} has no schema of {subject!r}. Register one, or "
                "give one with schema='{…}'"
            )
        if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
            self._refuse_answer(f"no schema of {subject!r}")
        return str(answer["schema"])

    def register(self, topic: str, schema: str) -> int:
        """Register a schema of a topic's values, and return its number.

        Raises ``SourceError`` when the registry refuses it, or doesn't answer.
        """
        path = f"subjects/{quote(f'{topic}-value', safe='')}/versions"
        answer = self.get(path, {"schema": schema})
        if answer is None:
            raise SourceError(f"the registry at {self.origin} doesn't accept schemas")
        number = answer.get("id") if isinstance(answer, dict) else None
        if not isinstance(number, int) or not 0 <= number < 2**32:
            self._refuse_answer("no number of a schema")
        return number

    @property
    def origin(self) -> str:
        """The address without credentials."""
        return _origin(self._parts)

    @property
    def _parts(self) -> SplitResult:
        return urlsplit(resolve_address("registry", self.url))

    def get(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON of an answer; ``None`` if the registry has no such entry.

        Without a ``body`` it is a GET request, else a POST request. Raises ``SourceError`` when the
        registry refuses it, or is away for longer than the patience.
        """
        address = f"{self.origin}{self._parts.path.rstrip('/')}/{path}"
        patience = Patience(f"the schema registry at {self.origin}", self.patience)
        request = self._create_request(address, body)
        try:
            return patience.run(lambda: _run_with_timeout(_TIMEOUT, lambda: _ask(request)))
        except AwayError as error:
            verb = "has failed" if error.symptom == _FAILS else "hasn't answered"
            problem = f"{verb} for {self.patience:.0f} s: {error}"
            hint = "Correct registry=, or bring the registry back"
            raise SourceError(f"the schema registry {problem} ({address}). {hint}") from None
        except _RefusedError as error:
            raise SourceError(f"the schema registry {error} ({address})") from None

    def _create_request(self, address: str, content: Mapping[str, Any] | None) -> Request:
        parts, headers = self._parts, {"Accept": "application/json"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        body = None if content is None else json.dumps(content).encode()
        if body is not None:
            headers["Content-Type"] = "application/vnd.schemaregistry.v1+json"
        return Request(address, body, headers)

    def _refuse_answer(self, wanted: str) -> NoReturn:
        raise SourceError(f"the registry at {self.origin} answered with JSON that is {wanted}")


def registry_at(url: str | None, patience: float = _PATIENCE) -> Registry | None:
    """Return the registry at a valid address; ``None`` without an address."""
    if url is None:
        return None
    if REFERENCE.fullmatch(url):
        return Registry(url, patience)
    try:
        parts = urlsplit(REFERENCE.sub("1", url))
        is_address = bool(parts.hostname) and parts.scheme in _PORTS and parts.port != 0
        # Python leaves out spaces and line ends without a word.
        is_address = is_address and not re.search(r"[\s\x00-\x1f]", url)
        is_address = is_address and not parts.query and not parts.fragment
    except ValueError:
        is_address = False
    if not is_address:
        hint = "give its address: registry='http://localhost:8081'"
        raise OptionError("registry", redact(url), "isn't an address", hint)
    return Registry(url, patience)


class _SameOrigin(HTTPRedirectHandler):
    """Follows redirects to the same origin only: another server would get the password."""

    max_redirections = 5

    def redirect_request(
        self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any
    ) -> Any:
        """Return a request for the new address, or refuse the redirect."""
        if _origin(urlsplit(req.full_url)) != (target := _origin(urlsplit(newurl))):
            raise _RefusedError(
                f"redirects to {target} ({code}), which doesn't get its credentials. "
                f"Give that address"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = build_opener(_SameOrigin)


def _origin(parts: SplitResult) -> str:
    """Return the scheme, host and port of an address, without credentials."""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port in (None, _PORTS.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def _ask(request: Request) -> Any:
    """Return the answer of a registry; ``None`` if it has no such entry."""
    try:
        with _OPENER.open(request, timeout=_TIMEOUT) as answer:
            body, status = _body(answer), answer.status
    except HTTPError as error:
        if error.code == 404 and not _is_page(error):
            return None
        said = f"answers {error.code} {_to_line(error.reason)}"
        if error.code >= 500 or error.code in _PASSING or error.code == 404:
            raise AwayError(said, _FAILS) from error
        raise _RefusedError(said) from error
    except (URLError, OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise AwayError(_to_line(getattr(reason, "strerror", None) or reason)) from error
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise AwayError(f"answers {status} without valid JSON", _FAILS) from error


def _body(answer: Any) -> bytes:
    body = bytes(answer.read(_LARGEST + 1))
    if len(body) > _LARGEST:
        raise _RefusedError(f"answers with more than {_LARGEST >> 20} MB")
    return body


def _is_page(error: HTTPError) -> bool:
    """Return whether an answer is an HTML page, which comes from a proxy, not from the registry."""
    try:
        return error.read(1000).lstrip().startswith(b"<")
    except (OSError, HTTPException):
        return True


def _to_line(said: object) -> str:
    """Return what a server said as a part of one line."""
    return " ".join(str(said).split())


def _run_with_timeout(seconds: float, call: Callable[[], Any]) -> Any:
    """Call a function in a thread, and give up waiting for its result after some seconds.

    A socket's timeout restarts with each byte, so a slow server could keep one waiting for hours.
    """
    results: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True, name="muntin-registry")
    begun = time.monotonic()
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise AwayError(f"no whole answer in {time.monotonic() - begun:.0f} s")
    return results[0]
