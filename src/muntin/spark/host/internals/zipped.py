"""Chooses the place from which Spark's Python processes import pyspark."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path
from zipimport import ZipImportError, zipimporter

_VERSION = "pyspark/version.py"


def prefer_installed() -> None:
    """Prefer an installed pyspark to the zip of Spark, if both have the same version.

    Spark puts its zip first on the path. A zip has no compiled modules, so each process compiles
    all modules of pyspark that it imports, which takes a second of CPU.
    """
    zips = [path for path in sys.path if path.endswith(".zip") and "/python/lib/" in path]
    rest = [path for path in sys.path if path not in zips]
    installed = PathFinder.find_spec("pyspark", rest)
    if installed is None or installed.origin is None:
        return
    version = Path(installed.origin).with_name("version.py")
    for path in zips:
        if path.endswith("pyspark.zip") and _text(path) == version.read_bytes():
            sys.path[:] = [*rest, *zips]


def _text(path: str) -> bytes | None:
    try:
        return zipimporter(path).get_data(_VERSION)
    except (OSError, ZipImportError):
        return None
