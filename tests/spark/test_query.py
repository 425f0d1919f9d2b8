"""Figures of a query that runs."""

from __future__ import annotations

import pytest

from muntin.spark.query import Figures


@pytest.mark.parametrize(
    ("counts", "adds_up"),
    [
        ({}, True),
        ({"seen": 7, "counted": 3, "filtered": 1, "duplicates": 1, "late": 2}, True),
        ({"seen": 7, "counted": 3, "late": 3}, False),
        ({"seen": 7, "counted": 3, "late": 5}, False),
        ({"seen": 7, "taken": 5, "malformed": 2}, True),
        # A table refused two of those that were taken, and another table one of them as well.
        ({"seen": 7, "taken": 5, "malformed": 2, "late": 3}, True),
        ({"seen": 7, "taken": 5, "late": 1}, False),
    ],
    ids=str,
)
def test_every_message_is_accounted_for(counts: dict[str, int], adds_up: bool) -> None:
    assert Figures(counts=counts).adds_up() is adds_up
    assert Figures(join=Figures(counts=counts)).adds_up() is adds_up
