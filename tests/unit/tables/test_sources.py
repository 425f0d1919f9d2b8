"""Tests of sources: any data with rows, read from any row on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import muntin as mt
from muntin.model.errors import OptionError

ROWS = [{"page": "a", "at": 1.5}, {"page": "b", "at": 2.5}, {"page": "c", "at": 3.5}]


@dataclass(slots=True)
class Click:
    page: str
    at: float


def make_forms(folder: Path) -> dict[str, Any]:
    frame = pl.DataFrame(ROWS)
    frame.write_parquet(folder / "rows.parquet")
    frame.write_csv(folder / "rows.csv")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return {
        "list": ROWS,
        "iterator": iter(ROWS),
        "polars": frame,
        "lazy": frame.lazy(),
        "pandas": pd.DataFrame(ROWS),
        "arrow": frame.to_arrow(),
        "parquet": folder / "rows.parquet",
        "csv": str(folder / "rows.csv"),
        "jsonl": folder / "rows.jsonl",
    }


FORMS = ["list", "iterator", "polars", "lazy", "pandas", "arrow", "parquet", "csv", "jsonl"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("start", [0, 2, 3])
def test_every_form_gives_its_rows(form: str, start: int, tmp_path: Path) -> None:
    source = mt.source(make_forms(tmp_path)[form], key="page", time="at")
    messages = [(m.value, m.key, m.time) for m in source.messages(start)]
    assert messages == [(row, row["page"], row["at"]) for row in ROWS[start:]]


def test_a_source_may_be_read_from_several_places(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pl.DataFrame({"n": range(25_000)}).write_parquet(path)
    for data in (path, pl.DataFrame({"n": range(25_000)})):
        numbers = [m.value["n"] for m in mt.source(data).messages(9_999)]
        assert numbers == list(range(9_999, 25_000))


def test_fields_and_functions() -> None:
    clicks = [Click("a", 1.0)]
    for key in ("page", Click.page, lambda click: click.page):  # type: ignore[attr-defined]
        (message,) = mt.source(clicks, key=key, time="at").messages(0)
        assert (message.key, message.time, message.value) == ("a", 1.0, clicks[0])
    wrapped = [{"body": b'{"page": "a"}', "at": 1.0}]
    (message,) = mt.source(wrapped, value="body", time="at").messages(0)
    assert (message.value, message.time, message.has_key_rule) == (b'{"page": "a"}', 1.0, False)


def test_json_text_has_keys_too() -> None:
    messages = list(
        mt.source(['{"page": "a"}', "{", b'{"page": "b"}', "[]"], key="page").messages(0)
    )
    assert [message.key for message in messages] == ["a", None, "b", None]


def test_lines_that_are_no_json_come_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"n": 1}\n{"n": \n')
    assert [m.value for m in mt.source(path).messages(0)] == [{"n": 1}, b'{"n": ']


def test_a_line_nested_too_deep_ends_no_source(tmp_path: Path) -> None:
    path, deep = tmp_path / "rows.jsonl", "[" * 100_000
    path.write_text(f'{{"n": 1}}\n{deep}\n{{"n": 2}}\n')
    messages = list(mt.source(path, key="n").messages(0))
    assert [message.value for message in messages] == [{"n": 1}, deep.encode(), {"n": 2}]
    assert [message.key for message in messages] == [1, None, 2]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b"\xff,2", {"page": "\ufffd", "at": 2}),
        (b"b,2,3,4", {"page": "b", "at": 2}),
        (b"b", {"page": "b", "at": None}),
        (b"b,soon", {"page": "b", "at": None}),
        (b"b,99999999999999999999999", {"page": "b", "at": None}),
    ],
)
def test_no_line_of_a_csv_file_ends_a_source(tmp_path: Path, line: bytes, value: Any) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"page,at\n" + b"a,1\n" * 200 + line + b"\nc,3\n")
    values = [message.value for message in mt.source(path, time="at").messages(199)]
    assert values == [{"page": "a", "at": 1}, value, {"page": "c", "at": 3}]


def test_a_function_that_a_row_surprises_gives_no_key() -> None:
    source = mt.source([{"n": 0}, {"n": 2}], key=lambda row: 1 / row["n"])
    assert [message.key for message in source.messages(0)] == [None, 0.5]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ("nowhere.csv", "isn't a file"),
        ("rows.xlsx", "isn't a kind of file"),
        (7, "has no rows"),
    ],
)
def test_what_has_no_rows_is_refused(data: Any, problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        list(mt.source(data).messages(0))


def test_topics_in_memory() -> None:
    topics = mt.memory()
    assert [topics.send("a", n, key="k", timestamp=1.0) for n in (5, 6)] == [0, 1]
    topics.send("b", 7)
    assert topics.values("a") == [5, 6]
    assert topics.names() == ["a", "b"]
    (message,) = topics.messages("a", 1)
    assert (message.value, message.has_key_rule, message.has_time_rule) == (6, True, True)
    assert topics.messages("c") == []
