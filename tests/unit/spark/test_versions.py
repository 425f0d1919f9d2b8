"""Tests of refusals on a Spark whose sources in Python can't bound a batch."""

from __future__ import annotations

from typing import Any

import pytest

import muntin as mt
from muntin.model.errors import OptionError
from muntin.spark.sources import kafka


def describe_topic(**options: Any) -> Any:
    """Describe a topic that isn't read."""
    return mt.kafka("localhost:9092", "orders", columns="id long", **options)


def test_topics_are_the_connectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "BOUNDS_BATCHES", False)
    assert not describe_topic().in_columns()
    with pytest.raises(OptionError, match=r"reader='columns' needs Spark 4\.2; leave it out"):
        describe_topic(reader="columns").in_columns()
