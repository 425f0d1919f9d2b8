"""Tests that ``check_sink`` detects each kind of wrong sink."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muntin.testing import SinkBatch, check_sink

Rows = dict[Any, dict[str, Any]]


def write_correctly(table: Rows, row: dict[str, Any], window: Any) -> None:
    if row["revision"] >= table.get(window, row)["revision"]:
        table.pop(window, None)
        if row["emission"] != "retract":
            table[window] = row


def ignore_revisions(table: Rows, row: dict[str, Any], window: Any) -> None:
    table.pop(window, None)
    if row["emission"] != "retract":
        table[window] = row


def append_always(table: Rows, row: dict[str, Any], window: Any) -> None:
    table[len(table)] = row


def duplicate_null_keys(table: Rows, row: dict[str, Any], window: Any) -> None:
    write_correctly(table, row, window if row["key"] is not None else (None, len(table)))


def check_writer(write_row: Callable[[Rows, dict[str, Any], Any], None]) -> None:
    table: Rows = {}

    class Sink:
        def write(self, batch: SinkBatch) -> None:
            for row in batch.table().to_pylist():
                write_row(table, row, (row["key"], row["window_start"]))

    check_sink(Sink, table.values)


def test_a_correct_sink_passes() -> None:
    check_writer(write_correctly)


@pytest.mark.parametrize(
    ("write_row", "problem"),
    [
        (ignore_revisions, "after an older version"),
        (append_always, "after a batch of new windows, and the same batch again after a crash"),
        (duplicate_null_keys, "again after a crash, the table holds"),
    ],
)
def test_wrong_sinks_are_named(write_row: Any, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        check_writer(write_row)


def test_unwritable_rows_are_reported() -> None:
    batch = SinkBatch(0, [("a", 0, 1, 0)])
    batch.unwritable.add(batch.table(), "a table", ["too long"])
    assert batch.unwritable.reasons == ["too long"]
    assert (batch.identity, batch.empty) == (("key", "window_start", "window_end"), False)
    assert SinkBatch(1, [], keys=None).identity is None
