"""Tests that a source of several inputs of a query is planned and read once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import muntin as mt
from muntin.hosts.local.derived import DerivedSource, RowSelectList
from muntin.hosts.local.shared_reader import SharedReader, open_readers
from muntin.sources.files import FileReader
from muntin.sources.source import Planned, Source, SourceReader

SELF_JOIN = """
    WITH doubled AS (SELECT page, value * 2 AS value, at FROM clicks),
    counts AS (
        SELECT page, window_start, window_end, count(*) AS n
        FROM TABLE(TUMBLE(TABLE doubled, DESCRIPTOR(at), INTERVAL '1' MINUTE))
        GROUP BY page, window_start, window_end
    ),
    sums AS (
        SELECT page, window_start, window_end, sum(value) AS total
        FROM TABLE(TUMBLE(TABLE doubled, DESCRIPTOR(at), INTERVAL '1' MINUTE))
        GROUP BY page, window_start, window_end
    )
    SELECT counts.page, counts.n, sums.total FROM counts JOIN sums
    ON counts.page = sums.page AND counts.window_start = sums.window_start
    AND counts.window_end = sums.window_end
"""


class Numbers(Source):
    """The numbers from 0, two at each plan; all calls are recorded."""

    schema = pl.Schema({"n": pl.Int64})

    def __init__(self) -> None:
        self.calls: list[str] = []

    def open(self) -> SourceReader:
        self.calls.append("open")
        return NumbersReader(self.calls)


class NumbersReader(SourceReader):
    def __init__(self, calls: list[str]) -> None:
        self.calls = calls

    def plan(self, start: Any, limit: int | None) -> Planned:
        self.calls.append("plan")
        return Planned({"n": (start or {"n": 0})["n"] + 2}, has_new=True)

    def read(self, start: Any, end: Any) -> Iterator[pl.DataFrame]:
        self.calls.append("read")
        for n in range((start or {"n": 0})["n"], end["n"]):
            yield pl.DataFrame({"n": [n]})

    def close(self) -> None:
        self.calls.append("close")


def read_all(reader: SourceReader, start: Any, end: Any) -> list[int]:
    return [n for frame in reader.read(start, end) for n in frame["n"]]


def test_users_at_the_same_offsets_share_plans_and_reads() -> None:
    source = Numbers()
    odd = RowSelectList.of(source.schema, None, "n % 2 = 1")
    plain, derived = open_readers([source, DerivedSource(source, odd)])
    assert source.calls == ["open"]
    start: Any = None
    for batch in range(3):
        source.calls.clear()
        ends = [reader.plan(start, None).end for reader in (plain, derived)]
        assert ends[0] == ends[1]
        assert read_all(plain, start, ends[0]) == [2 * batch, 2 * batch + 1]
        assert read_all(derived, start, ends[0]) == [2 * batch + 1]
        assert source.calls == ["plan", "read"]
        start = ends[0]


def test_users_at_other_offsets_read_for_themselves() -> None:
    """Inputs have other offsets in checkpoints from before they shared a reader."""
    source = Numbers()
    reader = SharedReader(source.open(), 2)
    ends = [reader.plan(start, None).end for start in (None, {"n": 2}, None, {"n": 2})]
    assert ends == [{"n": 2}, {"n": 4}, {"n": 2}, {"n": 4}]
    assert read_all(reader, None, {"n": 2}) == [0, 1]
    assert read_all(reader, {"n": 2}, {"n": 4}) == [2, 3]
    assert source.calls.count("plan") == 4


def test_an_abandoned_read_is_not_shared() -> None:
    reader = SharedReader(Numbers().open(), 2)
    next(iter(reader.read(None, {"n": 2})))
    assert read_all(reader, None, {"n": 2}) == read_all(reader, None, {"n": 2}) == [0, 1]


def test_open_readers_are_closed_when_another_source_fails() -> None:
    class FailingSource(Numbers):
        def open(self) -> SourceReader:
            raise mt.SourceError("it is away")

    source = Numbers()
    with pytest.raises(mt.SourceError, match="away"):
        open_readers([source, FailingSource()])
    assert source.calls == ["open", "close"]


@pytest.mark.parametrize("is_declared", [False, True])
def test_a_view_that_is_used_twice_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_declared: bool
) -> None:
    rows = {"page": ["a", "a", "b"], "value": [1, 2, 3], "at": ["2026-01-01T00:00:01Z"] * 3}
    frame = pl.DataFrame(rows).with_columns(pl.col("at").str.to_datetime(time_zone="UTC"))
    frame.write_parquet(tmp_path / "1.parquet")
    last_row = frame.head(1).with_columns(pl.col("at") + pl.duration(hours=1))
    last_row.write_parquet(tmp_path / "2.parquet")
    read_files, reads = FileReader.read, []

    def count(self: FileReader, start: Any, end: Any) -> Iterator[pl.DataFrame]:
        reads.append([Path(path).name for path, _ in end["batch"]])
        return read_files(self, start, end)

    monkeypatch.setattr(FileReader, "read", count)
    path = f"{tmp_path}/*.parquet"
    if is_declared:
        table = f"CREATE TABLE clicks WITH (connector = 'parquet', path = '{path}');"
        query = mt.sql(None, table + SELF_JOIN)
    else:
        query = mt.sql(None, SELF_JOIN, clicks=mt.files(path))
    running = query.start(checkpoint=None, available_now=True)
    assert running.await_end(60)
    assert reads == [["1.parquet", "2.parquet"]]
    results = running.frame().select("page", "n", "total")
    assert sorted(results.rows()) == [("a", 2, 6), ("b", 1, 6)]
