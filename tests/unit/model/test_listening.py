"""Tests of opening the sockets that servers listen on."""

from __future__ import annotations

import re

import pytest

import muntin as mt
from muntin.model.listening import listen


def test_a_port_that_is_taken_is_named() -> None:
    with listen("127.0.0.1", 0) as used_socket:
        port = used_socket.getsockname()[1]
        problem = re.escape(f"port={port} can't be listened on at 127.0.0.1 (")
        with pytest.raises(mt.OptionError, match=problem + r".*\); give another, or 0 for any"):
            listen("127.0.0.1", port)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70000), ("203.0.113.1", 0)])
def test_an_invalid_port_or_foreign_address_is_named(host: str, port: int) -> None:
    with pytest.raises(mt.OptionError, match=f"port={port} can't be listened on at {host}"):
        listen(host, port)
