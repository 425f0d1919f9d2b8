"""Lists the executors of a session, and finds out which of them ran the tasks of a job."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from muntin.spark.host.internals.jvm import JvmError

_DRIVER = "driver"
# Longest time to wait until Spark has recorded the outcome of tasks, milliseconds.
_SETTLES = 5000
_TASKS = 100_000
# Time without a new executor after which all are taken to have joined, seconds.
_QUIET = 1.0


@dataclass(frozen=True)
class Executor:
    """An executor.

    Attributes:
        name: Its number in the session, as Spark writes it.
        cores: The number of tasks that it runs at a time.
    """

    name: str
    host: str
    cores: int


@dataclass(frozen=True)
class Attempt:
    """An attempt at a task.

    Attributes:
        task: Its number in the session.
        executor: The name of the executor that ran it.
        error: The error that it ended with, if it failed.
    """

    task: int
    executor: str
    host: str
    error: str | None


def executors_of(spark: SparkSession) -> list[Executor]:
    """Return the executors that a session has now; none where the driver runs all tasks."""
    store = spark.sparkContext._jsc.sc().statusStore()
    return [
        Executor(str(one.id()), str(one.hostPort()).rpartition(":")[0], int(one.totalCores()))
        for one in _each(store.executorList(True))
        if str(one.id()) != _DRIVER
    ]


def await_cores(spark: SparkSession, patience: float = 15.0) -> int | None:
    """Wait until no more executors join, and return the cores of all, ``None`` if none joins.

    ``patience`` is how long to wait for the first one, seconds.
    """
    begun = settled = time.monotonic()
    cores = 0
    while time.monotonic() - (settled if cores else begun) < (_QUIET if cores else patience):
        now = sum(executor.cores for executor in executors_of(spark))
        if now != cores:
            cores, settled = now, time.monotonic()
        time.sleep(0.05)
    return cores or None


def run_observed(
    spark: SparkSession, job: Callable[[], Any]
) -> tuple[Any, Exception | None, list[Attempt]]:
    """Run a job; return its result or error, and the attempts at its tasks.

    It runs in a thread of its own, so that Spark doesn't attribute it to the waiting query.
    """
    context, group = spark.sparkContext, f"muntin-{uuid.uuid4().hex}"
    returned: list[Any] = [None]
    error: list[Exception] = []

    def run() -> None:
        context.setJobGroup(group, "muntin asks the executors")
        try:
            returned[0] = job()
        except (PySparkException, JvmError) as raised:
            error.append(raised)

    thread = threading.Thread(target=run, daemon=True, name="muntin-asks-executors")
    thread.start()
    thread.join()
    return returned[0], error[0] if error else None, [*_attempts(spark, group)]


def _attempts(spark: SparkSession, group: str) -> Iterator[Attempt]:
    scala = spark.sparkContext._jsc.sc()
    with suppress(JvmError):  # after the time limit, use what is recorded by then
        scala.listenerBus().waitUntilEmpty(_SETTLES)
    tracker, store = scala.statusTracker(), scala.statusStore()
    for job in tracker.getJobIdsForGroup(group):
        for stage in tracker.getJobInfo(job).get().stageIds():
            for number in range(int(store.lastStageAttempt(stage).attemptId()) + 1):
                for task in _each(store.taskList(stage, number, _TASKS)):
                    message = task.errorMessage()
                    error = str(message.get()) if message.isDefined() else None
                    name, host = str(task.executorId()), str(task.host())
                    yield Attempt(int(task.taskId()), name, host, error)


def _each(listed: Any) -> Iterator[Any]:
    return (listed.apply(i) for i in range(listed.size()))
