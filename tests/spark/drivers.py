"""Drivers in processes of their own: started, watched by their checkpoint, and killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.spark.feed import Feed, at

VICTIM = Path(__file__).with_name("victim.py")
Victims = list[subprocess.Popen[bytes]]


def kill_again_and_again(
    query: str, folder: Path, victims: Victims, chance: random.Random, kills: int
) -> None:
    """Start a driver and kill it, mostly within a batch; then let it come to its end."""
    command, log = [sys.executable, str(VICTIM), query, str(folder)], folder / "log"
    checkpoint = folder / "checkpoint"
    within_a_batch = 0
    for _ in range(kills):
        victims.append(start(command, log))
        goal = batches(checkpoint, "offsets") + chance.randint(1, 2)
        wait_for_batch(checkpoint, goal, victims[-1])
        time.sleep(chance.uniform(0, 0.3))
        kill(victims[-1])
        within_a_batch += batches(checkpoint, "offsets") > batches(checkpoint, "commits")
    assert within_a_batch >= kills // 2
    victims.append(start(command, log))
    assert victims[-1].wait(timeout=600) == 0, log.read_text()


def start(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, so that all that it starts can be found."""
    with open(log, "ab") as out:
        return subprocess.Popen(
            command,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )


def batches(checkpoint: Path, kind: str) -> int:
    """Return the number of batches that have begun (``offsets``) or ended (``commits``)."""
    names = [path.name for path in (checkpoint / kind).glob("[0-9]*")]
    return 1 + max(map(int, names), default=-1)


def wait_for_batch(checkpoint: Path, goal: int, driver: subprocess.Popen[bytes]) -> None:
    """Wait until a number of batches have begun, and one of them hasn't ended."""
    deadline = time.monotonic() + 300
    while not goal <= batches(checkpoint, "offsets") > batches(checkpoint, "commits"):
        assert driver.poll() is None, "the driver ended by itself"
        assert time.monotonic() < deadline, "the driver makes no progress"
        time.sleep(0.01)


def kill(driver: subprocess.Popen[bytes]) -> None:
    """Kill a driver, its JVM and its Python workers, and wait until they are gone."""
    deadline = time.monotonic() + 60
    while members := [pid for pid in processes() if session(pid) == driver.pid]:
        assert time.monotonic() < deadline, f"{members} don't die"
        for pid in members:
            strike(pid)
        driver.poll()
        time.sleep(0.1)
    driver.wait(timeout=60)


def strike(pid: int) -> None:
    """Send SIGKILL to a process, if it still runs."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def members(driver: subprocess.Popen[bytes], named: str) -> list[int]:
    """Return the processes of a driver's session whose command line contains a word."""
    pids = []
    for pid in processes():
        if session(pid) == driver.pid:
            with contextlib.suppress(OSError):
                if named in Path(f"/proc/{pid}/cmdline").read_text():
                    pids.append(pid)
    return pids


def processes() -> list[int]:
    return [int(pid) for pid in subprocess.check_output(["ps", "-A", "-o", "pid="]).split()]


def session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def fill(
    feed: Feed, chance: random.Random, files: int, messages: int, in_time: int = 21
) -> list[int]:
    """Add files a minute apart, out of order; returns the numbers of hopelessly late messages.

    The first files, as many as are ``in_time``, have no late messages.
    """
    too_late = []
    for number in range(files):
        rows = []
        for _ in range(messages):
            hopeless = number >= in_time and chance.random() < 0.02
            second = 60 * number + (-1200 if hopeless else chance.uniform(-90, 60))
            if hopeless:
                too_late.append(feed.ids + len(rows))
            rows.append((chance.choice("abcde"), at(second), chance.randrange(1000)))
        feed.add(*rows)
    return too_late
