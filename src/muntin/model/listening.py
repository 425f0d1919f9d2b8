"""Listening sockets of servers, and their addresses."""

from __future__ import annotations

import ipaddress
import socket

from muntin.model.errors import OptionError


def is_loopback(host: str) -> bool:
    """Return whether an address can only be reached from this machine.

    Example:
        >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "there")]
        [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Open a socket that already listens, so that early requests wait; port 0 is any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind((host, port))
        server.listen()
    except (OSError, OverflowError) as error:
        server.close()
        reason = getattr(error, "strerror", None) or error
        hint = "give another, or 0 for any that is free"
        raise OptionError(
            "port", port, f"can't be listened on at {host} ({reason})", hint
        ) from error
    return server


def format_url(host: str, port: int, path: str) -> str:
    """Return the URL of a path on a server.

    Example:
        >>> format_url("::1", 9464, "/metrics")
        'http://[::1]:9464/metrics'
    """
    return f"http://[{host}]:{port}{path}" if ":" in host else f"http://{host}:{port}{path}"
