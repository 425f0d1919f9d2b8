"""Tests that signals stop queries, print where they resume, and set the exit code."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, signal, sys, threading, time
from muntin.hosts.interrupts import register_query, watch_signals

class Query:
    is_active = True
    def stop_for_exit(self, patience):
        {stops}
        self.is_active = False
    def describe_resumption(self):
        return "query 'views' has stopped; the next start resumes from ck"

query = Query()
register_query(query)
def send():
    for number in sys.argv[1:]:
        os.kill(os.getpid(), int(number))
        time.sleep(1.0)
threading.Timer(0.2, send).start()
try:
    with watch_signals() as interruption:
        interruption.wait(lambda seconds: time.sleep(seconds), time.monotonic() + 60)
{caught}
"""
LINE = "query 'views' has stopped; the next start resumes from ck\n"


def run(*signals: int, stops: str = "pass", caught: str = "") -> tuple[int, str, str]:
    script = SCRIPT.format(stops=stops, caught=caught or "finally:\n    pass")
    command = [sys.executable, "-c", script, *map(str, map(int, signals))]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    return completed.returncode, completed.stdout, completed.stderr


@pytest.mark.parametrize(
    ("number", "code", "cause"),
    [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")],
)
def test_the_query_stops_and_one_line_tells_where_it_resumes(
    number: int, code: int, cause: str
) -> None:
    assert run(number) == (code, "", f"muntin: {cause}: {LINE}")


def test_a_script_may_catch_ctrl_c() -> None:
    caught = "except KeyboardInterrupt:\n    print('active', query.is_active)"
    assert run(signal.SIGINT, caught=caught)[:2] == (0, "active False\n")


def test_a_query_that_doesnt_stop_is_abandoned() -> None:
    assert run(signal.SIGTERM, stops="time.sleep(40)") == (143, "", f"muntin: SIGTERM: {LINE}")


def test_a_second_signal_ends_at_once() -> None:
    # Nothing is printed: the first one waits for the query, which doesn't stop.
    assert run(signal.SIGINT, signal.SIGINT, stops="time.sleep(40)") == (130, "", "")


@pytest.mark.parametrize(
    ("number", "code", "cause"),
    [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")],
)
def test_a_signal_during_a_start_ends_it_with_a_line(number: int, code: int, cause: str) -> None:
    program = (
        "import signal, time; from muntin.hosts.interrupts import quit_on_signals\n"
        f"with quit_on_signals(): signal.raise_signal({int(number)}); time.sleep(40)"
    )
    command = [sys.executable, "-c", program]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    line = f"muntin: {cause}: ended before the start was complete\n"
    assert (completed.returncode, completed.stdout, completed.stderr) == (code, "", line)


def test_handlers_are_restored() -> None:
    from muntin.hosts.interrupts import watch_signals

    old_handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    with watch_signals() as outer, watch_signals() as inner:
        assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] != old_handlers
        signal.raise_signal(signal.SIGTERM)
        assert (outer.signal, inner.signal) == (signal.SIGTERM, None)
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == old_handlers


def test_a_signal_that_the_program_ignores_stays_ignored() -> None:
    from muntin.hosts.interrupts import watch_signals

    old_handler = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with watch_signals() as interruption:
            signal.raise_signal(signal.SIGTERM)
        assert interruption.signal is None
    finally:
        signal.signal(signal.SIGTERM, old_handler)


def test_spark_is_not_imported() -> None:
    program = (
        "import sys, muntin.hosts.interrupts, muntin.hosts.leases; print('pyspark' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "False\n"


@pytest.mark.skipif(not Path("/proc/self/ns/pid").exists(), reason="PID namespaces are Linux's")
def test_sigterm_ends_a_program_that_is_pid_1(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    program = (
        "import pathlib, time; from muntin.hosts.interrupts import quit_when_terminated_as_init\n"
        f"quit_when_terminated_as_init(); pathlib.Path({str(ready)!r}).touch()\n"
        # A signal right before a sleep is handled after it.
        "while True: time.sleep(0.05)"
    )
    unshare = ["unshare", "--pid", "--fork", "--kill-child"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no right to make PID namespaces")
    with subprocess.Popen([*unshare, sys.executable, "-c", program]) as process:
        while not ready.exists():
            assert process.poll() is None
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        subprocess.run(["kill", "-TERM", *children], check=True)
        assert process.wait(timeout=30) == 143
