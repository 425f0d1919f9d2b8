"""Tests that no row of a file stops its reader: each is read or unreadable, and has its number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.model.errors import OptionError
from muntin.tables import files
from muntin.tables.files import UnreadableRow, read_arrow_rows, read_file_rows

OPEN_QUOTE = "a quote doesn't end where its field does"
# Lines of CSV, and the values of their rows; None where they can't be read.
LINES: list[tuple[bytes, list[Any] | None]] = [
    (b'"a, b",1,x', ["a, b", 1, "x"]),
    (b'"say ""a""",2,', ['say "a"', 2, None]),
    (b'"two\nlines",3,"and\n\n""three"', ["two\nlines", 3, 'and\n\n"three']),
    (b'"a,4,x', None),
    (b"plain,5,x", ["plain", 5, "x"]),
    (b'5" pipe,6,x', None),
    (b'"a"b,7,x', None),
    (b'a"b",8,x', None),
    (b'a,"9,x', None),
    (b'"",10,""', ["", 10, ""]),
    (b'"more",soon,x,y', ["more", None, "x"]),
    (b'"fewer"', ["fewer", None, None]),
]
PLAIN = (b"a,1,x", ["a", 1, "x"])


@pytest.mark.parametrize("ending", [b"\n", b"\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(("before", "at_once"), [(150, 10_000), (0, 10_000), (150, 3)])
def test_quotes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ending: bytes,
    mark: bytes,
    before: int,
    at_once: int,
) -> None:
    monkeypatch.setattr(files, "_BATCH_ROWS", at_once)
    path = tmp_path / "rows.csv"
    # Plain rows come first, so that the columns have the same types wherever the odd rows are.
    lines = [PLAIN] * before + [line for line in LINES if before or line[0] != LINES[10][0]]
    file_lines = [b'"page",at,note', *(line for line, _ in lines)]
    path.write_bytes(mark + ending.join(file_lines))
    expected = [
        UnreadableRow(line, OPEN_QUOTE)
        if row is None
        else dict(zip(("page", "at", "note"), row, strict=True))
        for line, row in lines
    ]
    assert list(read_file_rows(path, 0)) == expected
    for start in (1, before + 4, before + 5, len(lines)):
        assert list(read_file_rows(path, start)) == expected[start:]


def test_a_quote_that_ends_nowhere_damages_nothing_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b'page,at\n"a,1\n' + b"b,2\n" * 500 + b'"' + b"x" * 2_000_000 + b"\nc,3\n")
    rows = list(read_file_rows(path, 0))
    assert [row["page"] for row in rows if isinstance(row, dict)] == ["b"] * 500 + ["c"]
    assert [len(row.row) for row in rows if isinstance(row, UnreadableRow)] == [4, 2_000_001]


def test_names_in_a_quote_that_ends_nowhere_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b'"page,at\na,1\n')
    with pytest.raises(OptionError, match="has names in a quote that doesn't end; close its"):
        list(read_file_rows(path, 0))


def make_texts(values: list[bytes | None]) -> pa.Array:
    binary = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(binary), binary.buffers())


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("start", [0, 1, 2, 7])
def test_text_of_parquet_files_that_isnt_utf8(tmp_path: Path, start: int, nested: bool) -> None:
    path = tmp_path / "rows.parquet"
    text = make_texts([b"a", b"\xff", None, b"b", b"b\xc3", b"c", b"d"])
    if nested:
        text = pa.ListArray.from_arrays(pa.array(range(8), pa.int32()), text)
    times = pa.array(range(7), pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"k": text, "at": times}), path, row_group_size=2)

    def nest(value: str | None) -> Any:
        return [value] if nested else value

    names = ["a", "\\xff", None, "b", "b\\xc3", "c", "d"]
    frame = pl.DataFrame({"k": [nest(name) for name in names], "at": pl.from_arrow(times)})
    expected = [
        UnreadableRow(row, "k isn't UTF-8") if "\\" in (names[n] or "") else row
        for n, row in enumerate(frame.rows(named=True))
    ]
    assert list(read_file_rows(path, start)) == expected[start:]
    assert list(read_arrow_rows(pq.read_table(path).slice(start))) == expected[start:]
