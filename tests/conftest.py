"""Fixtures and settings of all tests: the Spark session, and the effort of property tests.

Tests may be distributed over processes. Those that use the Spark session stay together in one
process, since a machine has room for one session only, and run first, since they take longest.
Tests that start programs of their own, and mostly wait for them, fill the other processes
meanwhile.

Every run tries the same few examples; ``HYPOTHESIS_PROFILE=thorough`` searches among many more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from tests.durations import format_durations
from tests.services.delta import delta_jars, delta_settings
from tests.services.fixtures import broker, connect, kafka, postgres
from tests.services.iceberg import iceberg_jars
from xdist.scheduler import LoadScopeScheduling

__all__ = ["broker", "connect", "kafka", "postgres", "spark"]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile(
    "quick", max_examples=20, deadline=None, derandomize=True, suppress_health_check=_SLOW
)
settings.register_profile("thorough", max_examples=3000, deadline=None, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


ON_SPARK = (
    "tests/spark/",
    "tests/chaos/",
    "tests/cluster/",
    "tests/docs/test_fences.py",
    "tests/migration/test_checkpoints.py",
)

# The folders and files among these whose Spark runs in programs of their own.
IN_PROGRAMS = (
    "tests/chaos/test_faults.py",
    "tests/cluster/",
    "tests/spark/test_connect.py",
    "tests/spark/test_data_sources.py",
    "tests/spark/test_health.py",
    "tests/spark/test_interrupts.py",
    "tests/spark/test_kill.py",
    "tests/spark/test_s3.py",
    "tests/spark/test_stderr_filter.py",
    "tests/spark/test_warm.py",
)


def scope(nodeid: str) -> str:
    """Return the group of a test: the session's tests, a file with programs, or the test alone."""
    if nodeid.startswith(IN_PROGRAMS):
        return nodeid.split("::")[0]
    return "spark" if nodeid.startswith(ON_SPARK) else nodeid


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.nodeid.startswith(ON_SPARK):
        item.add_marker(pytest.mark.spark)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def turn(item: pytest.Item) -> int:
        if scope(item.nodeid) == "spark":
            return 0
        return 1 if item.get_closest_marker("spark") else 2

    items.sort(key=turn)


class OneSession(LoadScopeScheduling):
    """Assigns the tests of the session to one process, and the others to any idle process."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSession:
    return OneSession(config, log)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [one for kind in terminalreporter.stats.values() for one in kind]
    phases = [(one.nodeid, one.duration) for one in reports if hasattr(one, "duration")]
    for line in format_durations(phases):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The only Spark session of a run, created for the first test that needs it."""
    import muntin as mt

    # A run is too short for the JVM's second compiler to pay off: without it, tests take half the
    # time. The options replace those of a local session, which collects garbage in one thread.
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    jars = ",".join(map(str, [*delta_jars(), *iceberg_jars()]))
    session = mt.session(
        "muntin-tests",
        master="local[2]",
        spark__driver__extraJavaOptions=quick,
        # The default of 1 GB isn't enough for the texts of 50 MB that some tests send.
        spark__driver__memory="3g",
        **({"spark__jars": jars} if jars else {}),
        **delta_settings(),
    )
    yield session
    session.stop()
