"""A Spark session that is set as muntin needs it, and the check of one that isn't ours."""

from __future__ import annotations

import atexit
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from muntin.hosts.interrupts import quit_when_terminated_as_init
from muntin.model.errors import SettingError
from muntin.spark.host.internals import archive, versions
from muntin.spark.host.internals.jvm import is_connected, is_running, local_cores, use_python
from muntin.spark.stderr_filter import quiet_jvm

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_STATE = "spark.sql.streaming.stateStore.rocksdb"
_ARROW = "spark.sql.execution.arrow"

SETTINGS = {
    # transformWithState keeps its state in nothing else.
    PROVIDER: ROCKSDB,
    # A commit writes what changed, not the whole store.
    f"{_STATE}.changelogCheckpointing.enabled": "true",
    # Each attempt at a batch writes state files of its own name, and the commit says whose count.
    # By the first format a batch that is repeated after a crash may be read back as half of one
    # attempt and half of the other; blobs have other numbers in each: it couldn't be read.
    FORMAT: "2",
    # Counting rows costs a read for each write, and our rows are blobs.
    f"{_STATE}.trackTotalNumberOfRows": "false",
    # Spark otherwise computes the size of the Arrow batch anew for each row, which doubles the
    # cost of handing rows to Python; the number of rows bounds a batch just as well.
    f"{_ARROW}.maxBytesPerBatch": str(2**31 - 1),
    f"{_ARROW}.maxRecordsPerBatch": "50000",
    # A batch's rows become a DataFrame that sinks may compute with. Beyond some two thousand of
    # them it is cheaper to have tasks decode them than to make rows of them on the driver.
    f"{_ARROW}.localRelationThreshold": "128KB",
    **versions.SETTINGS,
}

# How the Python workers are started: with everything imported, one Polars thread for each.
WORKERS = {
    "spark.python.daemon.module": "muntin.spark.host.daemon",
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    # Over TCP a task's first Arrow batch waits 40 ms for an acknowledgement that is delayed.
    "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
    # Shortened tracebacks are asked for in the workers' environment, by some stages only; of
    # workers with two environments Spark starts two daemons.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}

JVM_OPTIONS = "spark.driver.extraJavaOptions"
SOCKETS = "spark.python.unix.domain.socket.dir"
BIND = "spark.driver.bindAddress"
LOOPBACK = "127.0.0.1"
LOCAL = {
    # Nobody on the network has a reason to talk to a driver that is its own executor.
    BIND: LOOPBACK,
    "spark.driver.host": LOOPBACK,
    # What passes through the JVM are blobs of megabytes: to G1 each of them is a reason to look
    # through the whole heap, in which next to nothing stays.
    JVM_OPTIONS: "-XX:+UseSerialGC",
    # A checkpoint on a local disk costs Spark some fifty processes a batch (`chmod`, `readlink`)
    # when it goes through Hadoop's FileContext, and a dozen when it doesn't. Renames are atomic
    # both ways.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
}

# Name, Spark's default, the value that a query needs, and what is wrong with any other.
_REQUIRED = (
    (PROVIDER, "", ROCKSDB, "and windows are kept in RocksDB"),
    (FORMAT, "1", "2", "by which a crash may leave state that can't be read back"),
)
_ZONE = {"spark.sql.session.timeZone": "UTC"}
_QUIET = {"spark.ui.showConsoleProgress": "false", "spark.ui.enabled": "false"}

_NO_JVM = (
    "Spark's JVM can't be started: it needs Java 17 or newer, on the PATH or where JAVA_HOME says; "
    "`muntin doctor` looks for it and says what to do"
)


def session(
    app: str = "muntin", *, master: str | None = None, verbose: bool = False, **more: str
) -> SparkSession:
    """Start (or get) a Spark session with everything set that muntin needs.

    It has what [`settings`][muntin.spark.session.settings] gives, times in UTC, and Spark's own
    page and progress bars off.

    Args:
        app: The application's name.
        master: The cluster; ``local[*]`` where neither this nor the environment says another.
        verbose: Whether to print what Spark writes to stderr when it starts, and each step of its
            Python processes. It is decided when the JVM starts.
        **more: More settings, dots written as double underscores, for example
            ``spark__driver__memory="4g"``.

    Returns:
        The session, with the log level at ERROR.

    Raises:
        SettingError: When there is no Java that Spark can start.

    Example:
        >>> spark = session(master="local[2]")  # doctest: +SKIP
    """
    chosen = "PYSPARK_PYTHON" in os.environ
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    builder = SparkSession.builder.appName(app)
    if master is None and "SPARK_REMOTE" not in os.environ and "MASTER" not in os.environ:
        master = "local[*]"
    if master is not None:
        builder = builder.master(master)
    remote = os.environ.get("SPARK_REMOTE", "").startswith("sc:")
    # How its workers are started is the server's affair, and was decided when it came up.
    wanted = {**(SETTINGS if remote else {**settings(master), **_QUIET}), **_ZONE}
    wanted |= {name.replace("__", "."): value for name, value in more.items()}
    for name, value in wanted.items():
        builder = builder.config(name, value)
    # A JVM that runs already has its stderr.
    starts = not verbose and not is_running() and not remote
    local = str(master).startswith("local") and not is_running() and not remote
    private = private_machine(wanted) if local else nullcontext(dict[str, str]())
    with private as more_settings, quiet_jvm() if starts else nullcontext():
        for name, value in more_settings.items():
            builder = builder.config(name, value)
        try:
            spark: SparkSession = builder.getOrCreate()
        except PySparkRuntimeError as error:
            if error.getCondition() != "JAVA_GATEWAY_EXITED":
                raise
            raise SettingError(_NO_JVM) from error
    if not is_connected(spark):
        spark.sparkContext.setLogLevel("ERROR")
    quit_when_terminated_as_init()
    if not chosen:
        # One that ran already took the first python3 on the PATH.
        use_python(spark, sys.executable)
    return spark


def active_session(spark: SparkSession | None) -> SparkSession:
    """Return the session that was given, the active one, or a new one."""
    return spark or SparkSession.getActiveSession() or session()


@contextmanager
def private_machine(wanted: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Keep a local JVM that is started meanwhile off the network, and away from other users.

    Spark's page listens where ``SPARK_LOCAL_IP`` says, which no setting does.

    Args:
        wanted: The settings of the session; an address or a folder among them is left as it is.

    Yields:
        More settings: a folder for the sockets of Python workers that no other user can open.
    """
    folder = None
    if SOCKETS not in wanted and hasattr(socket, "AF_UNIX"):
        folder = tempfile.mkdtemp(prefix="muntin-")
        atexit.register(_remove, folder, os.getpid())
    sets_address = "SPARK_LOCAL_IP" not in os.environ and wanted.get(BIND, LOOPBACK) == LOOPBACK
    if sets_address:
        os.environ["SPARK_LOCAL_IP"] = LOOPBACK
    try:
        yield {} if folder is None else {SOCKETS: folder}
    finally:
        if sets_address:
            del os.environ["SPARK_LOCAL_IP"]


def _remove(folder: str, process: int) -> None:
    """Remove a folder at the end of the process that made it, and not of one that it forked."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def settings(master: str | None = None) -> dict[str, str]:
    """What a session of your own needs to be started with, for its builder.

    Args:
        master: The cluster. For a local one there is more to gain, and as many shuffle partitions
            as cores.

    Returns:
        The values by name; no time zone, which stays yours.

    Example:
        >>> settings()["spark.sql.streaming.stateStore.checkpointFormatVersion"]
        '2'
        >>> builder = SparkSession.builder.config(map=settings("local[4]"))
    """
    wanted = {**SETTINGS, **WORKERS}
    if master is not None and master.startswith("local"):
        wanted |= {
            **LOCAL,
            "spark.sql.shuffle.partitions": str(local_cores(master) or os.cpu_count() or 1),
        }
        wanted[JVM_OPTIONS] = f"{LOCAL[JVM_OPTIONS]} {archive.options()}".rstrip()
    return wanted


def configure(spark: SparkSession) -> SparkSession:
    """Set in a session that runs already whatever can still be set there.

    That is all that a query can't do without; how the workers are started is decided with the JVM,
    by [`settings`][muntin.spark.session.settings]. The workers' Python becomes this one where the
    master is local and ``PYSPARK_PYTHON`` isn't set. Over Spark Connect it sets the session on the
    server.

    Args:
        spark: The session; queries that run already keep what they were started with.

    Returns:
        The same session.

    Example:
        >>> spark = configure(SparkSession.getActiveSession())  # doctest: +SKIP
    """
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    if "PYSPARK_PYTHON" not in os.environ:
        use_python(spark, sys.executable)
    return spark


def require(spark: SparkSession) -> None:
    """Refuse a session without which a query would fail later and less clearly."""
    wrong = [
        f"{name} is {found!r}, {why}; set it to {wanted!r}"
        for name, default, wanted, why in _REQUIRED
        if (found := spark.conf.get(name, default)) != wanted
    ]
    if wrong:
        hint = ". In one line: import muntin; muntin.configure(spark)"
        raise SettingError("; ".join(wrong) + hint)
