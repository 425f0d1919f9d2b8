"""Archives of Spark's classes, which the JVM maps into memory in place of loading each class.

A session loads thousands of classes. Java's class data sharing stores them in a file in the form
that they have in memory. An archive belongs to one version of Java and one of Spark. The JVM checks
whether jars have changed, and ignores the archive if so. It doesn't check whether the file is
complete, and crashes if it isn't. So muntin only uses an archive whose JVM ended without an error
and whose size hasn't changed since.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.version import __version__

# Longest time that a JVM may take to write its archive, seconds.
_PATIENCE = 120
# Options that silence the JVM about archives that don't fit and classes that can't be archived.
_QUIET = "-Xlog:cds*=off -Xlog:class+path=off"


def archive_folder() -> Path:
    """Return the folder of archives."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "muntin"


def use_options() -> str:
    """Return the JVM's options that use the archive; empty where there is none."""
    path = find_archive()
    return "" if path is None else f"-XX:SharedArchiveFile={path} {_QUIET}"


def find_archive() -> Path | None:
    """Return the complete archive of this Java and this Spark, if there is one."""
    try:
        for path in archive_folder().glob(f"{_identity()}-*.jsa"):
            if path.stem == f"{_identity()}-{path.stat().st_size}" and _fits_option(path):
                return path
    except (OSError, RuntimeError):  # There is no home folder, or it can't be read.
        return None
    return None


def record_options(path: Path) -> str:
    """Return the JVM's options that write an archive when it ends."""
    return f"-XX:ArchiveClassesAtExit={path} {_QUIET}"


def scratch_path() -> Path | None:
    """Return a path for a new archive; ``None`` where an option can't contain the path."""
    path = archive_folder() / f"{_identity()}.{os.getpid()}.part"
    return path if _fits_option(path) else None


def store_archive(path: Path) -> Path | None:
    """End this process's JVM, and store the archive that it wrote, if it wrote one."""
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if gateway is None or process is None:
        return None
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    process.stdin.close()
    if process.wait(_PATIENCE) != 0 or not path.is_file():
        path.unlink(missing_ok=True)
        return None
    for older in archive_folder().glob(f"{_identity()}-*.jsa"):
        older.unlink()
    return path.rename(path.with_name(f"{_identity()}-{path.stat().st_size}.jsa"))


def _identity() -> str:
    """Return a hash that identifies this Java and this Spark on this machine."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.realpath(f"{home}/bin/java" if home else shutil.which("java") or "java")
    parts = (java, _find_spark_home(), __version__, sys.platform)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _fits_option(path: Path) -> bool:
    # Spark splits options at spaces and quotes.
    return not any(c.isspace() or c in "\"'\\" for c in str(path))
