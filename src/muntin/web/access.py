"""Decides who has access to a server: clients with its token, or without one this machine."""

from __future__ import annotations

import hmac
import re
from ipaddress import ip_address

from starlette.requests import Request

COOKIE = "muntin-token"
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\[\]:@/]+))(?::\d*)?")


def has_access(request: Request, token: str | None) -> bool:
    """Return whether a request has the server's token as bearer, ``?token=…`` or cookie.

    Without a token, the request must name this machine: a foreign name that resolves to this
    machine belongs to another site's page.
    """
    if token is None:
        return _is_loopback(_host(request))
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    request_token = bearer if scheme.lower() == "bearer" else ""
    request_token = (
        request_token or request.query_params.get("token") or request.cookies.get(COOKIE) or ""
    )
    return hmac.compare_digest(request_token.encode(), token.encode())


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _host(request: Request) -> str:
    """Return the host that a request names, or an empty text."""
    named = _HOST.fullmatch(request.headers.get("host", "").strip().lower())
    return "" if named is None else named[1] or named[2]
