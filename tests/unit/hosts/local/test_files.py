"""Tests of reading new files by a query of the local host."""

from __future__ import annotations

from pathlib import Path

import polars as pl

import muntin as mt


def _write(folder: Path, name: str, *rows: tuple[str, str]) -> None:
    frame = pl.DataFrame(rows, schema=["k", "at"], orient="row")
    frame.with_columns(pl.col("at").str.to_datetime(time_zone="UTC")).write_parquet(folder / name)


def test_new_files_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    _write(tmp_path / "in", "1.parquet", ("a", "2026-01-01T00:00:01"), ("b", "2026-01-01T00:00:02"))
    clicks = mt.files(str(tmp_path / "in" / "*.parquet"))
    counts = mt.windowed(clicks, key="k", time="at").tumbling("10 seconds").agg(n=mt.count())
    sink = mt.to_memory()
    for name, second in (("2.parquet", 11), ("3.parquet", 25), ("3.parquet", 25)):
        query = counts.start(checkpoint=tmp_path / "c", results=sink, available_now=True)
        assert query.await_end(60)
        _write(tmp_path / "in", name, ("a", f"2026-01-01T00:00:{second}"))
    query = counts.start(checkpoint=tmp_path / "c", results=sink, available_now=True)
    assert query.await_end(60)
    assert query.progress.counts["seen"] == 4
    assert sink.frame().select("k", "n").sort("k", "n").rows() == [("a", 1), ("a", 1), ("b", 1)]


def test_the_last_step_of_a_run_emits_windows_that_wait_for_the_clock(tmp_path: Path) -> None:
    """The tables are current after a run from cron, with early results and late messages."""
    _write(tmp_path, "1.parquet", ("a", "2026-01-01T00:00:01"), ("a", "2026-01-01T00:00:12"))
    clicks = mt.files(str(tmp_path / "*.parquet"))
    windows = mt.windowed(clicks, key="k", time="at").tumbling("10 seconds")
    early_windows = windows.early(every="1 hour", at_least=100).late(grace="1 hour", every="1 hour")
    sink = mt.to_memory()

    def run() -> list[tuple[int, str]]:
        counts = early_windows.agg(n=mt.count())
        query = counts.start(checkpoint=tmp_path / "c", results=sink, available_now=True)
        assert query.await_end(60)
        assert query.progress.pending == 0
        return sink.frame().sort("window_start").select("n", "emission").rows()

    assert run() == [(1, "full"), (1, "early")]
    _write(tmp_path, "2.parquet", ("a", "2026-01-01T00:00:02"))
    assert run() == [(2, "late"), (1, "early")]
    # Nothing is new, and nothing waits.
    assert run() == [(2, "late"), (1, "early")]
