"""Spark's classes as the JVM shares them: read once, and from then on mapped into memory.

A session loads thousands of classes. Java's class data sharing keeps them in a file as they
are in memory. The file is of one Java and one Spark. The JVM checks whether jars have changed, and
goes on without it then; it doesn't check whether the file is whole, and crashes. So only a file is
used whose JVM ended well, and whose size is still what it was.
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

# How long a JVM may take to write its classes down, seconds.
_PATIENCE = 120
# What the JVM says of an archive that doesn't fit, and of classes that can't be in one.
_QUIET = "-Xlog:cds*=off -Xlog:class+path=off"


def folder() -> Path:
    """Where archives are kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "muntin"


def options() -> str:
    """The JVM's options by which it uses the archive; empty where there is none."""
    found = archive()
    return "" if found is None else f"-XX:SharedArchiveFile={found} {_QUIET}"


def archive() -> Path | None:
    """The archive of this Java and this Spark, where it is whole."""
    try:
        for found in folder().glob(f"{_identity()}-*.jsa"):
            if found.stem == f"{_identity()}-{found.stat().st_size}" and _can_be_said(found):
                return found
    except (OSError, RuntimeError):  # no home, or none that can be read
        return None
    return None


def recording(path: Path) -> str:
    """The JVM's options by which it writes an archive when it ends."""
    return f"-XX:ArchiveClassesAtExit={path} {_QUIET}"


def scratch() -> Path | None:
    """Where a JVM may write an archive; ``None`` where the path can't be said among options."""
    path = folder() / f"{_identity()}.{os.getpid()}.part"
    return path if _can_be_said(path) else None


def keep(path: Path) -> Path | None:
    """End this process's JVM, and keep the archive that it has written, if it has."""
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
    for older in folder().glob(f"{_identity()}-*.jsa"):
        older.unlink()
    return path.rename(path.with_name(f"{_identity()}-{path.stat().st_size}.jsa"))


def _identity() -> str:
    """What distinguishes this Java and this Spark from any others here."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.realpath(f"{home}/bin/java" if home else shutil.which("java") or "java")
    parts = (java, _find_spark_home(), __version__, sys.platform)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _can_be_said(path: Path) -> bool:
    # Spark parts options at spaces and quotes.
    return not any(c.isspace() or c in "\"'\\" for c in str(path))
