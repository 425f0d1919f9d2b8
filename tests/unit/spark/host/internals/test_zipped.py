"""Spark's Python processes import pyspark from where it is compiled."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from muntin.spark.host.internals.zipped import prefer_installed

VERSION = Path(pyspark.__file__).with_name("version.py").read_text()


def zipped(folder: Path, version: str) -> str:
    """A zip as Spark has it, with nothing in it but a version."""
    path = folder / "spark" / "python" / "lib" / "pyspark.zip"
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("pyspark/version.py", version)
    return str(path)


def test_sparks_zip_goes_behind_the_same_version_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, before = zipped(tmp_path, VERSION), list(sys.path)
    monkeypatch.setattr(sys, "path", [path, *before])
    prefer_installed()
    assert sys.path == [*before, path]


def test_another_version_stays_in_front(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, before = zipped(tmp_path, "__version__ = '0.1'"), list(sys.path)
    monkeypatch.setattr(sys, "path", [path, *before])
    prefer_installed()
    assert sys.path == [path, *before]


def test_without_pyspark_installed_the_zip_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = zipped(tmp_path, VERSION)
    monkeypatch.setattr(sys, "path", [path])
    prefer_installed()
    assert sys.path == [path]
