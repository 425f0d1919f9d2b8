"""What is refused on a Spark whose sources in Python can't bound a batch."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.sql import SparkSession

import muntin as mt
from muntin.apps.windowing import query
from muntin.apps.windowing.options import Options
from muntin.model.errors import OptionError
from muntin.spark.sources import kafka


def topic(**options: Any) -> Any:
    """A topic that nobody reads."""
    return mt.kafka("localhost:9092", "orders", columns="id long", **options)


def test_topics_are_the_connectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "BOUNDS_BATCHES", False)
    assert not topic().in_columns()
    with pytest.raises(OptionError, match=r"reader='columns' needs Spark 4\.2; leave it out"):
        topic(reader="columns").in_columns()


def test_random_tuples_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "BOUNDS_BATCHES", False)
    with pytest.raises(OptionError, match=r"source='random' needs Spark 4\.2; give another"):
        query._read_due_ranges(Mock(spec=SparkSession), Options())
