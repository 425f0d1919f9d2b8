"""Tests that databases in memory or elsewhere, which would keep no rows, are refused."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pytest

import muntin as mt


@pytest.mark.parametrize(
    "path", [":memory:", ":memory:views", "md:views", "s3://lake/views.duckdb"]
)
def test_a_database_that_is_no_file_is_refused(path: str) -> None:
    with pytest.raises(
        mt.OptionError, match=f"path='{path}' isn't a file; give the path of a file"
    ):
        mt.to_duckdb(path, "views")


@pytest.mark.parametrize("path", ["views.duckdb", "/data/a:b.duckdb", "C:views.duckdb"])
def test_a_file_may_have_a_colon(path: str) -> None:
    assert mt.to_duckdb(Path(path), "views").path == path


def test_a_table_with_other_columns_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "views.duckdb"
    duckdb.connect(str(path)).execute("CREATE TABLE views (a INT)").close()
    clicks = pl.DataFrame({"page": ["a"], "at": ["2026-01-01 09:00"]})
    views = mt.windowed(clicks, key="page", time="at").tumbling("1 hour").agg(n=mt.count())
    query = views.start(checkpoint=None, results=mt.to_duckdb(path, "views"))
    with pytest.raises(mt.SinkError, match=r"table views has other columns .* Give another table"):
        query.await_end(60)
