"""Queries and controls the JVM behind a Spark session."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from socketserver import BaseServer
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, accumulators
from pyspark.sql import SparkSession

# The error of a failed call into the JVM.
JvmError = Py4JError
# The exit code of a JVM that Spark ends for want of memory.
_EXIT_OUT_OF_MEMORY = 52
_CONNECTION_LOST = ("Exception while sending command", "Exception while reading")
_FULL_DISK = re.compile("No space left on device|Disk quota exceeded|not enough space on the disk")


def is_running() -> bool:
    """Return whether this process has started a JVM."""
    return SparkContext._gateway is not None


def start_jvm(settings: Mapping[str, str]) -> None:
    """Start the JVM of this process, with settings that every user of the machine can see.

    Spark gives the settings of the first session to the JVM as arguments, which other users can
    list. A session that starts after the JVM sets its own inside of it.
    """
    SparkContext._ensure_initialized(conf=SparkConf().setAll([*settings.items()]))


def death_of_jvm() -> str | None:
    """Return how the JVM that this process has started died; ``None`` if it still runs."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        code = process.wait(timeout=2)
        if code == _EXIT_OUT_OF_MEMORY:
            return "out of memory"
        return f"exit code {code}" if code >= 0 else f"signal {-code}; out of memory?"
    return None


def silence_dead_jvm() -> None:
    """Keep PySpark from printing tracebacks of its connections when the JVM has died."""
    for server in vars(accumulators).values():
        if isinstance(server, type) and issubclass(server, BaseServer):
            server.handle_error = _ignore  # type: ignore[method-assign, assignment]
    root = logging.getLogger()
    if _is_worth_logging not in root.filters:
        root.addFilter(_is_worth_logging)


def _ignore(*_: object) -> None:
    """Print nothing: whoever waits for the query gets the error."""


def _is_worth_logging(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_CONNECTION_LOST)


def is_connected(spark: SparkSession) -> bool:
    """Return whether a session is one of Spark Connect, whose JVM can't be reached."""
    return getattr(spark, "_jvm", None) is None


def session_of(spark: SparkSession) -> str:
    """Return the identifier of a session on the server of Spark Connect."""
    return str(spark.session_id)  # type: ignore[attr-defined]


def workers_of(spark: SparkSession) -> str:
    """Return a text that distinguishes the workers of one session from those of another."""
    if is_connected(spark):
        return session_of(spark)
    return f"{spark.sparkContext.applicationId} {spark.sparkContext.pythonExec}"


def find_submitted_master() -> str | None:
    """Return the master of ``spark-submit``; ``None`` where it didn't start this process."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    # Its settings are in the JVM, which runs already.
    SparkContext._ensure_initialized()
    return SparkConf().get("spark.master")


def shares_python(spark: SparkSession) -> bool:
    """Return whether the workers run on this machine, with this process's own Python."""
    if is_connected(spark):
        return False
    return runs_in_driver(spark) and spark.sparkContext.pythonExec == sys.executable


def runs_in_driver(spark: SparkSession) -> bool:
    """Return whether the driver's JVM is the only executor."""
    master = str(spark.sparkContext.master)
    return master == "local" or master.startswith("local[")


def local_cores(master: str) -> int | None:
    """Return the number of cores in a master such as ``local[4]``; ``None`` where it has none."""
    inside = master.partition("[")[2].partition("]")[0].partition(",")[0]
    return int(inside) if inside.isdigit() else None


def use_python(spark: SparkSession, python: str) -> None:
    """Have a running local session start its workers with another Python."""
    if not is_connected(spark) and str(spark.sparkContext.master).startswith("local"):
        spark.sparkContext.pythonExec = python


def classes_of(spark: SparkSession) -> Any:
    """Return the root of the JVM's packages; the session must have a JVM."""
    return spark._jvm


def hadoop_settings(spark: SparkSession) -> Any:
    """Return Hadoop's configuration, with the settings of the session."""
    return spark._jsparkSession.sessionState().newHadoopConf()


def has_class(spark: SparkSession, name: str) -> bool:
    """Return whether a class is on the class path, or in a jar that was added."""
    loader = classes_of(spark).java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(name)
    except Exception as error:
        if "ClassNotFoundException" not in str(error):
            raise
        return False
    return True


def working_directory(spark: SparkSession) -> str:
    """Return the working directory of the JVM, which never changes."""
    return str(classes_of(spark).java.lang.System.getProperty("user.dir"))


def make_active(spark: SparkSession) -> None:
    """Make a session the active one of this thread, as another may have become that meanwhile."""
    if not is_connected(spark):
        held = SparkSession._get_j_spark_session_class(spark._jvm)
        held.setActiveSession(spark._jsparkSession)
        # Python has an active session of its own, perhaps that of a batch.
        SparkSession._activeSession = spark


def stop_session(spark: SparkSession) -> None:
    """Stop a session, whose JVM may have died."""
    with suppress(JvmError, OSError):
        spark.stop()


def silence_spark(spark: SparkSession) -> None:
    """Turn off Spark's log, so that it doesn't report what the shutdown interrupts."""
    if not is_connected(spark):
        spark.sparkContext.setLogLevel("OFF")


def default_files(spark: SparkSession) -> str:
    """Return the file system of paths without a scheme."""
    return str(spark._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///"))


def find_java_message(error: Exception) -> str:
    """Return the first line of the message of Java's exception."""
    cause = getattr(error, "java_exception", None)
    message = str(error) if cause is None else str(cause.getMessage() or cause)
    return message.partition("\n")[0]


def read_java_trace(error: BaseException) -> str:
    """Return Java's trace of an error that came out of the JVM; empty for another one."""
    return str(getattr(error, "_stackTrace", None) or "")


def find_full_disk(error: BaseException) -> str | None:
    """Return what Java says of a disk that takes no more, if an error is of one."""
    full = _FULL_DISK.search(f"{error}\n{read_java_trace(error)}")
    return None if full is None else full[0]
