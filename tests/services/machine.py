"""What servers that tests start have in common: a free port, an end, and no excuse."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

# What `scripts/services.sh` installs.
SERVICES = Path(__file__).parents[2] / "build" / "services"


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as asked:
        asked.bind(("127.0.0.1", 0))
        return int(asked.getsockname()[1])


def missing(what: str) -> NoReturn:
    """Skip a test whose server isn't installed; where services are required, fail it."""
    said = f"{what} isn't installed: run scripts/services.sh"
    if os.environ.get("MUNTIN_SERVICES") == "required":
        pytest.fail(said)
    pytest.skip(said)


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server serves.

    Raises:
        AssertionError: When it ends instead, or takes longer than a minute; with its log.
    """
    deadline = time.monotonic() + 60
    while not ready():
        assert process.poll() is None, f"it ended:\n{log.read_text()[-2000:]}"
        assert time.monotonic() < deadline, f"it doesn't come up:\n{log.read_text()[-2000:]}"
        time.sleep(0.05)


def listens(port: int) -> bool:
    """Whether somebody listens on a port of the loopback."""
    with socket.socket() as asked:
        asked.settimeout(1)
        return asked.connect_ex(("127.0.0.1", port)) == 0
