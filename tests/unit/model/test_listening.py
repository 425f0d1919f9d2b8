"""Sockets that servers listen on."""

from __future__ import annotations

import re

import pytest

import muntin as mt
from muntin.model.listening import listen


def test_a_port_that_is_taken_is_named() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        said = re.escape(f"port={port} can't be listened on at 127.0.0.1 (")
        with pytest.raises(mt.OptionError, match=said + r".*\); give another, or 0 for any"):
            listen("127.0.0.1", port)


@pytest.mark.parametrize(("host", "port"), [("127.0.0.1", 70000), ("203.0.113.1", 0)])
def test_what_is_no_port_or_not_ours_is_named(host: str, port: int) -> None:
    with pytest.raises(mt.OptionError, match=f"port={port} can't be listened on at {host}"):
        listen(host, port)
