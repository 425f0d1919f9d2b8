"""Serves the figures of a command's queries for Prometheus."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from muntin.cli.console import print_text
from muntin.model.errors import OptionError
from muntin.model.listening import is_loopback

MetricsOption = Annotated[
    str | None,
    typer.Option(
        metavar="[ADDRESS:]PORT",
        help="Serve metrics for Prometheus. Any address but the loopback requires --token-file.",
    ),
]


def parse_address(option: str, text: str | None, token: str | None) -> dict[str, Any] | None:
    """Return the address, port and token of a server; ``None`` without a text.

    Args:
        option: The option that has the text.
        text: A port, or an address and a port.
        token: The token that clients must send.
    """
    if text is None:
        return None
    address, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) >= 1 << 16:
        hint = "give a port, as 9464, or an address with one, as 0.0.0.0:9464"
        raise OptionError(option, text, "has no port", hint)
    address = address.strip("[]") or "127.0.0.1"
    if token is None and not is_loopback(address):
        hint = "add --token-file FILE, or leave the address out"
        raise OptionError(option, text, "lets others look without a token", hint)
    return {"port": int(port), "address": address, "token": token}


def serve_metrics(console: Console, queries: list[Any], figures: dict[str, Any] | None) -> None:
    """Serve the metrics of queries, if a port for them is set."""
    if figures is not None:
        import muntin as mt

        print_text(console, f"Figures at {mt.metrics(*queries, **figures).url}", style="dim")
