"""What the doctor finds, and says to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from muntin.cli import doctor
from muntin.cli.app import build


def invoke(*arguments: str):
    return CliRunner().invoke(build(), ["doctor", "--quick", *arguments])


def java(folder: Path, says: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '    {says}' >&2\n")
    program.chmod(0o755)
    return folder


def test_a_machine_that_is_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "java.specification.version = 21"
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, said)))
    emitted = invoke()
    assert emitted.exit_code == 0
    assert f"✓ Java  21 at {tmp_path}" in emitted.output.replace("\n", "")
    for name in ("Python", "pyspark", "polars", "Temporary files", "extra duckdb"):
        assert f"✓ {name}" in emitted.output


@pytest.mark.parametrize("says", ["java.specification.version = 1.8", "nothing"])
def test_a_java_that_wont_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, says)))
    emitted = invoke()
    assert emitted.exit_code == 1
    assert "✗ Java" in emitted.output
    assert "openjdk-17-jre-headless" in emitted.output


def test_no_java_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert doctor.check_java() == doctor.Finding(
        "Java", False, "none found", doctor.check_java().hint
    )
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert "can't be started" in doctor.check_java().detail


def test_what_may_be_missing_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "psycopg" else object())
    found = {finding.name: finding for finding in doctor.check_extras()}
    assert found["extra postgres"].good is None
    assert found["extra postgres"].hint == "pip install 'muntin[postgres]'"
    assert found["extra duckdb"].good


def test_a_folder_that_cant_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.tempfile, "gettempdir", lambda: "/nowhere")
    assert doctor.check_temporary_files().good is False
    assert "TMPDIR" in doctor.check_temporary_files().hint


def test_where_the_connector_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUNTIN_KAFKA_JARS", str(tmp_path))
    assert doctor.find_connector().good is False
    (tmp_path / "connector.jar").touch()
    assert doctor.find_connector().good
    monkeypatch.delenv("MUNTIN_KAFKA_JARS")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert doctor.find_connector().good is None


def test_a_python_without_spark_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    found = doctor.find_spec
    monkeypatch.setattr(
        doctor, "find_spec", lambda name: (name != "pyspark" and found(name)) or None
    )
    monkeypatch.setattr(shutil, "which", lambda name: None)
    emitted = invoke()
    assert emitted.exit_code == 0
    assert "– Spark  not installed" in emitted.output
    assert "pip install 'muntin[spark]'" in emitted.output
    assert "Java" not in emitted.output
