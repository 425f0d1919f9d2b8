"""Tests that records are split alike wherever bytes are cut; an open quote spoils one line."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.sources import file_formats
from muntin.sources.file_formats import read_text_records, split_records

FIELDS = st.text(st.sampled_from('a,"\n\\é'), max_size=4)


def split_parts(data: bytes, cuts: list[int], *, quotes: bool) -> list[bytes]:
    """Return the records of bytes that are split in parts."""
    records, rest, start = [], b"", 0
    for end in [*sorted({min(n, len(data)) for n in cuts}), len(data)]:
        new_records, rest = split_records(
            rest + data[start:end], quotes=quotes, last=end == len(data)
        )
        records += new_records
        start = end
        if end == len(data):
            break
    return records


@given(st.lists(st.lists(FIELDS, min_size=1, max_size=3)), st.lists(st.integers(0, 60)))
def test_quoted_line_feeds_are_in_records_wherever_bytes_are_cut(
    rows: list[list[str]], cuts: list[int]
) -> None:
    buffer = io.StringIO()
    plain = [[field.replace("\\", "/") for field in row] for row in rows]
    csv.writer(buffer, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(plain)
    records = split_parts(buffer.getvalue().encode(), cuts, quotes=True)
    rows_read = [next(csv.reader(io.StringIO(record.decode(), newline=""))) for record in records]
    assert rows_read == plain


@given(st.binary(max_size=60), st.lists(st.integers(0, 60)))
def test_without_quotes_a_record_is_a_line(data: bytes, cuts: list[int]) -> None:
    lines = data.split(b"\n")
    assert split_parts(data, cuts, quotes=False) == (lines if lines[-1] else lines[:-1])


@pytest.mark.parametrize(
    ("data", "records"),
    [
        (b'1,"a\n2,b\n3,c', [b'1,"a', b"2,b", b"3,c"]),
        (b'1,"a\\"\nb"\n2,c\n', [b'1,"a\\"\nb"', b"2,c"]),
        (b'1,a"b\n2,c"d\n', [b'1,a"b', b'2,c"d']),
        (b'1,"a"x\n2,b', [b'1,"a"x', b"2,b"]),
        # A quote that stays open isn't closed by a quote that opens another field.
        (b'1,"a\n2,b\n3,"c"\n4,d\n', [b'1,"a', b"2,b", b'3,"c"', b"4,d"]),
        (b'1,"a\n"2",b\n3,"c\n4,"d"\r\n', [b'1,"a', b'"2",b', b'3,"c', b'4,"d"\r']),
        (b'1,"a\n2,""\n3,"x,y"\n', [b'1,"a', b'2,""', b'3,"x,y"']),
        (b'1,"a\r\nb"\r\n2,"c"\r\n', [b'1,"a\r\nb"\r', b'2,"c"\r']),
        (b'1,"a"\r,2\n3,"b\n', [b'1,"a"\r,2', b'3,"b']),
        (b'"', [b'"']),
        (b"", []),
    ],
)
def test_quotes_that_are_none_or_stay_open(data: bytes, records: list[bytes]) -> None:
    assert split_records(data, quotes=True, last=True) == (records, b"")
    for at in range(len(data)):
        assert split_parts(data, [at], quotes=True) == records


def test_a_large_file_is_read_in_parts_and_empty_lines_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_formats, "_CHUNK", 7)
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\n".join(b"%d" % n for n in range(50)) + b"\n\n \r\n51")
    parts: Any = [*read_text_records(path, path.stat().st_size, quotes=False)]
    assert [record for part in parts for record in part] == [b"%d" % n for n in [*range(50), 51]]
    assert len(parts) > 10
    with pytest.raises(OSError, match="ends 5 bytes early"):
        list(read_text_records(path, path.stat().st_size + 5, quotes=False))


@pytest.mark.parametrize("quotes", [False, True])
def test_an_endless_line_is_joined_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quotes: bool
) -> None:
    """Joining it at each chunk would cost the square of its length."""
    path, sizes = tmp_path / "x", list[int]()

    def split(data: bytes, **options: bool) -> tuple[list[bytes], bytes]:
        sizes.append(len(data))
        return split_records(data, **options)

    monkeypatch.setattr(file_formats, "_CHUNK", 10)
    monkeypatch.setattr(file_formats, "split_records", split)
    path.write_bytes(b"a\n" + b"x" * 10_000 + b"\nb")
    records = read_text_records(path, path.stat().st_size, quotes=quotes)
    assert [len(record) for part in records for record in part] == [1, 10_000, 1]
    assert sum(sizes) < 11_000
