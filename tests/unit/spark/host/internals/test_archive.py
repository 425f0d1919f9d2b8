"""Tests that a session is started with a whole archive of classes, or with none."""

from __future__ import annotations

from pathlib import Path

import pytest

import muntin as mt
from muntin.spark.host.internals import archive
from muntin.spark.session import JVM_OPTIONS


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive.archive_folder().mkdir()
    return archive.archive_folder()


def write_archive(size: int, named_size: int) -> Path:
    part = archive.scratch_path()
    assert part is not None
    path = part.with_name(f"{part.name.partition('.')[0]}-{named_size}.jsa")
    path.write_bytes(b"x" * size)
    return path


def test_a_whole_archive_is_used_by_local_sessions() -> None:
    path = write_archive(1000, named_size=1000)
    assert archive.find_archive() == path
    assert f"-XX:SharedArchiveFile={path} " in mt.settings("local[2]")[JVM_OPTIONS]
    assert JVM_OPTIONS not in mt.settings("spark://host:7077")


@pytest.mark.parametrize("size", [0, 999, 1001])
def test_one_of_another_size_would_crash_the_jvm_and_is_left_alone(size: int) -> None:
    write_archive(size, named_size=1000)
    assert archive.find_archive() is None
    assert mt.settings("local[2]")[JVM_OPTIONS] == "-XX:+UseSerialGC"


def test_one_of_another_java_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    write_archive(1000, named_size=1000)
    monkeypatch.setenv("JAVA_HOME", "/another/java")
    assert archive.find_archive() is None


def test_without_a_cache_folder_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "nowhere"))
    assert archive.use_options() == ""


def test_a_folder_that_the_jvm_cannot_be_told_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "with spaces"))
    assert archive.scratch_path() is None
