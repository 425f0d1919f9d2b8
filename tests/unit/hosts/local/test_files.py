"""Files as they arrive, read by a query of the local host."""

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
    counted = mt.windowed(clicks, key="k", time="at").tumbling("10 seconds").agg(n=mt.count())
    sink = mt.to_memory()
    for name, second in (("2.parquet", 11), ("3.parquet", 25), ("3.parquet", 25)):
        query = counted.start(checkpoint=tmp_path / "c", results=sink, available_now=True)
        assert query.await_end(60)
        _write(tmp_path / "in", name, ("a", f"2026-01-01T00:00:{second}"))
    query = counted.start(checkpoint=tmp_path / "c", results=sink, available_now=True)
    assert query.await_end(60)
    assert query.progress.counts["seen"] == 4
    assert sink.frame().select("k", "n").sort("k", "n").rows() == [("a", 1), ("a", 1), ("b", 1)]
