"""Tests of the project that ``muntin new`` writes."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from muntin.cli.app import build


def test_the_project_runs_and_its_tests_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(build(), ["new", "shop"])
    assert result.exit_code == 0, result.output
    assert "Run it: cd shop && python views.py" in result.output
    project = tmp_path / "shop"
    assert (project / "README.md").read_text().startswith("# shop\n")
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_views.py"]
    ran = subprocess.run(tests, cwd=project, capture_output=True, text=True, check=False)
    assert "2 passed" in ran.stdout, ran.stdout + ran.stderr
    program = "import views; q = views.start_views(); print(q.await_idle(60)); q.stop()"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=project, capture_output=True, text=True, check=True
    )
    assert "batch 0, results: 3 rows" in ran.stdout
    assert ran.stdout.endswith("True\n")


def test_the_image_of_the_project_runs_its_query_as_an_ordinary_user(tmp_path: Path) -> None:
    result = CliRunner().invoke(build(), ["new", str(tmp_path / "shop")])
    assert result.exit_code == 0, result.output
    lines = (tmp_path / "shop" / "Dockerfile").read_text().splitlines()
    instructions = [line.split(maxsplit=1) for line in lines if line and line[0].isupper()]
    values = dict(instructions)
    assert values["FROM"] == "python:3.13-slim"
    assert f"muntin=={version('muntin')}" in values["RUN"]
    assert "--no-cache-dir" in values["RUN"]
    # Kubernetes takes only a number for the user of a pod that must not run as root.
    assert int(values["USER"]) > 0
    # Without a shell, PID 1 is the query, which gets SIGTERM itself.
    program, script = json.loads(values["CMD"])
    source, folder = values["COPY"].split()
    assert (program, script) == ("python", f"{folder}{source}")
    assert values["WORKDIR"] == values["VOLUME"] == "/data"
    patterns = (tmp_path / "shop" / ".dockerignore").read_text().split()
    assert patterns == ["*", f"!{source}"]
    assert (tmp_path / "shop" / source).is_file()


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    refused = CliRunner().invoke(build(), ["new", str(tmp_path)])
    assert refused.exit_code == 1
    assert "exists already; give the name of a new folder" in " ".join(refused.stderr.split())
    assert list(tmp_path.iterdir()) == []
