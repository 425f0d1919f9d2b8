"""Tests of views in this process: lists become rows, and partitions keep their clocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest

import muntin as mt
from muntin.engine import columns
from muntin.hosts.local.derived import DerivedSource, RowSelectList
from muntin.hosts.local.plan import LocalInput
from muntin.hosts.local.window_plan import plan_windows
from muntin.model.pipeline import Column
from muntin.sources.source import Source, SourceReader

START = datetime(2026, 1, 1, 9)
LINES = pl.DataFrame(
    {
        "line": ["all streams lead to kafka", "hello  streams", "", None],
        "at": [START + timedelta(minutes=minute) for minute in range(4)],
    }
)


def count_words(divider: str) -> list[tuple[str, int]]:
    counts = mt.sql(
        f"""
        WITH words AS (SELECT explode(split(line, '{divider}')) AS word, at FROM lines)
        SELECT word, count(*) AS n FROM words GROUP BY word, TUMBLE(at, INTERVAL '1' HOUR)
        """,
        lines=LINES,
    )
    return sorted(counts.results.select("word", "n").rows())


WORDS = [("all", 1), ("hello", 1), ("kafka", 1), ("lead", 1), ("streams", 2), ("to", 1)]


@pytest.mark.parametrize(("divider", "empty"), [(" ", 2), (" +", 1), ("[ ,]+", 1), ("[ ,]", 2)])
def test_the_elements_of_a_list_are_rows(divider: str, empty: int) -> None:
    assert count_words(divider) == [("", empty), *WORDS]


@pytest.mark.parametrize(
    ("selection", "problem"),
    [
        ("explode(line) AS word, at", "is of String, not of an array"),
        ("explode(split(line, 'a|b')) AS word, at", r"split\(\) by the regular expression 'a\|b'"),
        (
            "explode(split(line, ' ')) AS a, explode(split(line, ' ')) AS b, at",
            "explodes a second list",
        ),
    ],
)
def test_columns_that_cannot_be_exploded(selection: str, problem: str) -> None:
    text = f"WITH v AS (SELECT {selection} FROM lines) SELECT count(*) AS n FROM v GROUP BY "
    with pytest.raises(mt.SqlError, match=problem):
        mt.sql(f"{text} TUMBLE(at, INTERVAL '1' HOUR)", lines=LINES)


def test_rows_of_one_message_are_no_duplicates() -> None:
    text = """
        WITH words AS (SELECT *, explode(split(line, ' ')) AS word FROM lines)
        SELECT word, count(*) AS n FROM words OFFSET FOR (p, o) GROUP BY word, TUMBLE(at, 1 HOUR)
    """
    lines = LINES.with_columns(p=pl.lit(0), o=pl.int_range(4, dtype=pl.Int64))
    with pytest.raises(mt.SqlError, match="the rows of one message share its offset"):
        mt.sql(text, lines=lines)


class PartitionedSource(Source, SourceReader):
    """Two partitions, of which the first has more messages than the batch."""

    schema = pl.Schema({"at": pl.Datetime("us")})
    has_partitions = True

    def open(self) -> Any:
        return self

    def plan(self, start: Any, limit: int | None) -> Any:
        raise NotImplementedError

    def read(self, start: Any, end: Any) -> Iterator[pl.DataFrame]:
        yield pl.DataFrame({"at": [START]}).with_columns(pl.lit("p0").alias(columns.PARTITION))

    def backlog(self, end: Any) -> Mapping[str, bool]:
        return {"p0": True}


def test_a_view_keeps_the_clocks_of_partitions() -> None:
    source = PartitionedSource()
    step = RowSelectList.of(source.schema, [Column("at", "at")], "at IS NOT NULL")
    derived = DerivedSource(source, step)
    spec = mt.windowed(LINES, time="at").tumbling("1 hour").agg(n=mt.count()).plan.spec
    plan = plan_windows(LocalInput(derived, "at"), (), spec, 1)
    assert plan.inputs[0].reader.partitions
    reader = derived.open()
    (rows,) = reader.read(None, {})
    assert rows[columns.PARTITION].to_list() == ["p0"]
    assert reader.backlog({}) == {"p0": True}
    assert not reader.is_finished({})
