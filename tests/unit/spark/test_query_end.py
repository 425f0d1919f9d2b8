"""Tests of the errors of muntin that Spark's errors stand for, by texts that Spark has printed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException
from pyspark.sql.types import StructType

import muntin as mt
from muntin.model.errors import (
    LeaseLostError,
    OptionError,
    SettingError,
    SinkError,
    SourceError,
    StateCorruptedError,
    WaitingWindowsError,
)
from muntin.model.patience import WAITS_VARIABLE
from muntin.sinks.batch import Batch
from muntin.spark.query_end import describe_full_disk, error_of_muntin
from muntin.spark.sinks.batch import EmittedRows

FAILED = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
PLAN = """ SQLSTATE: XXKST
=== Streaming Query ===
Current Committed Offsets: {org.apache.spark.sql.execution.datasources.v2.python.\
PythonMicroBatchStreamWithTriggerAvailableNow@25af1a0a: {"tick": 1795785009000000}}
"""


@pytest.mark.parametrize("message", ["Broken pipe", "Connection reset", "null", ""])
def test_a_source_process_that_was_killed(message: str) -> None:
    error = error_of_muntin(StreamingQueryException(f"{FAILED}{message}{PLAN}"), 4)
    assert isinstance(error, SourceError)
    assert str(error).startswith("the Python source process died (killed; out of memory?). ")


def test_a_file_of_the_state_that_is_gone() -> None:
    """Spark's own advice, to clear the checkpoint, would lose the rest."""
    text = (
        f"{FAILED}[FOREACH_BATCH_USER_FUNCTION_ERROR] Return Message:\n: org.apache.spark."
        "SparkException: [CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE] An error "
        "occurred during loading state. Error reading streaming state file of file:/ck/state/0/0/"
        "2_7.changelog does not exist. If the stream job is restarted with a new or updated state "
        "operation, please create a new checkpoint location. SQLSTATE: 58030\n\tat x.Y(Y.scala:1)"
    )
    error = error_of_muntin(StreamingQueryException(text), 4)
    assert isinstance(error, StateCorruptedError)
    assert str(error) == (
        "the state can't be read: Error reading streaming state file of file:/ck/state/0/0/"
        "2_7.changelog does not exist. Restore the checkpoint from a copy, or start with a new "
        "folder and new tables"
    )


KILLED = (
    f"{FAILED}Job aborted: Lost task 0.0 in stage 7.0 (TID 9) (10.0.0.5 executor 2): "
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider"
)


@pytest.mark.parametrize(
    ("status", "how"),
    [
        ("-9", "signal 9; out of memory?"),
        ("-11", "signal 11"),
        ("3", "exit code 3"),
        (None, "killed; out of memory?"),
        ("half a num", "killed; out of memory?"),
    ],
)
def test_a_worker_that_died_is_named_with_its_signal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str | None, how: str
) -> None:
    monkeypatch.setenv(WAITS_VARIABLE, f"{os.getpid()}:{tmp_path}")
    if status is not None:
        (tmp_path / "death").write_text(status)
    error = error_of_muntin(StreamingQueryException(KILLED + PLAN), 4)
    assert isinstance(error, SettingError)
    assert str(error).startswith(
        f"a Python worker on 10.0.0.5 died ({how}) after batch 4. Bound batches with bytes_per_bat"
    )


def test_the_daemon_notes_how_its_worker_died(tmp_path: Path) -> None:
    program = """
import os, signal, time
import pyspark.daemon
from muntin.spark.host.internals.pipes import note_deaths
note_deaths()
signal.signal(signal.SIGCHLD, pyspark.daemon.SIG_IGN)
for end in (lambda: os._exit(0), lambda: os.kill(os.getpid(), signal.SIGKILL)):
    if not (worker := os.fork()):
        end()
    while os.path.exists(f"/proc/{worker}"):
        time.sleep(0.01)
"""
    environment = {**os.environ, WAITS_VARIABLE: f"0:{tmp_path}"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=60)
    assert (tmp_path / "death").read_text() == "-9"


def test_a_file_that_a_machine_lacks_is_named_with_it() -> None:
    text = (
        f"{FAILED}Job aborted: Lost task 0.3 in stage 7.0 (TID 9) (worker-2 executor 1): "
        "org.apache.spark.SparkFileNotFoundException: [FAILED_READ_FILE.FILE_NOT_EXIST] "
        "Encountered error while reading file file:///data/a b.json. File does not exist. It is "
        "possible the underlying files have been updated.\nYou can explicitly"
    )
    error = error_of_muntin(StreamingQueryException(text + PLAN), 4)
    assert isinstance(error, SourceError)
    assert str(error).startswith("/data/a b.json isn't on worker-2: it was deleted, or ")


def test_a_python_that_didnt_start_in_time_is_named() -> None:
    text = f"{FAILED}Python worker failed to connect back.{PLAN}"
    error = error_of_muntin(StreamingQueryException(text), -1)
    assert isinstance(error, SettingError)
    assert "didn't start in time: the machine is overloaded, or" in str(error)


def test_a_jvm_without_memory_names_per_batch() -> None:
    text = f"{FAILED}Job aborted\njava.lang.OutOfMemoryError: Java heap space\n\tat x{PLAN}"
    error = error_of_muntin(StreamingQueryException(text), 4)
    assert isinstance(error, SettingError)
    assert str(error).startswith(
        "Spark's JVM ran out of memory (Java heap space) after batch 4. "
        "Bound batches with bytes_per_batch="
    )


@pytest.mark.parametrize(
    ("code", "how"),
    [("-9", "signal 9; out of memory?"), ("52", "out of memory"), ("1", "exit code 1")],
)
def test_a_jvm_that_died(code: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = (
        f"import os, sys; os.kill(os.getpid(), {-int(code)})" if code[0] == "-" else f"exit({code})"
    )
    process = subprocess.Popen([sys.executable, "-c", run])
    assert process.wait(60) == (-signal.SIGKILL if code == "-9" else int(code))
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    error = error_of_muntin(Py4JNetworkError("Answer from Java side is empty"), -1)
    assert str(error).startswith(f"Spark's JVM died ({how}) before the first batch was done. ")


def test_an_error_of_the_users_is_left_to_him() -> None:
    assert error_of_muntin(ValueError("x"), 4) is None
    assert error_of_muntin(StreamingQueryException(f"{FAILED}Broken pipe SQLSTATE"), 4) is None


def test_an_error_of_a_worker_is_the_one_that_it_raised() -> None:
    text = (
        f"{FAILED}[PYTHON_EXCEPTION] Traceback (most recent call last):\n"
        '  File "waiting.py", line 132, in take\n'
        "muntin.model.errors.WaitingWindowsError: over=2: 3 changed windows wait to emit. Raise\n"
        f"{PLAN}"
    )
    error = error_of_muntin(StreamingQueryException(text), 4)
    assert isinstance(error, WaitingWindowsError)
    assert str(error).startswith("over=2: 3 changed windows wait to emit.")


@pytest.mark.parametrize(
    "cause",
    [
        "File file:/lake/ck/offsets/.1.850b175c.tmp does not exist",
        "chmod: cannot access '/lake/ck/commits/.1.850b175c.tmp': No such file or directory",
    ],
)
def test_a_checkpoint_that_was_deleted_is_named(cause: str) -> None:
    text = f"[STREAM_FAILED] Query [id = 1] terminated with exception: {cause} SQLSTATE: XXKST"
    error = error_of_muntin(StreamingQueryException(text), 0)
    assert isinstance(error, LeaseLostError)
    assert str(error).startswith("the checkpoint was deleted while the query ran")


FULL = "java.io.IOException: No space left on device"


@pytest.mark.parametrize(
    ("free", "kind", "first"),
    [
        (0, OptionError, "checkpoint='file:/ck' can't be written: No space left on device; make"),
        (1 << 30, SettingError, "No space left on device: the disk of spark.local.dir, of an exec"),
    ],
)
def test_a_full_disk_is_the_checkpoints_where_that_takes_no_more(
    monkeypatch: pytest.MonkeyPatch, free: int, kind: type, first: str
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free))
    error = describe_full_disk(StreamingQueryException(f"{FAILED}{FULL}{PLAN}"), "file:/ck")
    assert type(error) is kind
    assert str(error).startswith(first)
    assert describe_full_disk(StreamingQueryException(FAILED + PLAN), "file:/ck") is None


def test_a_full_disk_of_a_sink_that_spark_writes_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fill_disk(*_: object, **__: object) -> bool:
        raise Py4JNetworkError(FULL)

    monkeypatch.setattr("muntin.spark.sinks.batch.write_by_spark", fill_disk)
    rows = EmittedRows(None, "results", StructType(), (b"",))  # type: ignore[arg-type]
    with pytest.raises(SinkError) as caught:
        mt.to_parquet(tmp_path / "out").write(Batch(0, "results", pa.schema([]), None, rows))
    assert str(caught.value).startswith(
        f"{tmp_path / 'out'} can't be written: No space left on device. Make room"
    )
