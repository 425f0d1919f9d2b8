"""Where Spark's Python processes import pyspark from."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path
from zipimport import ZipImportError, zipimporter

_VERSION = "pyspark/version.py"


def prefer_installed() -> None:
    """Import pyspark from where it is installed, where that is the version of Spark's own zip.

    Spark puts a zip in front of everything. A zip keeps no compiled modules, so that each process
    compiles all that it imports of pyspark anew: a second of CPU.
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
