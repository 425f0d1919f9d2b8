"""Drivers that are started, watched and killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

Victims = list[subprocess.Popen[bytes]]


def kill_again_and_again(
    program: Path, folder: Path, victims: Victims, chance: random.Random, kills: int
) -> None:
    """Start a driver and kill it, mostly within a batch; then let it come to its end."""
    within_a_batch = 0
    for _ in range(kills):
        victim = start(program, folder, victims)
        goal = batches(folder, "offsets") + chance.randint(1, 2)
        wait_for_batch(folder, goal, victim)
        time.sleep(chance.uniform(0, 0.3))
        kill(victim)
        within_a_batch += batches(folder, "offsets") > batches(folder, "commits")
    assert within_a_batch >= kills // 2
    last = start(program, folder, victims)
    assert last.wait(timeout=600) == 0, (folder / "log").read_text()


def start(program: Path, folder: Path, victims: Victims) -> subprocess.Popen[bytes]:
    """Start a driver in a session of its own, so that all that it starts can be found."""
    with open(folder / "log", "ab") as log:
        victim = subprocess.Popen(
            [sys.executable, str(program), str(folder)],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    victims.append(victim)
    return victim


def batches(folder: Path, kind: str) -> int:
    """How many batches have begun (``offsets``) or ended (``commits``)."""
    names = [path.name for path in (folder / "checkpoint" / kind).glob("[0-9]*")]
    return 1 + max(map(int, names), default=-1)


def wait_for_batch(folder: Path, goal: int, victim: subprocess.Popen[bytes]) -> None:
    """Wait until so many batches have begun, and one hasn't ended."""
    deadline = time.monotonic() + 300
    while not goal <= batches(folder, "offsets") > batches(folder, "commits"):
        assert victim.poll() is None, "the driver ended by itself"
        assert time.monotonic() < deadline, "the driver makes no progress"
        time.sleep(0.01)


def kill(victim: subprocess.Popen[bytes]) -> None:
    """Kill a driver, its JVM and its Python workers, and see them gone."""
    deadline = time.monotonic() + 60
    while members := [pid for pid in processes() if session(pid) == victim.pid]:
        assert time.monotonic() < deadline, f"{members} don't die"
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        victim.poll()
        time.sleep(0.1)
    victim.wait(timeout=60)


def processes() -> list[int]:
    return [int(pid) for pid in subprocess.check_output(["ps", "-A", "-o", "pid="]).split()]


def session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None
