"""The folder of unwritable rows in a query's checkpoint, without a session of Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from muntin.sinks.unwritable import UnwritableRows
from muntin.spark.writing import DeadLetters


def test_a_batch_without_unwritable_rows_asks_nothing_of_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_for = []
    monkeypatch.setattr(
        "muntin.spark.writing.path_exists", lambda _, path: bool(looked_for.append(path))
    )
    spark: Any = None  # every use of it raises
    letters = DeadLetters("/checkpoints/orders/")
    for number in (7, 8):
        batches: Any = [
            SimpleNamespace(number=number, unwritable=UnwritableRows(kind))
            for kind in ("results", "rejected")
        ]
        assert letters.keep(spark, batches) == 0
    assert looked_for == ["/checkpoints/orders/unwritable/batch=7"]
