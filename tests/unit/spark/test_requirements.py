"""Tests that a Python without Spark, or with another version, is told what to install."""

from __future__ import annotations

import pytest
from pyspark import version

import muntin as mt
from muntin.spark import requirements
from muntin.spark.requirements import check_spark


@pytest.mark.parametrize("missing", ["pyspark", "pandas", "google.protobuf"])
def test_what_is_missing_is_an_extra(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setattr(requirements, "find_spec", lambda name: name != missing or None)
    with pytest.raises(
        mt.MissingExtraError, match=r"query on Spark.* pip install 'muntin\[spark\]'"
    ):
        check_spark()


@pytest.mark.parametrize("installed", ["3.5.7", "4.0.1", "5.0.0", "16.4.2"])
def test_another_spark_is_refused(monkeypatch: pytest.MonkeyPatch, installed: str) -> None:
    monkeypatch.setattr(version, "__version__", installed)
    with pytest.raises(
        mt.SettingError, match=f"Spark {installed} is installed, but muntin needs Spark 4.1"
    ):
        check_spark()


@pytest.mark.parametrize("installed", ["4.1.4", "4.2.0.dev1", "4.3.0", "4.9.0"])
def test_a_spark_of_the_platform_is_taken(monkeypatch: pytest.MonkeyPatch, installed: str) -> None:
    monkeypatch.setattr(version, "__version__", installed)
    check_spark()
