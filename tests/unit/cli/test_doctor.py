"""Tests of the findings of `muntin doctor`, and of its advice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from muntin.cli import doctor
from muntin.cli.app import build


def invoke(*arguments: str):
    return CliRunner().invoke(build(), ["doctor", "--quick", *arguments])


def write_java(folder: Path, output: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '    {output}' >&2\n")
    program.chmod(0o755)
    return folder


def test_a_machine_that_is_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = "java.specification.version = 21"
    monkeypatch.setenv("JAVA_HOME", str(write_java(tmp_path, output)))
    emitted = invoke()
    assert emitted.exit_code == 0
    assert f"✓ Java  21 at {tmp_path}" in emitted.output.replace("\n", "")
    for name in ("Python", "pyspark", "polars", "Temporary files", "extra duckdb"):
        assert f"✓ {name}" in emitted.output


@pytest.mark.parametrize("output", ["java.specification.version = 1.8", "nothing"])
def test_a_java_that_wont_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(write_java(tmp_path, output)))
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
    findings = {finding.name: finding for finding in doctor.check_extras()}
    assert findings["extra postgres"].good is None
    assert findings["extra postgres"].hint == "pip install 'muntin[postgres]'"
    assert findings["extra duckdb"].good


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
    find_spec = doctor.find_spec
    monkeypatch.setattr(
        doctor, "find_spec", lambda name: (name != "pyspark" and find_spec(name)) or None
    )
    monkeypatch.setattr(shutil, "which", lambda name: None)
    emitted = invoke()
    assert emitted.exit_code == 0
    assert "– Spark  not installed" in emitted.output
    assert "pip install 'muntin[spark]'" in emitted.output
    assert "Java" not in emitted.output
