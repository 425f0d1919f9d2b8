"""Starts the Python processes of Spark faster, by compiled modules and in advance.

Each Python process of a local Spark runs this file when it starts, so it imports nothing but the
standard library.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING
from zipimport import ZipImportError, zipimporter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VERSION = "pyspark/version.py"
# Modules that take a second to import and that most queries need. They must not import Spark's,
# which the thread that starts the JVM imports at the same time: two threads that import modules
# which import each other may see one of them half imported.
_AHEAD = ("muntin.engine.windows.operator", "muntin.sources.kafka_columns", "muntin.sinks.kafka")


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


@contextmanager
def use_compiled_modules() -> Iterator[None]:
    """Have Python processes of a JVM that starts in this context import compiled modules.

    Spark starts some processes that aren't forked from muntin's daemon. One of them runs while the
    first batch is planned, and compiling pyspark would take two thirds of its time.
    """
    former = os.environ.get("PYTHONPATH")
    folder = str(Path(__file__).with_name("startup"))
    os.environ["PYTHONPATH"] = folder if not former else f"{folder}{os.pathsep}{former}"
    try:
        yield
    finally:
        if former is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = former


@contextmanager
def import_ahead() -> Iterator[None]:
    """Import modules of queries in the background while the context starts a JVM.

    The driver only waits for the JVM, and would import them after it.
    """
    thread = Thread(target=_import_modules, name="muntin-import-ahead", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def _import_modules() -> None:
    for name in _AHEAD:
        # A module that can't be imported raises where it is needed.
        with suppress(Exception):
            import_module(name)


def start_daemon(spark: SparkSession) -> None:
    """Start the daemon of Spark's Python workers in the background.

    Spark would start it at the first task of Python. In this way it starts while the script defines
    its query, and the first windows come two seconds earlier.
    """

    def run() -> None:
        # The session may be stopped meanwhile. Whatever fails here fails again in the first batch.
        with suppress(Exception):
            context = spark.sparkContext
            context.setJobDescription("muntin: start the Python workers")
            context.parallelize([0], 1).mapPartitions(list).count()

    Thread(target=run, name="muntin-start-daemon", daemon=True).start()
