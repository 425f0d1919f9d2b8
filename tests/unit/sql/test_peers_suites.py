"""Tests of cases of other engines' own test suites, as statements over frames.

Each file of ``peers`` has tables and cases. The cells of a row stand between spaces as in the
transcripts, and times are seconds since 1970. A case has a statement, and the rows that it gives
in the columns that it ``shows``, or what it is ``refused`` for. Where a peer gives other rows, or
takes what we refuse, ``differs`` says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from tests.transcripts.notation import LOADER, read_columns, read_message

import muntin as mt

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
_TYPES = {
    "timestamp": pl.Datetime("us"), "string": pl.String(), "long": pl.Int64(),
    "double": pl.Float64(),
}  # fmt: skip


def read_table(table: dict[str, Any]) -> pl.DataFrame:
    columns = read_columns(table["columns"])
    rows = [read_message(row, columns) for row in table["rows"]]
    return pl.DataFrame(rows, schema={name: _TYPES[kind] for name, kind in columns.items()})


def read_suites() -> Iterator[Any]:
    for path in sorted((Path(__file__).parent / "peers").glob("*.yaml")):
        suite = yaml.load(path.read_text(), LOADER)
        tables = {name: read_table(table) for name, table in suite["tables"].items()}
        for case in suite["cases"]:
            assert case.keys() <= {"name", "sql", "shows", "rows", "refused", "differs"}
            yield pytest.param(case, tables, id=f"{path.stem}: {case['name']}")


def render_cell(value: Any) -> str:
    if isinstance(value, datetime):
        seconds = (value - _EPOCH) / timedelta(seconds=1)
        return f"{seconds:.6f}".rstrip("0").rstrip(".")
    if isinstance(value, list):
        return f"[{','.join(map(render_cell, value))}]"
    return "null" if value is None else str(value)


@pytest.mark.parametrize(("case", "tables"), list(read_suites()))
def test_case(case: dict[str, Any], tables: dict[str, pl.DataFrame]) -> None:
    if "refused" in case:
        with pytest.raises(mt.SqlError) as raised:
            _ = mt.sql(case["sql"], **tables).results
        assert case["refused"] in str(raised.value)
        return
    results = mt.sql(case["sql"], **tables).results.select(case["shows"].split())
    rows = [" ".join(map(render_cell, row)) for row in results.rows()]
    assert sorted(rows) == sorted(case["rows"])
