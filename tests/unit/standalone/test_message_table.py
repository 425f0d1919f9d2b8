"""Tests that a table of messages deletes exactly the oldest, and restarts from its last flush."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin import stores
from muntin.model.errors import OptionError, SpecChangedError
from muntin.standalone import MessageTable

SECOND = 1_000_000


def make_rows(*times: int, first: int = 0) -> pl.DataFrame:
    """Return messages of these times, numbered."""
    return pl.DataFrame({"at": times, "n": range(first, first + len(times))})


def make_table(*times: int, **options: Any) -> MessageTable:
    table = MessageTable(stores.memory(), time="at", **options)
    table.add_messages(make_rows(*times))
    return table


class Oracle:
    """A table of messages as a list."""

    def __init__(self, retention: int | None, most: int | None) -> None:
        self.retention, self.most = retention, most
        self.rows: list[tuple[int, int]] = []
        self.observed = self.floor = -1
        self.expired = 0

    def add(self, rows: list[tuple[int, int]]) -> None:
        self.observed = max([self.observed, *(at for at, _ in rows)])
        taken = [row for row in rows if row[0] >= self.floor]
        self.expired += len(rows) - len(taken)
        self.rows = sorted(self.rows + taken, key=lambda row: row[0])

    def backlog(self) -> int:
        surplus = len(self.rows) - (len(self.rows) if self.most is None else self.most)
        if self.retention is not None:
            old = [at for at, _ in self.rows if at <= self.observed - self.retention]
            surplus = max(surplus, len(old))
        return max(surplus, 0)

    def delete(self, count: int) -> None:
        if count:
            self.floor = self.rows[count - 1][0]
        self.rows = self.rows[count:]


BATCH = st.lists(st.integers(0, 60), max_size=12)
ACTIONS = st.lists(st.tuples(BATCH, st.none() | st.integers(1, 6), st.booleans()), max_size=8)


@given(
    actions=ACTIONS,
    retention=st.none() | st.integers(1, 30),
    most=st.none() | st.integers(1, 20),
)
def test_it_behaves_as_a_list(
    actions: list[tuple[list[int], int | None, bool]], retention: int | None, most: int | None
) -> None:
    image, oracle, number = stores.Image(), Oracle(retention, most), 0
    options: dict[str, Any] = {
        "time": "at",
        "most_rows": most,
        "segment": timedelta(microseconds=7),
    }
    if retention is not None:
        options["retention"] = timedelta(microseconds=retention)
    table = MessageTable(stores.memory(image), **options)
    for times, limit, reopens in actions:
        frame = make_rows(*times, first=number).cast({"at": pl.Int64})
        number += len(times)
        table.add_messages(frame)
        oracle.add(frame.rows())
        assert table.backlog == oracle.backlog()
        count = min(oracle.backlog(), limit or number)
        assert table.retire(limit) == count
        oracle.delete(count)
        assert table.get_messages().rows() == oracle.rows
        assert table.get_messages(20, 40).rows() == [r for r in oracle.rows if 20 <= r[0] <= 40]
        assert table.rows == len(oracle.rows)
        assert table.oldest == min((at for at, _ in oracle.rows), default=None)
        assert table.counts["expired"] == oracle.expired
        assert table.counts["added"] == table.counts["deleted"] + table.rows
        if reopens:
            table.flush()
            table = MessageTable(stores.memory(image), **options)


def test_messages_of_one_time_leave_in_the_order_of_their_arrival() -> None:
    table = make_table(5, 5, 5, most_rows=1)
    assert table.retire(1) == 1
    table.add_messages(make_rows(5, 5, first=3))
    assert table.get_messages()["n"].to_list() == [1, 2, 3, 4]
    assert table.retire() == 3
    assert table.get_messages()["n"].to_list() == [4]


def test_many_small_batches_are_merged_in_the_order_of_their_arrival() -> None:
    store = stores.memory()
    table = MessageTable(store, time="at", most_rows=30)
    for number in range(50):
        table.add_messages(make_rows(number % 5, number % 3, first=2 * number))
    table.flush()
    blobs = [row for row in store.snapshot().scan() if b"messages.runs" in row[0]]
    assert 0 < len(blobs) < 20
    arrived = [(at, 2 * n + i) for n in range(50) for i, at in enumerate((n % 5, n % 3))]
    expected = sorted(arrived, key=lambda row: row[0])
    assert table.get_messages().rows() == expected
    assert table.retire() == 70
    assert table.get_messages().rows() == expected[70:]


def test_messages_age_though_none_come() -> None:
    table = make_table(SECOND, 2 * SECOND, retention="1 minute")
    assert table.retire() == 0
    table.advance(datetime(1970, 1, 1, 0, 1, 1, tzinfo=UTC))
    assert (table.backlog, table.retire(), table.oldest) == (1, 1, 2 * SECOND)
    table.advance(0)
    assert table.observed == 61 * SECOND


def test_a_message_older_than_a_deleted_one_is_counted() -> None:
    table = make_table(1, 2, 3, 4, most_rows=2)
    table.retire()
    assert table.add_messages(make_rows(1, 2, 5)) == 2
    assert table.counts == {"added": 6, "deleted": 2, "expired": 1}
    assert table.get_messages()["at"].to_list() == [2, 3, 4, 5]


def test_rows_are_deleted_through_a_time_whatever_the_limits_are() -> None:
    table = make_table(1, 2, 3, 4)
    assert (table.backlog, table.count_through(3)) == (0, 3)
    assert (table.retire(2, through=3), table.retire(through=3)) == (2, 1)
    assert table.get_messages()["at"].to_list() == [4]


def test_it_is_as_of_the_last_flush(tmp_path: Path) -> None:
    first, second = (make_rows(n * SECOND, n * SECOND + 5) for n in (1, 2))
    with stores.rocks(tmp_path / "rows") as store:
        table = MessageTable(store, time="at", most_rows=3)
        other = MessageTable(store, time="at", name="other")
        table.add_messages(first)
        other.add_messages(second)
        table.flush({"offset": 7})
        table.add_messages(second)
        table.retire()
    with stores.rocks(tmp_path / "rows") as store:
        table = MessageTable(store, time="at", most_rows=3)
        assert (store.marks, table.get_messages().rows()) == ({"offset": 7}, first.rows())
        assert MessageTable(store, time="at", name="other").get_messages().equals(second)
        table.add_messages(second)
        assert (table.retire(), table.oldest) == (1, SECOND + 5)


def test_any_table_and_any_times_will_do() -> None:
    at = datetime(2026, 1, 1, 9, tzinfo=UTC)
    frame = pl.DataFrame({"at": [at, at + timedelta(seconds=2)], "n": [1, 2]})
    for batch in (frame, frame.to_pandas(), pa.table(frame.to_arrow())):
        table = MessageTable(stores.memory(), time="at")
        assert table.add_messages(batch) == 2
        assert table.get_messages(start="2026-01-01T09:00:01Z")["n"].to_list() == [2]


def test_what_cannot_be_stored() -> None:
    table = make_table(1, 2)
    refused: list[tuple[Any, str]] = [
        ([1, 2], "batch=.* isn't a table"),
        (pl.DataFrame({"n": [1]}), "time='at' isn't a column"),
        (pl.DataFrame({"at": [1]}), "differs from those before; give at Int64, n Int64"),
        (pl.DataFrame({"at": [1, None], "n": [1, 2]}), "is missing in 1 messages; leave these"),
    ]
    for batch, problem in refused:
        with pytest.raises(OptionError, match=problem):
            table.add_messages(batch)
    assert (table.rows, table.counts["added"]) == (2, 2)
    fresh = MessageTable(stores.memory(), time="at")
    with pytest.raises(OptionError, match="has type String; give datetimes or whole"):
        fresh.add_messages(pl.DataFrame({"at": ["soon"]}))
    assert fresh.add_messages(make_rows(1)) == 1


def test_options_that_cannot_work() -> None:
    for options in ({"most_rows": 0}, {"retention": "0 s"}, {"segment": "0 s"}):
        with pytest.raises(OptionError, match=next(iter(options))):
            make_table(**options)
    table = make_table(1)
    with pytest.raises(OptionError, match="limit=0"):
        table.retire(0)
    for call in (table.advance, table.get_messages, table.count_through):
        with pytest.raises(OptionError, match="isn't a time; give microseconds"):
            call("soon")


def test_another_segment_is_refused() -> None:
    image = stores.Image()
    table = MessageTable(stores.memory(image), time="at")
    table.add_messages(make_rows(1))
    table.flush()
    longer = MessageTable(stores.memory(image), time="at", retention="1 day")
    assert longer.get_messages().equals(make_rows(1))
    with pytest.raises(SpecChangedError, match="written with segment=1000000, not 2000000: give"):
        MessageTable(stores.memory(image), time="at", segment="2 seconds")
    with pytest.raises(SpecChangedError, match="written with time='at', not 'n'"):
        MessageTable(stores.memory(image), time="n")
