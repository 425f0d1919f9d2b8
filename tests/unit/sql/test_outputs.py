"""Tests that each output of a pipeline has its own table, whatever the case of its name."""

from __future__ import annotations

import pytest

import muntin as mt
from muntin.sql.api import compile_pipeline

TABLES = """
    CREATE TABLE t (k STRING, ts TIMESTAMP) WITH (connector = 'json', path = 't');
    CREATE TABLE a WITH (connector = 'parquet', path = 'a');
    CREATE TABLE b WITH (connector = 'parquet', path = 'b');
    CREATE TABLE Bad WITH (connector = 'duckdb', path = 'bad');
    CREATE TABLE letters WITH (connector = 'kafka', topic = 'letters');
"""
QUERY = "SELECT k, count(*) AS n FROM t GROUP BY k, TUMBLE(ts, 1 HOUR);"


def write_pipeline(*outputs: str) -> str:
    return TABLES + "\n".join(f"INSERT INTO {output} {QUERY}" for output in outputs)


@pytest.mark.parametrize(
    ("outputs", "name", "at"),
    [
        (("a", "a"), "a", "a"),
        (("a", "A"), "a", "A"),
        (("a REJECTED INTO a",), "a", "a"),
        (("a REJECTED INTO bad", "b REJECTED INTO BAD"), "Bad", "BAD"),
        (("a REJECTED INTO b", "b"), "b", "b"),
        (("a", "b REJECTED INTO a"), "a", "a"),
        (("letters", "letters"), "letters", "letters"),
        (("letters REJECTED INTO letters",), "letters", "letters"),
        (("a REJECTED INTO letters", "letters"), "letters", "letters"),
    ],
)
def test_two_outputs_in_one_table_are_refused_at_the_second(outputs, name, at):
    text = write_pipeline(*outputs)
    with pytest.raises(mt.SqlError, match=f"{name} is written twice; give each output") as caught:
        compile_pipeline(text)
    start, end = caught.value.span
    assert text[start:end] == at
    assert text.rindex(f"INTO {at} ") + len("INTO ") == start


def test_rejected_messages_of_several_queries_may_go_to_one_topic():
    pipeline = compile_pipeline(
        write_pipeline("a REJECTED INTO letters", "b REJECTED INTO Letters")
    )
    assert [(flow.results, flow.rejected) for flow in pipeline.flows] == [
        ("a", "letters"),
        ("b", "letters"),
    ]
