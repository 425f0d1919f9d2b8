"""Runs one program in its own process session, and measures its memory and time."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLE_SECONDS = 0.2
PAGE = os.sysconf("SC_PAGE_SIZE")
MARK = "RESULT "
PATH = re.compile(r"(?:\w+:)?/(?:/?[\w.@:+-]+/?){2,}")
NOISE = ("WARN", "INFO", "\tat ", "Caused by")


def users_environment() -> dict[str, str]:
    """Return the environment of this process, with Python's bytecode cache as for users."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


class RunError(Exception):
    """A program failed, ended without a result, or took too long."""


@dataclass(frozen=True)
class Finished:
    """The measurements of one run of a program.

    Attributes:
        line: Printed JSON.
        wall: Seconds from its start to its end, including the start of interpreter and JVM.
        peak_mb: The greatest sum of resident memory over its processes.
    """

    line: dict[str, Any]
    wall: float
    peak_mb: float


def run(
    command: list[str],
    environment: dict[str, str],
    folder: Path,
    limit: float,
    tick: Callable[[float], None] = lambda elapsed: None,
) -> Finished:
    """Run a program to its end.

    Args:
        command: Program and arguments.
        environment: Its environment variables.
        folder: Working directory.
        limit: Seconds after which it is killed.
        tick: Called with the seconds elapsed, a few times a second.

    Raises:
        RunError: When there is no result.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdout=out,
            stderr=err,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            peak = _watch(process, limit, tick)
            wall = time.perf_counter() - started
        finally:
            end_session(process.pid)
            process.wait()
        out.seek(0)
        err.seek(0)
        return Finished(_result(out.read(), err.read(), process.returncode), wall, peak)


def _watch(process: subprocess.Popen[bytes], limit: float, tick: Callable[[float], None]) -> float:
    """Wait for a program's end, and return its greatest memory in MB."""
    started, peak = time.perf_counter(), 0.0
    while process.poll() is None:
        elapsed = time.perf_counter() - started
        if elapsed > limit:
            raise RunError(f"took more than {limit:.0f} s")
        peak = max(peak, resident_mb(process.pid))
        tick(elapsed)
        with suppress(subprocess.TimeoutExpired):
            process.wait(SAMPLE_SECONDS)
    return peak


def _result(out: str, err: str, code: int) -> dict[str, Any]:
    """Return the last result line, or raise an error with the program's last output."""
    lines = [line for line in out.splitlines() if line.startswith(MARK)]
    if lines and code == 0:
        return json.loads(lines[-1].removeprefix(MARK))
    lines = [line for line in (out + "\n" + err).splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"^[\w.]*(Error|Exception)\b", line)]
    plain = [line for line in lines if not any(noise in line for noise in NOISE)]
    last = (errors or plain or [f"ended with code {code}"])[-1]
    raise RunError(scrub(last))


def scrub(text: str) -> str:
    """Remove paths of this machine from a message, and shorten it."""
    return PATH.sub("…", text).strip()[:200]


def members(session: int) -> list[int]:
    """Return the processes of a session: the program and all that it started."""
    processes = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with suppress(OSError):
            after_name = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            if int(after_name[3]) == session:
                processes.append(int(entry))
    return processes


def resident_mb(session: int) -> float:
    """Return the resident memory of a session's processes; shared pages count for each."""
    pages = 0
    for pid in members(session):
        with suppress(OSError):
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * PAGE / 1_048_576


def end_session(session: int) -> None:
    """End the remaining processes of a session that was started here."""
    for pid in members(session):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def proportional_mb(session: int) -> float:
    """Return the memory of a session's processes; shared pages count once."""
    kilobytes = 0
    for pid in members(session):
        with suppress(OSError):
            rolled = Path(f"/proc/{pid}/smaps_rollup").read_text()
            kilobytes += sum(int(w.split()[1]) for w in rolled.splitlines() if w.startswith("Pss:"))
    return kilobytes / 1024
