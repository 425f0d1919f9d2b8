"""Helpers for the servers that tests start: free ports, options of JVMs, and waiting."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

BUILD = Path(__file__).parents[2] / "build"
# `scripts/services.sh` installs these.
SERVICES = BUILD / "services"
# A run is too short for the JVM's second compiler to pay off: without it, tests take half the time.
# Hundreds of queries fill its own code cache of 48 MB, and then nothing more is compiled.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m"
# By default, classes of 21 MB are a reason to look for garbage in the whole heap.
QUICK += " -XX:MetaspaceSize=256m"
# Spark starts a `chmod` for each file of a checkpoint, each of which Java starts by way of another
# process unless it is told to fork, which it can on Linux only.
if sys.platform == "linux":
    QUICK += " -Djdk.lang.Process.launchMechanism=VFORK"


def find_archive() -> Path | None:
    """Return the newest archive of Spark's classes that ``make classes`` has stored.

    A JVM ignores one that was made by another Java or for another Spark.
    """
    archives = [*(BUILD / "cache" / "muntin").glob("*.jsa")]
    complete = [path for path in archives if path.stem.endswith(f"-{path.stat().st_size}")]
    return max(complete, key=lambda path: path.stat().st_mtime, default=None)


def archive_options() -> str:
    """Return the options with which a JVM of Spark uses that archive; empty without one."""
    path = find_archive()
    quiet = "-Xlog:cds*=off -Xlog:class+path=off"
    return "" if path is None else f"-XX:SharedArchiveFile={path} {quiet}"


def free_port() -> int:
    """Return a port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def missing(what: str) -> NoReturn:
    """Skip a test whose server isn't installed; where services are required, fail it."""
    problem = f"{what} isn't installed: run scripts/services.sh"
    if os.environ.get("MUNTIN_SERVICES") == "required":
        pytest.fail(problem)
    pytest.skip(problem)


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server is ready.

    Raises:
        AssertionError: When it ends, or takes longer than a minute; has the end of its log.
    """
    deadline = time.monotonic() + 60
    while not ready():
        assert process.poll() is None, f"it ended:\n{log.read_text()[-2000:]}"
        assert time.monotonic() < deadline, f"it doesn't come up:\n{log.read_text()[-2000:]}"
        time.sleep(0.05)


def listens(port: int) -> bool:
    """Return whether a process listens on a port of the loopback."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
