"""Fixtures and settings of all tests: the Spark session, and the effort of property tests.

Tests may be distributed over processes, each with a Spark session of its own. The files of tests
that use a session run first, since they take longest, and each file stays in one process.

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
from tests.services.machine import QUICK, archive_options
from xdist.scheduler import LoadScopeScheduling

__all__ = ["broker", "connect", "kafka", "postgres", "spark"]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

settings.register_profile(
    "quick", max_examples=12, deadline=None, derandomize=True, suppress_health_check=_SLOW
)
settings.register_profile("thorough", max_examples=3000, deadline=None, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# Spark's scripts hand this to the JVM of each session, also in programs that tests start.
os.environ["SPARK_SUBMIT_OPTS"] = f"{QUICK} {archive_options()}".rstrip()
os.environ["SPARK_LAUNCHER_OPTS"] = QUICK


ON_SPARK = (
    "tests/spark/",
    "tests/chaos/",
    "tests/cluster/",
    "tests/docs/test_fences.py",
    "tests/migration/test_checkpoints.py",
)


def scope(nodeid: str) -> str:
    """Return the group of a test that one process runs: its file with Spark, else it alone."""
    return nodeid.split("::")[0] if nodeid.startswith(ON_SPARK) else nodeid


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.nodeid.startswith(ON_SPARK):
        item.add_marker(pytest.mark.spark)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)


class FilesOfSpark(LoadScopeScheduling):
    """Assigns each file of tests with Spark, and each other test, to any idle process."""

    def _split_scope(self, nodeid: str) -> str:
        return scope(nodeid)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget a finished group, since xdist counts all groups assigned to a process again."""
        super().mark_test_complete(node, item_index, duration)
        groups = self.assigned_work[node]
        group = scope(self.registered_collections[node][item_index])
        if all(groups[group].values()):
            del groups[group]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesOfSpark:
    return FilesOfSpark(config, log)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [report for kind in terminalreporter.stats.values() for report in kind]
    phases = [(report.nodeid, report.duration) for report in reports if hasattr(report, "duration")]
    for line in format_durations(phases):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The Spark session of this process, created for the first test that needs it."""
    import muntin as mt

    jars = ",".join(map(str, [*delta_jars(), *iceberg_jars()]))
    session = mt.session(
        "muntin-tests",
        master="local[2]",
        # The default of 1 GB isn't enough for the texts of 50 MB that some tests send.
        spark__driver__memory="3g",
        # By default, a query that waits lists the files of its sources a hundred times a second.
        spark__sql__streaming__pollingDelay="50ms",
        **({"spark__jars": jars} if jars else {}),
        **delta_settings(),
    )
    yield session
    session.stop()
