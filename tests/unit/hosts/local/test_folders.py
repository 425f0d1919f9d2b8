"""Tests that a query keeps to its folders while its process changes its own."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import muntin as mt

LINE = '{{"page": "{}", "at": "2026-01-01T0{}:00:00Z"}}\n'


def test_a_query_keeps_to_its_relative_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("in/1.jsonl").write_text(LINE.format("a", 1))
    clicks = mt.files("in/*.jsonl", columns="page string, at timestamp")
    views = mt.windowed(clicks, key="page", time="at").tumbling("1 hour").agg(n=mt.count())
    query = views.start(checkpoint="ck", results=mt.to_parquet("out"))
    assert query.await_idle()
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    (tmp_path / "in/2.jsonl").write_text(LINE.format("b", 9))
    assert query.await_idle()
    query.stop()
    assert query.progress.counts == {"seen": 2, "counted": 2}
    assert [*other.iterdir()] == []
    assert pl.read_parquet(tmp_path / "out/**/*.parquet")["page"].to_list() == ["a"]


def test_databases_keep_to_their_folder_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sink = mt.to_duckdb("views.duckdb", "views")
    sink.prepare()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    frame = pl.DataFrame({"page": ["a"], "at": ["2026-01-01 09:00"]})
    views = mt.windowed(frame, key="page", time="at").tumbling("1 hour").agg(n=mt.count())
    assert views.start(checkpoint=None, results=sink).await_end(60)
    assert (tmp_path / "views.duckdb").exists()
