"""Tests that an error starts with the exception that the user's code has raised."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType
from tests.spark.feed import Feed, at

import muntin as mt
from muntin.hosts.failures import Failure

WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "/x/python/lib/pyspark.zip/pyspark/worker.py", line 4327, in invoke_udf
    run_process()
  File "/home/me/app.py", line 7, in clean
    return parsed(value)
  File "/usr/lib/python3.11/json/decoder.py", line 337, in decode
    raise ValueError
app.errors.OddError: two
lines: of it
 SQLSTATE: 38000
"""


class OddError(Exception):
    """An exception that only this file defines."""


def fail(frame: DataFrame, number: int) -> None:
    raise OddError("my own words")


class Failing:
    def write(self, batch: Any) -> None:
        raise OddError("my own words")


@F.udf(LongType())
def udf(value: int) -> int:
    raise KeyError("my own words")


def words(rows: list[dict[str, Any]]) -> str:
    return "my own words"


def mean(rows: list[dict[str, Any]]) -> float:
    return 1 / 0


class PairError(Exception):
    """An exception that is created from two values."""

    def __init__(self, words: str, value: int) -> None:
        super().__init__(f"{words}, {value}")


def add(total: int, value: int) -> int:
    raise PairError("my own words", value)


def total() -> Any:
    return mt.aggregate(
        "value", initializer=int, aggregator=add, merger=lambda a, b: a + b, state_type="long"
    )


def app(rows: DataFrame) -> Any:
    agents_app = mt.App("failing")
    table = agents_app.Table("seen", default=int)

    @agents_app.agent("rows")
    async def look(events: Any) -> None:
        async for event in events:
            table[event["key"]] += 1
            raise OddError("my own words")

    return mt.on_spark(agents_app, {"rows": mt.source(rows, key="key", time="at")})


def tens(rows: DataFrame, **aggregates: Any) -> Any:
    return mt.windowed(rows, key="key", time="at").tumbling("10 seconds").agg(**aggregates)


QUERIES: list[tuple[Callable[[DataFrame], Any], dict[str, Any], str, str, type[Exception]]] = [
    (lambda rows: tens(rows, n=mt.count()), {"results": fail},
     "OddError: my own words", "the sink of results, {here}, in fail", OddError),
    (lambda rows: tens(rows, n=mt.count()), {"rejected": Failing()},
     "OddError: my own words", "the sink of rejected, {here}, in write", OddError),
    (lambda rows: tens(rows.withColumn("value", udf("value")), n=mt.sum("value")), {},
     "KeyError: 'my own words'", "in a worker, {here}, in udf", KeyError),
    (lambda rows: tens(rows, n=mt.apply(mean, "value")), {},
     "ZeroDivisionError: division by zero", "in a worker, {here}, in mean", ZeroDivisionError),
    (lambda rows: tens(rows, n=mt.apply(words, "value", result_type="long")), {},
     "TypeError: result_type='long' can't hold 'my own words', which words returned: return a "
     "value of that type, or None; or name another type",
     "in a worker, {here}, in words", TypeError),
    (lambda rows: tens(rows, n=total()), {},
     "PairError: my own words, 1", "in a worker, {here}, in add", Exception),
    (app, {}, "OddError: my own words", "in a worker, {here}, in look", Exception),
]  # fmt: skip


@pytest.mark.parametrize(
    "case", QUERIES, ids=["function", "sink", "udf", "apply", "type", "aggregate", "agent"]
)
def test_his_own_exception_comes_first(case: Any, spark: SparkSession, tmp_path: Path) -> None:
    make, sinks, first, where, cause = case
    feed = Feed(tmp_path / "source")
    feed.add(("a", at(1), 1), ("a", at(25), 1), (None, at(25), 1))
    query = make(feed.stream(spark)).start(
        checkpoint=f"{tmp_path}/checkpoint", available_now=True, **sinks
    )
    with pytest.raises(mt.BatchError) as caught:
        query.await_end(240)
    here = f"{__file__}:"
    begin, _, end = where.partition("{here}")
    error = str(caught.value)
    assert error.startswith(f"{first} (batch 0, {begin}{here}")
    assert error.endswith(f"{end})")
    assert type(caught.value.__cause__) is cause
    assert "my own words" in str(caught.value.__cause__) or cause is ZeroDivisionError


def test_what_a_worker_sends_as_text_is_read() -> None:
    failure = Failure.of(PythonException(WORKER), 3, "in a worker", trace=WORKER)
    assert failure is not None
    assert (failure.kind, failure.message) == ("OddError", "two\nlines: of it")
    assert failure.location == "/home/me/app.py:7, in clean"
    assert str(failure.rebuild()) == "OddError: two\nlines: of it"
    assert Failure(**json.loads(json.dumps(asdict(failure)))) == failure


def test_where_no_code_of_his_is_in_it_the_error_stays_what_it_is() -> None:
    ours = WORKER.replace("/home/me/app.py", mt.__file__)
    assert Failure.of(PythonException(ours), 3, "in a worker", trace=ours) is None


def test_a_class_that_wants_more_than_a_message_is_an_exception_with_its_name() -> None:
    failure = Failure(0, "in a worker", "UnicodeDecodeError", "words", "x", "trace")
    assert str(failure.rebuild()) == "UnicodeDecodeError: words"
    assert failure.rebuild().__notes__ == ["trace"]
