"""Waits for the end of a Spark query, and translates its error into one of muntin."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from muntin.hosts.leases import CHECKPOINT_DELETED
from muntin.model.errors import (
    LeaseLostError,
    MuntinError,
    OptionError,
    PartitionError,
    SettingError,
    SinkError,
    SourceError,
    SpecChangedError,
    StateCorruptedError,
    WaitingWindowsError,
)
from muntin.spark.host.executors import LOST_TASK, explain_lost_tasks
from muntin.spark.host.internals.checkpoints import find_changed_operators
from muntin.spark.host.internals.jvm import JvmError, death_of_jvm, find_full_disk
from muntin.spark.host.internals.pipes import read_last_death
from muntin.spark.sources.parquet import make_lost_file_error

_OURS = (
    LeaseLostError,
    PartitionError,
    SettingError,
    SinkError,
    SourceError,
    SpecChangedError,
    StateCorruptedError,
    WaitingWindowsError,
)


# The end of a stream has no message.
_SOURCE_DIED = re.compile(
    r"terminated with exception: (?:(?:Broken pipe|Connection reset|null)\b| ?SQLSTATE)"
)
# Spark may write into the folder before muntin looks for its lease.
_NO_FOLDER = re.compile(r"/(?:offsets|commits)/\.\S+\.tmp[^\n]*(?:does not exist|No such file)")
_STATE_UNREADABLE = re.compile(
    r"\[CANNOT_LOAD_STATE_STORE[.\w]*\] An error occurred during loading state\.\s+"
    r"([^\n]*?)\.?(?: If the stream job[^\n]*)?(?: SQLSTATE[^\n]*)?(?:\n|\Z)"
)
_LOST_FILE = re.compile(
    r"FILE_NOT_EXIST\] Encountered error while reading file (\S.*?)\.\s+File does not exist"
)
_OUT_OF_MEMORY = re.compile(r"java\.lang\.OutOfMemoryError: ([^\n]+)")
_WORKER_DIED = re.compile(r"Python worker exited unexpectedly \(crashed\)")
_BOUND = "Bound batches with bytes_per_batch=, or give it more, as with spark.driver.memory=4g"
# The free bytes of a disk below which it is full, since small files may still fit.
_LEAST_FREE = 1 << 16


class QueryEnd:
    """Waits in a thread of its own until a Spark query has ended.

    A signal can't interrupt a call into the JVM, so callers that wait for the query wait for this
    thread instead.

    Args:
        query: The query, which has been started.
        finish: A function that is called when the query has ended, before waiting callers return.
    """

    def __init__(self, query: StreamingQuery, finish: Callable[[QueryEnd], None]) -> None:
        self.error: Exception | None = None
        self._query = query
        self._finish = finish
        self._ended = threading.Event()
        threading.Thread(target=self._await, daemon=True, name="muntin-query-end").start()

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds`, and return whether the query has ended."""
        return self._ended.wait(seconds)

    def _await(self) -> None:
        try:
            self._query.awaitTermination()
        except Exception as error:
            self.error = error
        finally:
            try:
                self._finish(self)
            finally:
                self._ended.set()


def _describe_death(batch: int) -> SettingError | None:
    """Return the error of a JVM that has died; ``None`` if it still runs."""
    how = death_of_jvm()
    if how is None:
        return None
    return SettingError(f"Spark's JVM died ({how}){_format_batch(batch)}. {_BOUND}")


def _describe_lost_file(error: str) -> SourceError | None:
    """Return the error of a file that a task couldn't find; ``None`` if none did."""
    if (file := _LOST_FILE.search(error)) is None:
        return None
    lost = LOST_TASK.search(error)
    return make_lost_file_error(file[1], lost[1] if lost else "an executor")


def _describe_dead_worker(error: str, batch: int) -> SettingError | None:
    """Return the error of a Python worker that died in a task; ``None`` if none did."""
    died = _WORKER_DIED.search(error)
    if died is None:
        return None
    how = read_last_death() or "killed"
    memory = "; out of memory?" if how in ("killed", "signal 9") else ""
    lost = LOST_TASK.search(error[: died.start()])
    where = f" on {lost[1]}" if lost else ""
    return SettingError(
        f"a Python worker{where} died ({how}{memory}){_format_batch(batch)}. Bound batches with "
        "bytes_per_batch=, or leave workers more memory: spark.executor.memoryOverhead on a "
        "cluster. The next start resumes from the checkpoint"
    )


def _format_batch(batch: int) -> str:
    return f" after batch {batch}" if batch >= 0 else " before the first batch was done"


def describe_changed_chain(written: int, now: int) -> SpecChangedError:
    """Return the error of a chain that has more or fewer operators than its checkpoint."""
    return SpecChangedError(
        f"the checkpoint was written by a chain of {written} operators that keep state, and "
        f"this query has {now}. None can be added or removed: start the former chain, or use a "
        "new checkpoint folder"
    )


def describe_full_disk(error: Exception, checkpoint: str) -> MuntinError | None:
    """Return the error of a disk that takes no more, if that is what an error of Spark says.

    Spark says it without the path, so the disk of the checkpoint is asked whether it is the one.
    """
    full = find_full_disk(error)
    if full is None:
        return None
    again = "and start the query again: the batch is repeated"
    with suppress(OSError):
        if shutil.disk_usage(checkpoint.removeprefix("file:")).free < _LEAST_FREE:
            problem = f"can't be written: {full}"
            return OptionError("checkpoint", checkpoint, problem, f"make room, {again}")
    return SettingError(
        f"{full}: the disk of spark.local.dir, of an executor or of the checkpoint is full. "
        f"Make room there, {again}"
    )


def error_of_muntin(error: Exception, batch: int) -> MuntinError | None:
    """Return the error of muntin that an error of Spark, or of its JVM, contains or is equal to.

    ``batch`` is the last finished one. ``None`` where Spark's own error is the right one.
    """
    if isinstance(error, JvmError | OSError):
        return _describe_death(batch)
    if not isinstance(error, PySparkException):
        return None
    if (counts := find_changed_operators(str(error))) is not None:
        return describe_changed_chain(*counts)
    for kind in _OURS:
        _, name, rest = str(error).partition(f"{kind.__name__}: ")
        if name:
            return kind(rest.partition("\n")[0].strip())
    if _SOURCE_DIED.search(str(error)) is not None and "PythonMicroBatchStream" in str(error):
        return SourceError(
            "the Python source process died (killed; out of memory?). Start the query again, which "
            "resumes from its checkpoint; if it dies again, give the driver's machine more memory"
        )
    if _NO_FOLDER.search(str(error)) is not None:
        return LeaseLostError(CHECKPOINT_DELETED)
    if (unreadable := _STATE_UNREADABLE.search(str(error))) is not None:
        return StateCorruptedError(
            f"the state can't be read: {unreadable[1]}. Restore the checkpoint from a copy, or "
            "start with a new folder and new tables"
        )
    if (memory := _OUT_OF_MEMORY.search(str(error))) is not None:
        return SettingError(
            f"Spark's JVM ran out of memory ({memory[1]}){_format_batch(batch)}. {_BOUND}"
        )
    if (lost := _describe_lost_file(str(error))) is not None:
        return lost
    if (dead := _describe_dead_worker(str(error), batch)) is not None:
        return dead
    return explain_lost_tasks(str(error), os.environ.get("PYSPARK_PYTHON", "python3"))
