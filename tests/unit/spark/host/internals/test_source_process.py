"""Tests that the process of a data source ends without a traceback when the JVM is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from muntin.spark.host.internals.source_process import silence_lost_jvm

silence_lost_jvm()
try:
    raise EOFError
except EOFError:
    raise {error}
"""


@pytest.mark.parametrize(
    ("module", "error", "line"),
    [
        ("python_streaming_source_runner", "BrokenPipeError(32, 'Broken pipe')", ""),
        ("python_streaming_source_runner", "ConnectionResetError", ""),
        ("python_streaming_source_runner", "ValueError('of ours')", "ValueError: of ours"),
        ("another_program", "BrokenPipeError(32, 'pipe')", "BrokenPipeError: [Errno 32] pipe"),
    ],
)
def test_only_a_lost_connection_is_silent(
    tmp_path: Path, module: str, error: str, line: str
) -> None:
    (tmp_path / f"{module}.py").write_text(PROGRAM.format(error=error))
    command = [sys.executable, "-m", module]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert (ran.stderr.splitlines() or [""])[-1] == line
