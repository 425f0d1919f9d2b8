"""A task that a reader of the docs solves, and the comparison of answers with expected rows."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

Namespace = dict[str, Any]
Row = tuple[Any, ...]


def no_inputs(folder: Path) -> Namespace:
    """Provide nothing."""
    return {}


class Task(NamedTuple):
    """A small task: what a user asks for, its inputs, and the check of the answer.

    Attributes:
        name: The name of the solution's file.
        text: The question. It names inputs and the answer, and nothing of muntin's.
        check: Takes the solution's variables and its working folder, and asserts the answer.
        setup: Writes input files into the working folder and returns input variables.
        spark: Whether the question asks for Spark.
    """

    name: str
    text: str
    check: Callable[[Namespace, Path], None]
    setup: Callable[[Path], Namespace] = no_inputs
    spark: bool = False


def moment(clock: str, day: str = "2026-01-01") -> datetime:
    """Return a time of UTC, without its zone."""
    return datetime.fromisoformat(f"{day} {clock}")


def write_lines(folder: Path, name: str, records: Iterable[Mapping[str, object]], age: int) -> None:
    """Write a file of JSON lines whose modification time is ``age`` seconds ago."""
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    modified = datetime.now().timestamp() - age
    os.utime(path, (modified, modified))


def list_records(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table of Polars, pandas, Arrow or Spark, or of a list."""
    if hasattr(table, "iter_rows"):
        return list(table.iter_rows(named=True))
    if hasattr(table, "to_pylist"):
        return list(table.to_pylist())
    if hasattr(table, "to_dict"):
        return list(table.to_dict("records"))
    if hasattr(table, "collect"):
        return [row.asDict() for row in table.collect()]
    return [dict(row) for row in table]


def convert_value(value: Any) -> Any:
    """Return a value of any library as one of Python's, with times in UTC and without a zone."""
    if hasattr(value, "to_pydatetime"):
        value = None if value != value else value.to_pydatetime()
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 6)
    if isinstance(value, list | tuple):
        return [convert_value(item) for item in value]
    return value


def list_rows(table: Any, columns: Sequence[str]) -> list[Row]:
    """Return some columns of a table as sorted rows."""
    rows = [
        tuple(convert_value(record[name]) for name in columns) for record in list_records(table)
    ]
    return sorted(rows, key=repr)


def assert_rows(table: Any, columns: str, expected: Iterable[Row]) -> None:
    """Compare some columns of a table with rows in any order."""
    answer = [tuple(map(normalize_value, row)) for row in list_rows(table, columns.split())]
    assert sorted(answer, key=repr) == sorted(
        (tuple(map(normalize_value, map(convert_value, row))) for row in expected), key=repr
    )


def normalize_value(value: Any) -> Any:
    """Return a whole number for a float that is one, and a midnight for a date."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return value


def expects_rows(columns: str, expected: Sequence[Row]) -> Callable[[Namespace, Path], None]:
    """Return a check of the variable ``answer``."""

    def check(namespace: Namespace, folder: Path) -> None:
        assert_rows(namespace["answer"], columns, expected)

    return check


def assign_windows(
    rows: Iterable[tuple[Any, datetime]], size: int, slide: int
) -> Iterator[tuple[Any, datetime]]:
    """Yield each row's value with the start of every window that holds its time, in seconds."""
    for value, time in rows:
        second = int(time.replace(tzinfo=UTC).timestamp())
        start = second - second % slide
        while start > second - size:
            yield value, datetime.fromtimestamp(start, UTC).replace(tzinfo=None)
            start -= slide
