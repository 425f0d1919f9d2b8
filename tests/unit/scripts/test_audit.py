"""Tests that `make audit` fails for vulnerabilities, and CI not for an unreachable database."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "audit.sh"
VULNERABLE = "Found 1 known vulnerability in 1 package"
UNREACHABLE = "ConnectionError: the host doesn't resolve"


@pytest.mark.parametrize(
    ("output", "code", "options", "expected"),
    [
        ("No known vulnerabilities found", 0, [], 0),
        (VULNERABLE, 1, [], 1),
        (VULNERABLE, 1, ["--if-reachable"], 1),
        (UNREACHABLE, 1, [], 1),
        (UNREACHABLE, 1, ["--if-reachable"], 0),
    ],
)
def test_only_vulnerabilities_fail_ci(
    output: str, code: int, options: list[str], expected: int, tmp_path: Path
) -> None:
    for program, body in {
        ".venv/bin/uv": "echo pinned==1",
        "build/audit/bin/pip-audit": f'echo "{output}" >&2; exit {code}',
        "scripts/audit.sh": SCRIPT.read_text(),
    }.items():
        path = tmp_path / program
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/usr/bin/env bash\n{body}\n")
        path.chmod(0o755)
    bash = shutil.which("bash")
    assert bash is not None
    command = [bash, str(tmp_path / "scripts" / "audit.sh"), *options]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == expected
    assert output in run.stdout
    assert ("wasn't reached" in run.stderr) == (output == UNREACHABLE and expected == 0)
