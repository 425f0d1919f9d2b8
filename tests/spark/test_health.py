"""Tests of the query of ``muntin doctor``, in a process that starts and stops a session."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def test_a_window_of_three() -> None:
    code = "from muntin.spark.inspect.health import run_test_query as w; print(w())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "a window in its state store" in done.stdout
