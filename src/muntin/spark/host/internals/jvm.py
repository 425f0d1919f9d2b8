"""The JVM behind a session: whether there is one to ask, and what it knows of its machine."""

from __future__ import annotations

import logging
import subprocess
import sys
from contextlib import suppress
from socketserver import BaseServer
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext, accumulators
from pyspark.sql import SparkSession

# What the JVM's answers raise, and the packages of Spark's own lines in a traceback.
JvmError = Py4JError
# As Spark ends a JVM that has no memory left.
_EXIT_OUT_OF_MEMORY = 52
_CONNECTION_LOST = ("Exception while sending command", "Exception while reading")
PACKAGES = ("pyspark", "py4j")


def is_running() -> bool:
    """Whether this process has started a JVM."""
    return SparkContext._gateway is not None


def death_of_jvm() -> str | None:
    """Say how the JVM that this process has started has died; ``None`` where it runs."""
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
    """Say nothing: whoever waits for the query is told."""


def _is_worth_logging(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(_CONNECTION_LOST)


def is_connected(spark: SparkSession) -> bool:
    """Whether Spark is at the other end of a connection, so that nothing can be seen of it."""
    return getattr(spark, "_jvm", None) is None


def session_of(spark: SparkSession) -> str:
    """By what the server of Spark Connect knows a session."""
    return str(spark.session_id)  # type: ignore[attr-defined]


def workers_of(spark: SparkSession) -> str:
    """What distinguishes the workers of one session from those of another."""
    if is_connected(spark):
        return session_of(spark)
    return f"{spark.sparkContext.applicationId} {spark.sparkContext.pythonExec}"


def shares_python(spark: SparkSession) -> bool:
    """Whether the workers run on this machine, by this process's own Python."""
    if is_connected(spark):
        return False
    return runs_in_driver(spark) and spark.sparkContext.pythonExec == sys.executable


def runs_in_driver(spark: SparkSession) -> bool:
    """Whether the driver's JVM is the only executor."""
    master = str(spark.sparkContext.master)
    return master == "local" or master.startswith("local[")


def local_cores(master: str) -> int | None:
    """How many cores ``local[4]`` says; ``None`` where it says no number."""
    inside = master.partition("[")[2].partition("]")[0].partition(",")[0]
    return int(inside) if inside.isdigit() else None


def use_python(spark: SparkSession, python: str) -> None:
    """Let a running session start its workers by another Python, where it has its own machine's."""
    if not is_connected(spark) and str(spark.sparkContext.master).startswith("local"):
        spark.sparkContext.pythonExec = python


def classes_of(spark: SparkSession) -> Any:
    """The JVM's classes, by their full names; there has to be a JVM."""
    return spark._jvm


def hadoop_settings(spark: SparkSession) -> Any:
    """What Hadoop's file systems go by, with the session's settings."""
    return spark._jsparkSession.sessionState().newHadoopConf()


def has_class(spark: SparkSession, name: str) -> bool:
    """Whether a class is on the class path, or among the jars that were added."""
    loader = classes_of(spark).java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(name)
    except Exception as error:
        if "ClassNotFoundException" not in str(error):
            raise
        return False
    return True


def started_in(spark: SparkSession) -> str:
    """The folder in which the JVM was started, where it stays."""
    return str(classes_of(spark).java.lang.System.getProperty("user.dir"))


def make_active(spark: SparkSession) -> None:
    """Have a session be the one that is active in this thread: others may have been since."""
    if not is_connected(spark):
        held = SparkSession._get_j_spark_session_class(spark._jvm)
        held.setActiveSession(spark._jsparkSession)
        # Python remembers one of its own, perhaps that of a batch.
        SparkSession._activeSession = spark


def stop_session(spark: SparkSession) -> None:
    """Stop a session, whose JVM may have died."""
    with suppress(JvmError, OSError):
        spark.stop()


def silence_spark(spark: SparkSession) -> None:
    """Have Spark log nothing more: what is cut off now is of no interest to anybody."""
    if not is_connected(spark):
        spark.sparkContext.setLogLevel("OFF")


def default_files(spark: SparkSession) -> str:
    """Where paths without a scheme lie."""
    return str(spark._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///"))
