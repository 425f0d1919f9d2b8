"""Tests that PID 1 of a container passes signals on to the command, and reaps orphans."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

_UNSHARED = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
_PROGRAM = """
import os, signal, subprocess, sys, time
from muntin.cli.init import fork_below_init
fork_below_init()
assert os.getpid() != 1
CASE
"""
# An orphan becomes a child of PID 1, which reaps it, so that its directory in /proc is gone.
_ORPHAN = """
pid = int(subprocess.check_output(["sh", "-c", "sleep 0.05 >/dev/null & echo $!"]))
while os.path.exists(f"/proc/{pid}"):
    time.sleep(0.01)
sys.exit(7)
"""
_SIGNALLED = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
print("ready", flush=True)
time.sleep(60)
"""
_KILLED = "os.kill(os.getpid(), signal.SIGKILL)"
_TYPED = """
signals = []
signal.signal(signal.SIGINT, lambda *_: signals.append(1))
print("ready", flush=True)
while not signals:
    time.sleep(0.01)
time.sleep(0.2)
sys.exit(20 + len(signals))
"""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux"
    or subprocess.run([*_UNSHARED, "true"], capture_output=True, check=False).returncode != 0,
    reason="no right to make PID namespaces",
)


def command(case: str) -> list[str]:
    return [*_UNSHARED, sys.executable, "-c", _PROGRAM.replace("CASE", case)]


@pytest.mark.parametrize(("case", "code"), [(_ORPHAN, 7), (_KILLED, 137)])
def test_pid_1_reaps_orphans_and_ends_with_the_code_of_the_command(case: str, code: int) -> None:
    assert subprocess.run(command(case), timeout=60, check=False).returncode == code


def test_a_signal_to_pid_1_reaches_the_command() -> None:
    with subprocess.Popen(command(_SIGNALLED), stdout=subprocess.PIPE, text=True) as outer:
        assert outer.stdout is not None
        assert outer.stdout.readline() == "ready\n"
        (init,) = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        os.kill(int(init), signal.SIGTERM)
        assert outer.wait(60) == 9


def test_ctrl_c_on_a_terminal_reaches_the_command_once() -> None:
    """A second one would end the process at once."""
    outer, terminal = pty.fork()
    if outer == 0:
        os.execvp(_UNSHARED[0], command(_TYPED))
    output = b""
    while b"ready" not in output:
        output += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    _, status = os.waitpid(outer, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 21, output
