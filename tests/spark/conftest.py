"""One Spark session for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import muntin as mt


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = mt.session("muntin-tests", master="local[2]")
    yield session
    session.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/spark" in str(item.path):
            item.add_marker(pytest.mark.spark)
