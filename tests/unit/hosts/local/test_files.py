"""Files under a query of this process: new ones alone, through sinks, over restarts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl

import muntin as mt


def write(path: Path, *lines: str) -> None:
    """A file of JSON lines that was last written long ago, in the order of its name."""
    path.write_text("".join(f"{line}\n" for line in lines))
    age = 1_700_000_000 + int(path.stem)
    os.utime(path, (age, age))


def message(page: str, second: int) -> str:
    return f'{{"page": "{page}", "at": "2026-01-01T00:00:{second:02}Z"}}'


def test_each_file_counts_once_over_restarts_and_broken_lines_are_rejected(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder / "1.jsonl", message("a", 1), "broken", message("a", 2))
    views = (
        mt.windowed(
            mt.files(folder / "*.jsonl", columns="page string, at timestamp"), key="page", time="at"
        )
        .tumbling("10 seconds")
        .early(each=True)
        .agg(n=mt.count())
    )

    def run() -> Any:
        query = views.start(
            checkpoint=tmp_path / "checkpoint",
            results=mt.to_parquet(tmp_path / "out", partition_by="page"),
            rejected=mt.to_duckdb(tmp_path / "out.duckdb", "rejected"),
            available_now=True,
        )
        assert query.await_end(60)
        return query.progress.counts

    assert run()["malformed"] == 1
    (folder / "1.jsonl").unlink()
    write(folder / "2.jsonl", message("a", 3), message("b", 15))
    run()
    run()
    rows = pl.scan_parquet(tmp_path / "out", hive_partitioning=True).collect()
    emitted = rows.select("page", "n", "emission").sort("page", "n")
    assert emitted.rows() == [("a", 2, "early"), ("a", 3, "full"), ("b", 1, "early")]
