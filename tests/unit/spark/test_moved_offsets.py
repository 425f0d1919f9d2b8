"""Tests of source offsets of a query that moves between hosts, in both forms, without Spark."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from muntin import OptionError
from muntin.hosts.local.log_contents import PlannedBatch
from muntin.spark.seeding import Streams, _list_files_read
from muntin.spark.stopped_query import _Line

_LOCAL = {
    "ends": {"orders": {"0": 5, "1": 7}},
    "ids": {"orders": "x7"},
    "newest": {"orders": {"0": 9, "1": 7}},
}
_SPARK = {**_LOCAL, "now": 50}


def _parse(text: str) -> dict[str, Any]:
    return _Line(cast(SparkSession, None), "ck", 0, text).parse(None)


def test_offsets_of_topics_have_the_clock_on_spark() -> None:
    streams = Streams([("muntin_kafka_1f", 0), ("muntin_heartbeat", 1), ("kafka", 2)], {0: 0, 2: 1})
    first = {**_LOCAL, "from": {"orders": {"0": 1, "1": 1}}}
    done = PlannedBatch(3, 40, (first, _LOCAL))
    planned = PlannedBatch(4, 50, (_LOCAL, _LOCAL), ends_run=True, wall=45)
    assert [json.loads(line) for line in streams.lines([done])] == [
        {**_LOCAL, "now": 40},
        {"tick": 40},
        _LOCAL["ends"],
    ]
    assert [json.loads(line) for line in streams.lines([done, planned])] == [
        _SPARK,
        {"tick": 45, "last": 1},
        _LOCAL["ends"],
    ]


def test_offsets_of_topics_on_spark_are_read_of_either_reader() -> None:
    assert _parse(json.dumps(_SPARK)) == _SPARK
    ends = _LOCAL["ends"]
    assert _parse(json.dumps(ends)) == {"ends": ends, "ids": {}, "newest": ends}
    first = {"ends": ends, "now": 0, "ids": {}}
    assert _parse(json.dumps(first)) == {**first, "newest": ends}


@pytest.mark.parametrize(
    "text", ["7", "{}", '{"sourceVersion": 1}', '{"a": {"b": 1}}', '[{"0": 1}]']
)
def test_other_offsets_are_refused(text: str) -> None:
    with pytest.raises(OptionError, match="reads a source that the local host doesn't have"):
        _parse(text)


def test_files_are_listed_by_batch_in_milliseconds() -> None:
    first = {"oldest": [0, ""], "recent": {"/in/a": [7_000_000, 3]}, "batch": []}
    more = {**first, "recent": {**first["recent"], "/in/c": [9_999_999, 1], "/in/b": [1, 1]}}
    none = {"oldest": [0, ""], "recent": {}, "batch": []}
    batches = [PlannedBatch(n, 0, (end,)) for n, end in enumerate((none, first, first, more))]
    assert _list_files_read(batches, 0) == [[("/in/a", 7)], [("/in/b", 0), ("/in/c", 9)]]
    streams = Streams([("FileSource[/in]", 0)], {0: 0})
    assert [streams.lines(batches[: n + 1]) for n in range(4)] == [
        ["-"],
        ['{"logOffset": 0}'],
        ['{"logOffset": 0}'],
        ['{"logOffset": 1}'],
    ]
