"""Tests that Spark's Python processes import compiled modules of pyspark."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from muntin.spark.host.internals.python_start import prefer_installed, use_compiled_modules

VERSION = Path(pyspark.__file__).with_name("version.py").read_text()


def write_zip(folder: Path, version: str) -> str:
    """Write a zip as Spark's, which contains only a version."""
    path = folder / "spark" / "python" / "lib" / "pyspark.zip"
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("pyspark/version.py", version)
    return str(path)


def test_sparks_zip_goes_behind_the_same_version_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, before = write_zip(tmp_path, VERSION), list(sys.path)
    monkeypatch.setattr(sys, "path", [path, *before])
    prefer_installed()
    assert sys.path == [*before, path]


def test_another_version_stays_in_front(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, before = write_zip(tmp_path, "__version__ = '0.1'"), list(sys.path)
    monkeypatch.setattr(sys, "path", [path, *before])
    prefer_installed()
    assert sys.path == [path, *before]


def test_without_pyspark_installed_the_zip_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_zip(tmp_path, VERSION)
    monkeypatch.setattr(sys, "path", [path])
    prefer_installed()
    assert sys.path == [path]


def run_as_spark(tmp_path: Path, script: str) -> str:
    """Run a script as the JVM would, which puts its zip before the path it was started with."""
    path = os.pathsep.join([write_zip(tmp_path, VERSION), os.environ["PYTHONPATH"]])
    command = [sys.executable, "-c", script]
    run = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    return run.stdout.strip()


def test_a_process_of_the_jvm_imports_the_installed_pyspark(tmp_path: Path) -> None:
    with use_compiled_modules():
        origin = run_as_spark(tmp_path, "import pyspark; print(pyspark.__file__)")
    assert origin == pyspark.__file__


def test_a_sitecustomize_of_the_environment_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import os\nos.environ['CUSTOMIZED'] = 'yes'\n")
    monkeypatch.setenv("PYTHONPATH", str(own))
    with use_compiled_modules():
        output = run_as_spark(tmp_path, "import os; print(os.environ['CUSTOMIZED'])")
    assert output == "yes"
    assert os.environ["PYTHONPATH"] == str(own)
