"""Lists the executors of a session, and the attempts at the tasks of a job with their executors."""

from __future__ import annotations

import logging
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
from muntin.spark.host.internals.plans import iterate_sequence

_LOG = logging.getLogger(__name__)
_DRIVER = "driver"
# Longest time to wait until Spark has recorded how tasks ended.
_SETTLE_MILLISECONDS = 5000
_MAX_TASKS = 100_000
# After this time without a new executor, all are assumed to have joined: a share of the time that
# the newest one took to start, seconds between these bounds.
_QUIET_SHARE, _LEAST_QUIET, _MOST_QUIET = 0.5, 1.0, 10.0
# The longest time to wait for all, seconds.
_PATIENCE = 40.0
# Time without any executor after which a warning is logged, seconds.
_WARNS = 15.0


@dataclass(frozen=True)
class Executor:
    """An executor.

    Attributes:
        name: Its number in the session, as Spark writes it.
        cores: The number of tasks that it runs at a time.
        joined: The time at which it joined the session, seconds since 1970.
    """

    name: str
    host: str
    cores: int
    joined: float


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


def list_executors(spark: SparkSession) -> list[Executor]:
    """Return the current executors of a session; none if the driver runs all tasks itself."""
    store = spark.sparkContext._jsc.sc().statusStore()
    return [
        Executor(
            str(one.id()),
            str(one.hostPort()).rpartition(":")[0],
            int(one.totalCores()),
            int(one.addTime().getTime()) / 1000,
        )
        for one in iterate_sequence(store.executorList(True))
        if str(one.id()) != _DRIVER
    ]


def await_executors(spark: SparkSession) -> list[Executor]:
    """Wait until there is an executor, and warn if the cluster has no free one."""
    begun, warned = time.monotonic(), False
    while not (alive := list_executors(spark)):
        if not warned and time.monotonic() - begun > _WARNS:
            warned = True
            _LOG.warning(
                "master=%r has given no executor for %d s. Look there whether workers are up "
                "and have cores and memory left", spark.sparkContext.master, _WARNS,
            )  # fmt: skip
        time.sleep(0.05)
    return alive


def await_cores(spark: SparkSession) -> int:
    """Wait until executors have joined, and no more do; return their cores together.

    Executors of a loaded cluster start slowly, and seconds apart.
    """
    session_start = int(spark.sparkContext.startTime) / 1000
    alive, begun = await_executors(spark), time.monotonic()
    while time.monotonic() - begun < _PATIENCE:
        newest = max(executor.joined for executor in alive)
        quiet = min(max((newest - session_start) * _QUIET_SHARE, _LEAST_QUIET), _MOST_QUIET)
        if time.time() - newest >= quiet:
            break
        time.sleep(0.05)
        alive = await_executors(spark)
    return sum(executor.cores for executor in alive)


def run_observed(
    spark: SparkSession, job: Callable[[], Any]
) -> tuple[Any, Exception | None, list[Attempt]]:
    """Run a job; return its result, its error if it failed, and the attempts at its tasks.

    The job runs in a thread of its own, so that Spark doesn't attribute it to the calling query.
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
    return returned[0], error[0] if error else None, [*_list_attempts(spark, group)]


def _list_attempts(spark: SparkSession, group: str) -> Iterator[Attempt]:
    scala = spark.sparkContext._jsc.sc()
    with suppress(JvmError):  # after the time limit, use what is recorded by then
        scala.listenerBus().waitUntilEmpty(_SETTLE_MILLISECONDS)
    tracker, store = scala.statusTracker(), scala.statusStore()
    for job in tracker.getJobIdsForGroup(group):
        for stage in tracker.getJobInfo(job).get().stageIds():
            for number in range(int(store.lastStageAttempt(stage).attemptId()) + 1):
                for task in iterate_sequence(store.taskList(stage, number, _MAX_TASKS)):
                    message = task.errorMessage()
                    error = str(message.get()) if message.isDefined() else None
                    name, host = str(task.executorId()), str(task.host())
                    yield Attempt(int(task.taskId()), name, host, error)
