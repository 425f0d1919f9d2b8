"""Tests that stderr has no noise of Spark, unless it is asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from muntin.spark.stderr_filter import StderrFilter

STEPS = b"""Starting Streaming TransformWithStateInPandas Python worker.

Streaming TransformWithStateInPandas Python worker finish init stage of Python runner. Received UDF

Streaming TransformWithStateInPandas Python worker Starting execution of UDF: <bound method>.

"""
START = b"""WARNING: Using incubator modules: jdk.incubator.vector
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
Setting default log level to "WARN".
To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).
26/11/27 10:16:00 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform
"""
TWICE_CLOSED = b"""26/11/22 18:00:00 ERROR TransformWithStateInPySparkPythonPreInitRunner: failed
java.lang.NullPointerException: Cannot invoke "close()" because "this.stateServerSocket" is null
\tat org.apache.spark.sql.X.run(X.scala:1)
\t... 3 more
"""
THROWN = b"""Exception in thread "x" java.lang.NullPointerException: "stateServerSocket" is null
\tat org.apache.spark.sql.X.run(X.scala:1)
Caused by: java.lang.IllegalStateException: y
\t... 3 more
"""
NOT_NEEDED = b"""Traceback (most recent call last):
  File "/x/pyspark.zip/pyspark/daemon.py", line 264, in manager
    code = worker(sock, authenticated)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/x/pyspark.zip/pyspark/daemon.py", line 95, in worker
BrokenPipeError: [Errno 32] Broken pipe
"""
NO_SOCKET = b"""Traceback (most recent call last):
  File "/x/pyspark/util.py", line 822, in local_connect_and_auth
    sock.connect(sock_path)
FileNotFoundError: [Errno 2] No such file or directory

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/x/pyspark/daemon.py", line 95, in worker
    raise PySparkRuntimeError(
pyspark.errors.exceptions.base.PySparkRuntimeError: [CANNOT_OPEN_SOCKET] Can not open socket
"""
NO_READER = b"""Traceback (most recent call last):
  File "/x/pyspark/sql/streaming/transform_with_state_driver_worker.py", line 90, in main
    outfile.flush()
BrokenPipeError: [Errno 32] Broken pipe

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/x/pyspark/worker_util.py", line 253, in get_sock_file_to_executor
    yield sock_file
  File "/x/pyspark/sql/streaming/transform_with_state_driver_worker.py", line 98, in <module>
    main(sock_file, sock_file)
BrokenPipeError: [Errno 32] Broken pipe

During handling of the above exception, another exception occurred:

"""
DEEP = b"""Exception in thread "stream execution thread for v" java.lang.StackOverflowError
"""
FRAMES = b"\tat java.base/java.util.regex.Pattern$Loop.match(Pattern.java:4898)\n" * 1024
TRACE = b"""26/11/22 18:00:00 ERROR Executor: Exception in task 0.0
org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] 'abc' isn't a number.
== DataFrame ==
"cast" was called from
x.py:12

\tat org.apache.spark.sql.X.run(X.scala:1)
Caused by: java.lang.IllegalStateException: password=sesame
\t... 3 more
"""
CUT = b"""26/11/22 18:00:00 ERROR Executor: Exception in task 0.0: \
IllegalStateException: password=****** (details in FILE)
"""
OURS = b"""
a line of the user's
26/11/22 18:00:00 ERROR Y: a message without a trace
Traceback (most recent call last):
  File "x.py", line 1
ValueError: a message of the user's
Traceback (most recent call last):
  File "/x/pyspark.zip/pyspark/daemon.py", line 264, in manager
  File "/x/user.py", line 1, in write
BrokenPipeError: [Errno 32] Broken pipe

no line's end"""


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_only_noise_is_left_out(size: int) -> None:
    text = (
        START
        + STEPS
        + TWICE_CLOSED
        + NOT_NEEDED
        + NO_SOCKET
        + NO_READER
        + STEPS
        + b"first\n"
        + DEEP
        + FRAMES
        + THROWN
        + STEPS
        + TRACE
        + TRACE
        + OURS
    )
    traces: list[str] = []
    stderr_filter, output = StderrFilter(lambda trace: traces.append(trace) or "FILE"), b""
    for start in range(0, len(text), size):
        output += stderr_filter.filter(text[start : start + size])
    assert output + stderr_filter.flush() == b"first\n" + DEEP + CUT + CUT + OURS
    assert traces == [TRACE.decode()] * 2


@pytest.mark.parametrize("cut", [0, 2, 3])
def test_an_error_behind_a_worker_without_a_socket_is_not_left_out(cut: int) -> None:
    """The JVM may end before the worker has printed both of its errors."""
    lines = NO_SOCKET.splitlines(keepends=True)
    first_lines = b"".join(lines[: 4 + cut])
    stderr_filter = StderrFilter()
    assert (
        stderr_filter.filter(first_lines + b"a line\n" + OURS) + stderr_filter.flush()
        == b"a line\n" + OURS
    )


def test_what_waits_is_passed_on_when_nothing_follows() -> None:
    stderr_filter = StderrFilter()
    assert stderr_filter.filter(b"ERROR x\n") == b""
    assert stderr_filter.flush() == b"ERROR x\n"
    assert stderr_filter.filter(b"half a li") + stderr_filter.flush() == b"half a li"


def test_a_traceback_that_is_written_slowly_is_one_record() -> None:
    first, *rest = NOT_NEEDED.splitlines(keepends=True)
    stderr_filter = StderrFilter()
    at_rest = stderr_filter.patience
    stderr_filter.filter(first)
    assert (
        stderr_filter.patience > 10 * at_rest
    )  # its writer reads source files before the next line
    assert stderr_filter.filter(b"".join(rest)) + stderr_filter.flush() == b""
    assert stderr_filter.patience == at_rest


QUERY = """
import sys
import muntin as mt

spark = mt.session(master="local[1]", **{options})
rate = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
query = mt.windowed(rate, key="value", time="timestamp").tumbling("1 second").agg(n=mt.count())
query = query.start(checkpoint={folder!r}, every="1 second")
while query.progress.batch < 1:
    query.query.awaitTermination(1)
query.stop()
ids = spark.range(10).selectExpr("id", "timestamp_seconds(id) AS at")
mt.windowed(ids, key="id", time="at").tumbling("1 second").agg(n=mt.count()).results.show(1)
spark._jvm.java.lang.System.err.println("a line of the JVM's own")
print("a line of Python's", file=sys.stderr)
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.parametrize("verbose", [False, True])
def test_a_query_is_quiet_unless_asked(tmp_path: Path, verbose: bool) -> None:
    script = QUERY.format(options={"verbose": verbose}, folder=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert ("Streaming TransformWithStateInPandas" in done.stderr) is verbose
    assert "BrokenPipeError" not in done.stderr  # the first row was enough
    for line in ("a line of the JVM's own", "a line of Python's"):
        assert line in done.stderr
