"""Tests of a user's functions that fail, return a wrong type or hang, and of the first lines."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.operations.test_first_lines import COLUMNS, put

import muntin as mt
from muntin.model import patience


def fail(*values: Any) -> Any:
    raise KeyError("my own words")


def measure(rows: list[dict[str, Any]]) -> Any:
    return "a word"


def aggregate(**functions: Callable[..., Any]) -> Any:
    defaults = {"initializer": int, "aggregator": lambda n, _: n + 1, "merger": lambda a, b: a + b}
    return mt.aggregate("k", **{**defaults, **functions}, state_type="long")


AGGREGATES = {
    "aggregator": lambda: aggregate(aggregator=fail),
    "merger": lambda: aggregate(merger=fail),
    "finisher": lambda: aggregate(finisher=fail),
    "apply": lambda: mt.apply(fail, "k"),
}


def start(folder: Path, **aggregates: Any) -> Any:
    put(folder / "in", "1.jsonl", -9, -9, -1)
    clicks = mt.files(f"{folder}/in/*.jsonl", columns=COLUMNS)
    windows = mt.windowed(clicks, time="at").tumbling("1 hour").early(each=True)
    return windows.agg(**aggregates).start(
        checkpoint=folder / "checkpoint", results=mt.to_memory(), available_now=True
    )


@pytest.mark.parametrize("name", AGGREGATES)
def test_a_function_that_raises_is_named_with_its_line(tmp_path: Path, name: str) -> None:
    """Spark prints the same line, which tests/spark/test_failures.py tests."""
    with pytest.raises(mt.BatchError) as caught:
        start(tmp_path, n=AGGREGATES[name]()).await_end(60)
    line = fail.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        f"KeyError: 'my own words' (batch 0, a function, {__file__}:{line}, in fail)"
    )
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_result_of_a_wrong_type_is_named_with_its_function(tmp_path: Path) -> None:
    with pytest.raises(mt.BatchError) as caught:
        start(tmp_path, n=mt.apply(measure, "k", result_type="long")).await_end(60)
    assert str(caught.value) == (
        "TypeError: result_type='long' can't hold 'a word', which measure returned: return a value "
        f"of that type, or None; or name another type (batch 0, a function, {__file__}:"
        f"{measure.__code__.co_firstlineno}, in measure)"
    )


def test_an_expression_that_fails_is_named(tmp_path: Path) -> None:
    put(tmp_path / "in", "1.jsonl", -9)
    clicks = mt.files(f"{tmp_path}/in/*.jsonl", columns=COLUMNS)
    condition = pl.col("k").map_elements(fail, return_dtype=pl.Boolean)
    windows = mt.windowed(clicks, time="at", where=condition).tumbling("1 hour").agg(n=mt.count())
    with pytest.raises(mt.BatchError, match="my own words") as caught:
        windows.start(checkpoint=tmp_path / "checkpoint", available_now=True).await_end(60)
    assert "batch 0" in str(caught.value)


def test_a_function_that_stands_still_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "_SILENCE", 0.1)
    may_return = threading.Event()

    def wait(rows: list[dict[str, Any]]) -> float:
        assert may_return.wait(60)
        return 1.0

    query = start(tmp_path, n=mt.apply(wait, "k"))
    while not caplog.messages:
        assert query.is_active
    (line,) = caplog.messages
    assert line.startswith("the function wait hasn't answered since ")
    assert line.endswith("; its batch waits for it")
    assert str(query.progress.degradation).startswith("waiting for the function wait (since ")
    may_return.set()
    query.await_end(60)
    assert caplog.messages[-1].startswith("the function wait answers again, after ")
    assert query.progress.degradation is None
