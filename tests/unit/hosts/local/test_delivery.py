"""Tests of local queries that write to the sinks of muntin."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import muntin as mt
from muntin import OptionError
from muntin.hosts.local.definition import LocalWindowedAggregate

_START = datetime(2026, 1, 1, tzinfo=UTC)


def _build_query() -> LocalWindowedAggregate:
    at = [_START + timedelta(seconds=second) for second in range(40)]
    frame = pl.DataFrame({"k": ["a", "b"] * 20, "at": at})
    windows = mt.windowed(frame, key="k", time="at").tumbling("10 seconds")
    return windows.early(each=True).agg(n=mt.count())


def test_parquet_has_every_row(tmp_path: Path) -> None:
    query = _build_query().start(
        checkpoint=tmp_path / "checkpoint",
        results=mt.to_parquet(tmp_path / "results"),
        rejected=mt.to_parquet(tmp_path / "rejected"),
    )
    assert query.await_end(60)
    rows = pl.read_parquet(tmp_path / "results")
    assert rows.filter(emission="full").select("k", "n").sum()["n"].item() == 40
    assert rows["batch"].unique().to_list() == [0]
    assert len(pl.read_parquet(tmp_path / "rejected")) == 0


def test_a_parquet_folder_belongs_to_one_query(tmp_path: Path) -> None:
    folder = tmp_path / "results"

    def run(checkpoint: str, sink: Any = None) -> bool:
        results = sink or mt.to_parquet(folder)
        query = _build_query().start(checkpoint=tmp_path / checkpoint, results=results)
        return query.await_end(60)

    one = mt.to_parquet(folder)
    assert run("one", one)
    rows = pl.read_parquet(folder)
    with pytest.raises(mt.SinkError, match=r"has the rows of another query .* Give each query a"):
        run("other")
    with pytest.raises(mt.SinkError, match="has the rows of another query"):
        run("another", one)
    assert pl.read_parquet(folder).equals(rows)
    # The same query may write there again, and another one when the folder is removed.
    assert run("one")
    shutil.rmtree(folder)
    assert run("third")


def test_a_query_without_a_checkpoint_replaces_the_batches_of_its_earlier_runs(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "results"

    def run(checkpoint: Path | None) -> bool:
        sink = mt.to_parquet(folder)
        return _build_query().start(checkpoint=checkpoint, results=sink).await_end(60)

    assert run(None)
    rows = pl.read_parquet(folder)
    assert run(None)
    assert pl.read_parquet(folder).equals(rows)
    assert run(tmp_path / "checkpoint")
    with pytest.raises(mt.SinkError, match="has the rows of another query"):
        run(None)


def test_duckdb_has_the_newest_revision_of_each_window(tmp_path: Path) -> None:
    path = str(tmp_path / "results.duckdb")
    results = mt.to_duckdb(path, "views")
    assert _build_query().start(checkpoint=tmp_path / "c", results=results).await_end(60)
    with duckdb.connect(path) as database:
        rows = database.sql("SELECT k, n, emission FROM views ORDER BY window_start, k").fetchall()
    assert rows == [(key, 5, "full") for _ in range(4) for key in "ab"]


def test_two_outputs_never_share_a_table(tmp_path: Path) -> None:
    sink = mt.to_parquet(tmp_path / "results")
    with pytest.raises(OptionError, match="is where two outputs go"):
        _build_query().start(checkpoint=None, results=sink, rejected=sink)
    with pytest.raises(OptionError, match="results=3 doesn't write; give a sink, or a function"):
        _build_query().start(checkpoint=None, results=3)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"results='console' .*results=mt\.to_print\(\)$"):
        _build_query().start(checkpoint=None, results="console")  # type: ignore[arg-type]
    hint = r"rejected='out/x' doesn't write; give a sink, as in rejected=mt.to_parquet\('out/x'\)"
    with pytest.raises(OptionError, match=hint):
        _build_query().start(checkpoint=None, rejected="out/x")  # type: ignore[arg-type]


def test_a_function_of_one_value_is_refused() -> None:
    with pytest.raises(OptionError, match=r"results='<lambda>' can't be called .*lambda rows"):
        _build_query().start(checkpoint=None, results=lambda rows: rows)  # type: ignore[misc, arg-type]


def test_a_function_is_called_for_batches_with_rows_only() -> None:
    heights: list[int] = []
    stream = mt.windowed(mt.ticks(20), time="timestamp").tumbling("1 hour").agg(n=mt.count())
    query = stream.start(checkpoint=None, results=lambda rows, batch: heights.append(len(rows)))
    query.await_end(0.4)
    query.stop()
    assert query.progress.batch >= 0
    assert heights == []


def test_rows_that_a_sink_cannot_store_are_stored_as_unwritable(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Choosy:
        def write(self, batch: object) -> None:
            rows = batch.table()  # type: ignore[attr-defined]
            reasons = [reason for reason in rows["k"].to_pylist() if reason == "a"]
            unwritable_rows = rows.filter([key == "a" for key in rows["k"].to_pylist()])
            batch.unwritable.add(unwritable_rows, "choosy", reasons)  # type: ignore[attr-defined]

    query = _build_query().start(checkpoint=tmp_path, results=Choosy())
    assert query.await_end(60)
    unwritable = pl.read_parquet(tmp_path / "unwritable" / "*.parquet")
    assert query.progress.unwritable == len(unwritable) > 0
    assert unwritable["sink"].unique().to_list() == ["choosy"]
    messages = [record.getMessage() for record in caplog.records if "can't take" in record.msg]
    assert re.fullmatch(
        r"choosy can't take \d+ rows of results of batch \d+ "
        r"\(the first: a\); they are in .*/unwritable",
        messages[0],
    )
