"""Tests that frames become values of a topic's type, by whole columns or row by row."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import polars as pl
import pydantic
import pytest

import muntin as mt
from muntin.tables.rows import RowReader
from muntin.tables.typed import make_reader


@dataclass
class Click:
    page: str
    n: int = 1
    note: str | None = None


class Visit(mt.Record):
    user: str
    at: datetime
    day: date
    body: bytes
    weight: float
    ok: bool
    rest: Any = None


@dataclass
class Checked:
    n: int

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError("n is negative")


@dataclass
class Inner:
    n: int


@dataclass
class Outer:
    inner: list[Inner]
    page: str


class Model(pydantic.BaseModel):
    page: str
    n: int = pydantic.Field(ge=0)


def read_values(kind: Any, frame: pl.DataFrame, value: str | None = None) -> Any:
    return RowReader(kind, frame.schema, value)(frame)


def test_columns_that_fit_are_handed_over() -> None:
    frame = pl.DataFrame({"n": [1, 2], "page": ["a", "b"], "more": [0, 0]})
    assert read_values(Click, frame) == ([Click("a", 1), Click("b", 2)], {})
    frame = pl.DataFrame({"page": ["a", "b"], "n": [1, 2], "note": ["x", None]})
    assert read_values(Click, frame)[0] == [Click("a", 1, "x"), Click("b", 2)]
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    row = ["ann", moment, moment.date(), b"x", 0.5, True, [1]]
    names = [field.name for field in dataclasses.fields(Visit)]
    frame = pl.DataFrame([row], schema=names, orient="row")
    assert read_values(Visit, frame) == ([Visit(*row)], {})


@pytest.mark.parametrize(
    ("kind", "columns", "expected", "problems"),
    [
        (Click, {"page": ["a", None]}, [Click("a"), None], {1: "page: "}),
        (Click, {"page": ["a", "b"], "n": ["1", "x"]}, [Click("a"), None], {1: "n: "}),
        (Click, {"n": [1, 2]}, [None, None], {0: "page: ", 1: "page: "}),
        (Checked, {"n": [1, -1]}, [Checked(1), None], {1: "n is negative"}),
        (Model, {"page": ["a", "b"], "n": [1, -1]}, [Model(page="a", n=1), None], {1: "n: "}),
        (None, {"page": ["a"], "n": [1]}, [{"page": "a", "n": 1}], {}),
    ],
)
def test_others_are_looked_at_row_by_row(
    kind: Any, columns: dict[str, Any], expected: Any, problems: dict[int, str]
) -> None:
    rows, malformed = read_values(kind, pl.DataFrame(columns))
    assert rows == expected
    assert malformed.keys() == problems.keys()
    assert all(malformed[number].find(problem) >= 0 for number, problem in problems.items())


def test_one_column_may_be_the_value() -> None:
    frame = pl.DataFrame({"body": [b'{"page": "a"}', b"{"], "n": [1, 2]})
    rows, malformed = read_values(Click, frame, "body")
    assert rows == [Click("a"), None]
    assert malformed.keys() == {1}
    assert read_values(int, frame, "n") == ([1, 2], {})
    assert read_values(None, frame, "body") == ([b'{"page": "a"}', b"{"], {})


def test_a_class_that_was_sent_whole_still_knows_what_has_no_default() -> None:
    for kind in (Inner, Outer):
        for field in kind.__dataclass_fields__.values():
            # Pickling by value makes another object of dataclasses.MISSING.
            field.default = type(dataclasses.MISSING)()
            field.default_factory = type(dataclasses.MISSING)()
    assert make_reader(Outer)({"inner": [{"n": 1}], "page": "a"}) == Outer([Inner(1)], "a")


@dataclass
class Stamped:
    at: datetime
    n: int


@pytest.mark.parametrize("kind", [None, Stamped, dict[str, Any]])
def test_a_time_that_python_cant_hold_is_malformed(kind: Any) -> None:
    times = pl.Series("at", [0, 2**63 - 1, -(2**62), 1]).cast(pl.Datetime("us", "UTC"))
    frame = pl.DataFrame([times, pl.Series("n", [1, 2, 3, 4])])
    rows, malformed = RowReader(kind, frame.schema, None)(frame)
    assert [value is None for value in rows] == [False, True, True, False]
    assert {row: why.split(":")[0] for row, why in malformed.items()} == {1: "at", 2: "at"}
    assert (rows[3].n if kind is Stamped else rows[3]["n"]) == 4
    nested = pl.DataFrame({"v": times.to_frame().select(pl.concat_list("at"))["at"]})
    rows, malformed = RowReader(None, nested.schema, "v")(nested)
    assert [value is None for value in rows] == [False, True, True, False]
    assert malformed.keys() == {1, 2}
