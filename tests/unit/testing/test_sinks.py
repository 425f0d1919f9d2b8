"""What a sink of one's own is held against finds each way of getting it wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muntin.testing import SinkBatch, check_sink

Rows = dict[Any, dict[str, Any]]


def right(kept: Rows, row: dict[str, Any], window: Any) -> None:
    if row["revision"] >= kept.get(window, row)["revision"]:
        kept.pop(window, None)
        if row["emission"] != "retract":
            kept[window] = row


def any_order(kept: Rows, row: dict[str, Any], window: Any) -> None:
    kept.pop(window, None)
    if row["emission"] != "retract":
        kept[window] = row


def appends(kept: Rows, row: dict[str, Any], window: Any) -> None:
    kept[len(kept)] = row


def null_is_no_key(kept: Rows, row: dict[str, Any], window: Any) -> None:
    right(kept, row, window if row["key"] is not None else (None, len(kept)))


def holds(way: Callable[[Rows, dict[str, Any], Any], None]) -> None:
    kept: Rows = {}

    class Sink:
        def write(self, batch: SinkBatch) -> None:
            for row in batch.table().to_pylist():
                way(kept, row, (row["key"], row["window_start"]))

    check_sink(Sink, kept.values)


def test_a_right_one_passes() -> None:
    holds(right)


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (any_order, "after an older version"),
        (appends, "after a batch of new windows, and the same batch again after a crash"),
        (null_is_no_key, "again after a crash, the table holds"),
    ],
)
def test_others_are_named(way: Any, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        holds(way)


def test_what_cant_be_taken_is_given_back() -> None:
    batch = SinkBatch(0, [("a", 0, 1, 0)])
    batch.unwritable.add(batch.table(), "a table", ["too long"])
    assert batch.unwritable.reasons == ["too long"]
    assert (batch.identity, batch.empty) == (("key", "window_start", "window_end"), False)
    assert SinkBatch(1, [], keys=None).identity is None
