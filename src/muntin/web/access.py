"""Decides who may ask a server: a client with its token, and without one this very machine."""

from __future__ import annotations

import hmac
from ipaddress import ip_address

from starlette.requests import Request

COOKIE = "muntin-token"


def may_ask(request: Request, token: str | None) -> bool:
    """Whether a request comes from someone who may look.

    Args:
        request: The request. The token is its bearer token, ``?token=…`` or the page's cookie.
        token: The server's token. Without one, the request must name this machine: a foreign name
            that points here belongs to another site's page.
    """
    if token is None:
        return _is_loopback(_host(request))
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    given = bearer if scheme.lower() == "bearer" else ""
    given = given or request.query_params.get("token") or request.cookies.get(COOKIE) or ""
    return hmac.compare_digest(given.encode(), token.encode())


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _host(request: Request) -> str:
    """The host that a request names; empty where it names none."""
    named = request.headers.get("host", "").strip().lower()
    if named.startswith("["):
        return named[1:].partition("]")[0]
    return named.partition(":")[0]
