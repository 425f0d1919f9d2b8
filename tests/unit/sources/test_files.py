"""Tests of files as a source: each is read once, whole, in order, and again after a crash."""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import muntin as mt
from muntin.sources import csv_payloads, file_formats
from muntin.sources import files as module
from muntin.sources.files import FileReader
from muntin.sources.source import Source

AT = datetime(2026, 1, 1, tzinfo=UTC)
OLD = 1_700_000_000


def write(path: Path, data: bytes, age: int = 0) -> Path:
    """Write a file whose modification time is ``OLD`` plus so many seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (OLD + age, OLD + age))
    return path


def write_parquet(path: Path, age: int = 0, **columns: Any) -> Path:
    pl.DataFrame(columns).write_parquet(path)
    os.utime(path, (OLD + age, OLD + age))
    return path


class Run:
    """A query that reads files and keeps its offsets as JSON."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.offsets: str | None = None
        self.reader: FileReader = source.open()

    def restart(self) -> None:
        self.reader = self.source.open()

    def read_batch(self, limit: int | None = None) -> list[tuple[Any, ...]]:
        """Read the next batch twice, as after a crash, and return its rows without details."""
        start = None if self.offsets is None else json.loads(self.offsets)
        planned = self.reader.plan(start, limit)
        end = json.dumps(planned.end)
        readings = [
            [
                row
                for frame in reader.read(start, json.loads(end))
                for row in frame.drop("malformed_detail", strict=False).rows()
            ]
            for reader in (self.reader, self.source.open())
            if planned.has_new
        ]
        assert not readings or readings[0] == readings[1]
        self.offsets = end
        self.caught_up = planned.caught_up
        return readings[0] if readings else []


def test_files_are_read_once_in_the_order_of_their_writing(tmp_path: Path) -> None:
    write_parquet(tmp_path / "b.parquet", 1, n=[1, 2])
    write_parquet(tmp_path / "a.parquet", 2, n=[3])
    source = mt.files(f"{tmp_path}/*.parquet", files_per_batch=1)
    assert isinstance(source, Source)
    assert source.schema == {"n": pl.Int64}
    run = Run(source)
    assert (run.read_batch(), run.caught_up) == ([(1,), (2,)], False)
    assert (run.read_batch(), run.caught_up) == ([(3,)], True)
    assert run.read_batch() == []
    run.restart()
    (tmp_path / "b.parquet").unlink()
    write_parquet(tmp_path / "0.parquet", 2, n=[4])
    assert run.read_batch() == [(4,)]
    run.restart()
    assert run.read_batch() == []


def test_a_folder_is_all_that_is_below_it_but_hidden_files(tmp_path: Path) -> None:
    for name in ("x/1.jsonl", "x/y/2.jsonl", ".3.jsonl", "x/_4.jsonl"):
        write(tmp_path / name, b'{"n": %d}\n' % int(Path(name).stem.strip("._")))
    run = Run(mt.files(tmp_path, format="jsonl", columns="n int"))
    assert sorted(run.read_batch()) == [(1, None), (2, None)]
    # A writer renames a file when it is complete.
    (tmp_path / ".3.jsonl").rename(tmp_path / "3.jsonl")
    assert run.read_batch() == [(3, None)]


def test_a_file_that_is_being_written_waits(tmp_path: Path) -> None:
    lines, table = tmp_path / "1.csv", tmp_path / "1.parquet"
    run = Run(mt.files(f"{tmp_path}/*.csv", columns="n int"))
    lines.write_bytes(b"1\n2")
    assert (run.read_batch(), run.caught_up) == ([], False)
    write(lines, b"1\n23\n")
    assert (run.read_batch(), run.caught_up) == ([(1, None), (23, None)], True)

    whole = write_parquet(tmp_path / ".whole", n=[1]).read_bytes()
    run = Run(mt.files(f"{tmp_path}/*.parquet", columns="n long"))
    for size in (0, 2, 8, len(whole) - 1):
        table.write_bytes(whole[:size])
        assert run.read_batch() == []
    # A footer marks a complete file, however recently it was written.
    table.write_bytes(whole)
    assert run.read_batch() == [(1,)]


def test_records_are_read_by_the_rules_of_kafkas_payloads(tmp_path: Path) -> None:
    text = b'id,at,note\n1,2026-01-01T00:00:00Z,"a\nb"\nx,2026-01-01T00:00:00Z,\n2,2026-01-01,\n'
    write(tmp_path / "1.csv", text, 1)
    write(tmp_path / "2.csv", b'note,id\n"open,1\nz,3\n"shut",4\n', 2)
    source = mt.files(
        tmp_path / "*.csv", columns="id long, at timestamp, note string", header=True, zone="-01:00"
    )
    later = datetime(2026, 1, 1, 1, tzinfo=UTC)
    assert Run(source).read_batch() == [
        (1, AT, "a\nb", None),
        (None, None, None, b"x,2026-01-01T00:00:00Z,"),
        (2, later, None, None),
        (None, None, None, b'"open,1'),
        (3, None, "z", None),
        (4, None, "shut", None),
    ]
    lines = b'{"id": 1, "at": "2026-01-01T00:00:00Z"}\n{"id": "x"}\n{\n\n{"id": 2, "more": 1}\n'
    write(tmp_path / "1.jsonl", lines)
    source = mt.files(tmp_path / "*.jsonl", columns="id long, at timestamp")
    assert source.malformed_column == "malformed"
    assert Run(source).read_batch() == [
        (1, AT, None), (None, None, b'{"id": "x"}'), (None, None, b"{"), (2, None, None),
    ]  # fmt: skip


def test_columns_are_learned_from_the_first_file(tmp_path: Path) -> None:
    head = b"id,price,when,day,ok,text,none\n"
    write(tmp_path / "1.csv", head + b"1,.5,2026-01-01T00:00:00Z,2026-01-01,true,1x,\n")
    write(tmp_path / "2.csv", head + b"oh,1,2026-01-01T00:00:00Z,2026-01-01,false,,y\n", 1)
    schema = mt.files(tmp_path / "*.csv").schema
    assert schema == {
        "id": pl.Int64, "price": pl.Float64, "when": pl.Datetime("us", "UTC"), "day": pl.Date,
        "ok": pl.Boolean, "text": pl.String, "none": pl.String, "malformed": pl.Binary,
        "malformed_detail": pl.String,
    }  # fmt: skip
    rows = Run(mt.files(tmp_path / "*.csv")).read_batch()
    assert [row[-1] is None for row in rows] == [True, False]
    write(tmp_path / "1.jsonl", b'{"id": 1, "at": "2026-01-01T00:00:00Z", "tags": [1]}\n')
    schema = mt.files(tmp_path / "*.jsonl").schema
    assert dict(schema)["at"] == pl.Datetime("us", "UTC")
    assert dict(schema)["tags"] == pl.String
    with pytest.raises(mt.OptionError, match="matches no file to infer from; give the columns"):
        _ = mt.files(tmp_path / "none/*.csv").schema


def test_parquet_of_other_types_grows_or_is_named(tmp_path: Path) -> None:
    moments = pl.Series([AT], dtype=pl.Datetime("ms", "UTC"))
    write_parquet(tmp_path / "1.parquet", 1, n=pl.Series([1], dtype=pl.Int64), at=moments)
    write_parquet(tmp_path / "2.parquet", 2, n=pl.Series([2], dtype=pl.Int16), more=["x"])
    write_parquet(tmp_path / "3.parquet", 3, n=["three"])
    run = Run(mt.files(tmp_path / "*.parquet", files_per_batch=2))
    assert run.read_batch() == [(1, AT), (2, None)]
    with pytest.raises(
        mt.SourceError, match=r"3.parquet has a column n of type String instead of Int64"
    ):
        run.read_batch()


@pytest.mark.parametrize("damage", ["broken", "removed", "changed"])
def test_a_file_that_cant_be_read_is_named_or_skipped(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad = write_parquet(tmp_path / "1.parquet", 1, n=[1]), tmp_path / "2.parquet"
    write(bad, b"PAR1 nothing of the kind PAR1", 2)
    pattern = str(tmp_path / "*.parquet")
    for choice in ("fail", "skip"):
        source = mt.files(pattern, columns="n long", bad_files=choice)  # type: ignore[arg-type]
        reader = source.open()
        end = reader.plan(None, None).end
        if damage == "removed":
            bad.rename(tmp_path / "aside")
        elif damage == "changed":
            bad.write_bytes(good.read_bytes() + b"more")
        if choice == "skip":
            frames = list(reader.read(None, end))
            assert pl.concat(frames)["n"].to_list() == [1]
            assert f"{bad} is skipped" in caplog.text
        else:
            with pytest.raises(mt.SourceError, match=r"2\.parquet"):
                list(reader.read(None, end))
        if damage == "removed":
            (tmp_path / "aside").rename(bad)
        write(bad, b"PAR1 nothing of the kind PAR1", 2)


def test_a_file_that_grows_after_it_was_read_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "1.csv", b"1\n")
    run = Run(mt.files(tmp_path / "*.csv", columns="n int"))
    assert run.read_batch() == [(1, None)]
    write(path, b"1\n2\n")
    assert run.read_batch() == run.read_batch() == []
    assert caplog.text.count("has changed since it was read") == 1


def test_what_is_remembered_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(module, "MOST_REMEMBERED", 3)
    run = Run(mt.files(tmp_path / "*.csv", columns="n int", files_per_batch=2))
    for age in range(9):
        write(tmp_path / f"{age}.csv", b"%d\n" % age, age)
    assert [run.read_batch() for _ in range(6)] == [
        *([(n, None), (n + 1, None)] for n in (0, 2, 4, 6)), [(8, None)], [],
    ]  # fmt: skip
    offsets = json.loads(run.offsets or "")
    assert sorted(offsets["recent"]) == [f"{tmp_path}/{n}.csv" for n in (6, 7, 8)]
    # This file is older than all remembered ones, and new.
    write(tmp_path / "late.csv", b"90\n", -5)
    assert run.read_batch() == [(90, None)]
    assert "late.csv is new, with an old modification time" in caplog.text
    assert run.read_batch() == []
    run.restart()
    assert run.read_batch() == []


def test_a_batch_has_about_as_many_messages_as_it_may(tmp_path: Path) -> None:
    for n in range(4):
        write(tmp_path / f"{n}.csv", b"1\n" * 200, n)
    run = Run(mt.files(tmp_path / "*.csv", columns="n int"))
    assert len(run.read_batch(limit=8)) == 400
    assert len(run.read_batch(limit=1)) == 200
    assert len(run.read_batch()) == 200


def test_a_batch_has_at_most_as_many_bytes_as_it_may(tmp_path: Path) -> None:
    for n in range(5):
        write(tmp_path / f"{n}.csv", b"%d\n" % n * 100, n)
    run = Run(mt.files(tmp_path / "*.csv", columns="n int", bytes_per_batch=500))
    assert [len(run.read_batch()) for _ in range(4)] == [200, 200, 100, 0]
    run = Run(mt.files(tmp_path / "*.csv", columns="n int", bytes_per_batch="1 B"))
    assert [len(run.read_batch()) for _ in range(6)] == [100] * 5 + [0]


@pytest.mark.parametrize(
    ("path", "options", "problem"),
    [
        ("logs/*", {}, "format=None can't be inferred from 'logs/\\*'; give one of parquet, csv"),
        ("x.csv", {"format": "xml"}, "format='xml' isn't a format"),
        ("x.csv", {"columns": "a array<int>"}, "columns='a' has type List"),
        ("x.csv", {"header": False}, "leaves the columns without names"),
        ("x.jsonl", {"header": True}, "header=True doesn't apply to format='jsonl'"),
        ("x.csv", {"files_per_batch": 0}, "files_per_batch=0 is less than one"),
        ("x.csv", {"bad_files": "ignore"}, "bad_files='ignore' isn't a choice"),
        ("x.csv", {"zone": "Mars/Base"}, "zone='Mars/Base' isn't a time zone"),
    ],
)
def test_options_that_dont_fit_are_refused(path: str, options: Any, problem: str) -> None:
    with pytest.raises(mt.OptionError, match=problem):
        mt.files(path, **options)


def test_a_column_of_the_sources_own_name_is_refused() -> None:
    with pytest.raises(mt.OptionError, match="columns='malformed' is reserved for unreadable"):
        _ = mt.files("x.csv", columns="malformed string").schema


def test_a_header_of_many_columns_doesnt_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of few bytes would otherwise have as many fields as the header."""
    monkeypatch.setattr(file_formats, "_CELLS_AT_ONCE", 1000)
    names = ["k", *(f"c{n}" for n in range(99))]
    path = tmp_path / "1.csv"
    path.write_text("\n".join([",".join(names), *["a"] * 25, ",".join(["b"] * 100)]))
    columns = ", ".join(f"{name} string" for name in names)
    source = mt.files(str(path), columns=columns, header=True)
    frames = [*source.format.read(path, path.stat().st_size, source.schema)]
    assert [len(frame) for frame in frames] == [10, 10, 6]
    assert frames[-1]["k"].to_list() == [None] * 5 + ["b"]


def test_a_header_without_any_of_the_columns_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", b"page;n\nhome;1\n")
    write(tmp_path / "b.csv", b"n,page\n2,cart\n", 1)
    options: dict[str, Any] = {"columns": "page string, n long", "header": True}
    problem = r"a\.csv has none of the columns page, n in its header 'page;n'\. Correct the names"
    with pytest.raises(mt.SourceError, match=problem):
        Run(mt.files(tmp_path / "*.csv", **options)).read_batch()
    rest = Run(mt.files(tmp_path / "*.csv", bad_files="skip", **options)).read_batch()
    assert rest == [("cart", 2, None)]


def test_short_lines_below_a_long_header_cost_their_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell_counts, convert = [], csv_payloads.convert_texts

    def count(texts: pl.DataFrame, *options: Any) -> Any:
        cell_counts.append(texts.height * texts.width)
        return convert(texts, *options)

    monkeypatch.setattr(csv_payloads, "convert_texts", count)
    header = ",".join(["k", *(f"c{n}" for n in range(999))])
    path = tmp_path / "1.csv"
    good = ",".join(["b"] * 1000)
    path.write_text("\n".join([header, "a", '"a"', good, "a", '"b"' + good[1:], "a"]))
    source = mt.files(str(path), columns="k string", header=True)
    (frame,) = source.format.read(path, path.stat().st_size, source.schema)
    assert frame["k"].to_list() == [None, None, "b", None, "b", None]
    details = frame["malformed_detail"].to_list()
    assert details[2::2] == [None, None]
    assert {details[n] for n in (0, 1, 3, 5)} == {"not a CSV record of 1000 fields"}
    assert sum(cell_counts) == 2


@pytest.mark.parametrize(
    "header", [",".join(f"c{n}" for n in range(40_000)) + ",n", '"' + "x" * 200_000 + '",n']
)
def test_no_header_ends_a_query(header: str, tmp_path: Path) -> None:
    """A header may have more columns than fit in 16 bits, or a name beyond Python's limit."""
    width = header.count(",")
    path = tmp_path / "1.csv"
    path.write_text("\n".join([header, "," * width + "1", "," * width + "x"]))
    source = mt.files(str(path), columns="n long", header=True)
    (frame,) = source.format.read(path, path.stat().st_size, source.schema)
    assert frame["malformed_detail"].to_list()[1] is not None
