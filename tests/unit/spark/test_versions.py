"""What is refused on a Spark whose sources in Python can't bound a batch."""

from __future__ import annotations

from typing import Any

import pytest

import muntin as mt
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
