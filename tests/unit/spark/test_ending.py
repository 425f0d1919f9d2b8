"""The errors that Spark's own stand for, by texts that Spark has printed."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException

from muntin.model.errors import LeaseLostError, SettingError, SourceError, WaitingWindowsError
from muntin.spark.ending import error_of_muntin

FAILED = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: "
PLAN = """ SQLSTATE: XXKST
=== Streaming Query ===
Current Committed Offsets: {org.apache.spark.sql.execution.datasources.v2.python.\
PythonMicroBatchStreamWithTriggerAvailableNow@25af1a0a: {"tick": 1795785009000000}}
"""


def test_a_source_process_that_was_killed() -> None:
    error = error_of_muntin(StreamingQueryException(f"{FAILED}Broken pipe{PLAN}"), 4)
    assert isinstance(error, SourceError)
    assert str(error).startswith("the Python source process died (killed; out of memory?). ")


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
