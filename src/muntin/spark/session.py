"""Starts Spark sessions with the settings that muntin needs, and checks other sessions."""

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
from muntin.model.patience import WAITS_VARIABLE
from muntin.model.references import resolve_all
from muntin.model.secrets import SECRET_NAMES, reveals_secret
from muntin.spark.host.internals import archive, versions
from muntin.spark.host.internals.jvm import (
    find_submitted_master,
    is_connected,
    is_running,
    local_cores,
    start_jvm,
    use_python,
)
from muntin.spark.host.internals.python_start import (
    import_ahead,
    start_daemon,
    use_compiled_modules,
)
from muntin.spark.security_settings import refuse_mistyped
from muntin.spark.stderr_filter import quiet_jvm

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHECKPOINT_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_STATE = "spark.sql.streaming.stateStore.rocksdb"
_ARROW = "spark.sql.execution.arrow"

SESSION_SETTINGS = {
    # transformWithState only supports RocksDB.
    PROVIDER: ROCKSDB,
    # Have a commit write changes, not the whole store.
    f"{_STATE}.changelogCheckpointing.enabled": "true",
    # In this format, each attempt at a batch writes state files with names of its own, and the
    # commit says which of them count. In the first format, a batch that is repeated after a crash
    # may be read back as a mix of two attempts, whose blobs have different numbers.
    CHECKPOINT_FORMAT: "2",
    # Counting rows costs a read for each write, and our rows are blobs.
    f"{_STATE}.trackTotalNumberOfRows": "false",
    # Without this bound, Spark computes the size of the Arrow batch anew for each row, which
    # doubles the cost of handing rows to Python. The number of rows bounds a batch as well.
    f"{_ARROW}.maxBytesPerBatch": str(2**31 - 1),
    f"{_ARROW}.maxRecordsPerBatch": "50000",
    # Sinks get a batch's rows as a DataFrame. From some two thousand rows on it is cheaper to
    # decode them in tasks than to convert them on the driver.
    f"{_ARROW}.localRelationThreshold": "128KB",
    # Spark's default is INT96, without a zone, which other readers of Parquet take for nanoseconds.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    **versions.SETTINGS,
}

# Settings of the Python workers: they start with everything imported, and one Polars thread each.
WORKERS = {
    "spark.python.daemon.module": "muntin.spark.host.daemon",
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    # Over TCP a task's first Arrow batch waits 40 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
    # Some stages ask for shortened tracebacks in the workers' environment, and Spark starts a
    # daemon for each environment. Without them, one daemon serves all stages.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}

JVM_OPTIONS = "spark.driver.extraJavaOptions"
SOCKETS = "spark.python.unix.domain.socket.dir"
BIND = "spark.driver.bindAddress"
LOOPBACK = "127.0.0.1"
LOCAL = {
    # A driver that is its own executor needs no connections from the network.
    BIND: LOOPBACK,
    "spark.driver.host": LOOPBACK,
    # Blobs of megabytes pass through the JVM, each of which makes G1 scan the whole heap, though
    # almost nothing stays in it.
    JVM_OPTIONS: "-XX:+UseSerialGC",
    # For a checkpoint on a local disk, Hadoop's FileContext starts some fifty processes for each
    # batch (`chmod`, `readlink`), and this manager a dozen. Renames are atomic in both.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
}

# The required settings: name, Spark's default, the required value, and the problem without it.
_REQUIRED = (
    (PROVIDER, "", ROCKSDB, "and windows are kept in RocksDB"),
    (CHECKPOINT_FORMAT, "1", "2", "by which a crash may leave state that can't be read back"),
)
_ZONE = {"spark.sql.session.timeZone": "UTC"}
_QUIET = {"spark.ui.showConsoleProgress": "false", "spark.ui.enabled": "false"}

_NO_JVM = (
    "Spark's JVM can't be started: it needs Java 17 or newer, on the PATH or in JAVA_HOME. "
    "Run `muntin doctor`, which looks for it"
)


def session(
    app: str = "muntin", *, master: str | None = None, verbose: bool = False, **more: str
) -> SparkSession:
    """Start (or get) a Spark session with all settings that muntin needs.

    It has the settings of [`settings`][muntin.spark.session.settings], times in UTC, and neither
    Spark's web page nor its progress bars.

    Args:
        app: The application's name.
        master: The cluster; ``local[*]`` if neither this option, the environment nor
            ``spark-submit`` names one.
        verbose: Whether to print Spark's messages at startup, and each step of its Python
            processes. It has no effect if the JVM already runs.
        **more: More settings, with double underscores for dots, for example
            ``spark__driver__memory="4g"``. Write a secret as ``${env:NAME}`` or ``${file:PATH}``.

    Returns:
        The session, with the log level at ERROR.

    Raises:
        SettingError: When Spark can't start Java, or a setting for security is mistyped.

    Example:
        >>> spark = session(master="local[2]")  # doctest: +SKIP
    """
    chosen = "PYSPARK_PYTHON" in os.environ
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    builder = SparkSession.builder.appName(app)
    if master is None and "SPARK_REMOTE" not in os.environ and "MASTER" not in os.environ:
        master = find_submitted_master() or "local[*]"
    if master is not None:
        builder = builder.master(master)
    remote = os.environ.get("SPARK_REMOTE", "").startswith("sc:")
    # The server of Spark Connect has settled the settings of its workers when it started.
    wanted = {**(SESSION_SETTINGS if remote else {**settings(master), **_QUIET}), **_ZONE}
    if not remote:
        # In event logs and on Spark's page; its own pattern leaves out some names of secrets.
        wanted["spark.redaction.regex"] = f"(?i){SECRET_NAMES}"
    own = {name.replace("__", "."): value for name, value in more.items()}
    refuse_mistyped(own)
    wanted |= own
    # A setting that isn't text, such as True, is no reference.
    wanted |= resolve_all({name: one for name, one in wanted.items() if isinstance(one, str)})
    starts_jvm = not is_running() and not remote
    local = starts_jvm and str(master).startswith("local")
    private = private_machine(wanted) if local else nullcontext(dict[str, str]())
    compiled = use_compiled_modules() if local else nullcontext()
    # The stderr of a JVM that already runs can't be filtered any more.
    quiet = quiet_jvm() if starts_jvm and not verbose else nullcontext()
    ahead = import_ahead() if starts_jvm else nullcontext()
    with private as more_settings, compiled, quiet, ahead:
        wanted |= more_settings
        for name, value in wanted.items():
            builder = builder.config(name, value)
        if starts_jvm:
            _prepare_jvm(wanted, app, master)
        spark = _start(builder)
    if not is_connected(spark):
        spark.sparkContext.setLogLevel("ERROR")
    quit_when_terminated_as_init()
    if not chosen:
        # A session that already ran uses the first python3 on the PATH.
        use_python(spark, sys.executable)
    if local and spark.sparkContext.pythonExec == sys.executable:
        start_daemon(spark)
    return spark


def _start(builder: SparkSession.Builder) -> SparkSession:
    """Start the session, or refuse a machine without Java."""
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise SettingError(_NO_JVM) from error


def _prepare_jvm(wanted: Mapping[str, str], app: str, master: str | None) -> None:
    """Create a folder for what the JVM's Python processes wait for.

    If a setting is a secret that the JVM's arguments would show, start it before the session.
    """
    _open_waits()
    public = {n: one for n, one in wanted.items() if not reveals_secret(n, str(one))}
    if public.keys() == wanted.keys() or "spark.remote" in wanted:
        return
    chosen = {} if master is None else {"spark.master": master}
    start_jvm({"spark.app.name": app, **chosen, **public})


def active_session(spark: SparkSession | None) -> SparkSession:
    """Return a session: the given one if it isn't ``None``, else the active one or a new one."""
    return spark or SparkSession.getActiveSession() or session()


@contextmanager
def private_machine(wanted: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Isolate a local JVM that the context starts from the network and from other users.

    Spark has no setting for the address of its web page, which follows ``SPARK_LOCAL_IP``. The
    context yields a folder for the sockets of Python workers that no other user can open, unless
    the ``wanted`` settings have one.
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


def _open_waits() -> None:
    """Create the folder in which Python processes of Spark list the servers that they wait for."""
    folder = tempfile.mkdtemp(prefix="muntin-waits-")
    os.environ[WAITS_VARIABLE] = f"{os.getpid()}:{folder}"
    atexit.register(_remove, folder, os.getpid())


def _remove(folder: str, process: int) -> None:
    """Remove a folder at the end of the process that created it, but not of a forked one."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def settings(master: str | None = None) -> dict[str, str]:
    """Return the settings that a session of your own must be started with, for its builder.

    Args:
        master: The cluster. A local one gets further settings, and as many shuffle partitions as
            cores.

    Returns:
        The values by name, without a time zone, which stays yours.

    Example:
        >>> settings()["spark.sql.streaming.stateStore.checkpointFormatVersion"]
        '2'
        >>> builder = SparkSession.builder.config(map=settings("local[4]"))
    """
    wanted = {**SESSION_SETTINGS, **WORKERS}
    if master is not None and master.startswith("local"):
        wanted |= {
            **LOCAL,
            "spark.sql.shuffle.partitions": str(local_cores(master) or os.cpu_count() or 1),
        }
        wanted[JVM_OPTIONS] = f"{LOCAL[JVM_OPTIONS]} {archive.use_options()}".rstrip()
    return wanted


def configure(spark: SparkSession) -> SparkSession:
    """Apply the settings that a running session still accepts, which are all that queries require.

    The settings of workers must be set before the JVM starts, by
    [`settings`][muntin.spark.session.settings]. If the master is local and ``PYSPARK_PYTHON`` isn't
    set, workers use this process's Python. Over Spark Connect the settings apply to the session on
    the server.

    Args:
        spark: The session; running queries keep the settings that they were started with.

    Returns:
        The same session.

    Example:
        >>> spark = configure(SparkSession.getActiveSession())  # doctest: +SKIP
    """
    for name, value in SESSION_SETTINGS.items():
        spark.conf.set(name, value)
    if "PYSPARK_PYTHON" not in os.environ:
        use_python(spark, sys.executable)
    return spark


def require(spark: SparkSession) -> None:
    """Refuse a session without required settings, since queries would fail unclearly."""
    wrong = [
        f"{name} is {value!r}, {why}; set it to {wanted!r}"
        for name, default, wanted, why in _REQUIRED
        if (value := spark.conf.get(name, default)) != wanted
    ]
    if wrong:
        hint = ". In one line: import muntin; muntin.configure(spark)"
        raise SettingError("; ".join(wrong) + hint)
