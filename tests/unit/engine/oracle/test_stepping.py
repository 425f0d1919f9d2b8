from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from muntin.engine.oracle import Oracle
from muntin.model import aggregates
from muntin.model.policies import Each, Firing
from muntin.model.spec import WindowSpec
from muntin.model.windows import Windows

SPEC = WindowSpec(
    keys=("key",),
    time="time",
    windows=Windows(10, 10),
    aggregates={"n": aggregates.count(), "sum": aggregates.sum("value")},
)


def message(time: Any, value: int | None = 1, key: str | None = "a") -> dict[str, Any]:
    return {"key": key, "time": time, "value": value}


def test_the_columns_of_a_firing() -> None:
    step = Oracle(SPEC).step([message(3, 7)], wall=0, final=True)
    assert step.firings == [
        {
            "key": "a",
            "window_start": 0,
            "window_end": 10,
            "n": 1,
            "sum": 7,
            "emission": "full",
            "revision": 0,
        }
    ]
    assert list(step.firings[0])[-2:] == ["emission", "revision"]


def test_the_watermark_from_nothing_to_the_end() -> None:
    oracle = Oracle(replace(SPEC, lateness=4))
    assert oracle.step([], wall=0).watermark is None
    assert oracle.step([message(3)], wall=1).watermark == -1
    assert oracle.step([message(1)], wall=2).watermark == -1
    assert oracle.step([], wall=3, final=True).watermark == math.inf


def test_counts_add_up() -> None:
    oracle = Oracle(replace(SPEC, max_ahead=50))
    oracle.step([message(30)], wall=0)
    batch = [
        message(30),
        message(3),
        message(99),
        message("?"),
        message(None),
        message(5, key=None),
    ]
    step = oracle.step(batch, wall=0)
    assert step.counts == {
        "seen": 6,
        "counted": 1,
        "duplicates": 0,
        "late": 1,
        "future": 1,
        "null_key": 1,
        "null_time": 1,
        "malformed": 1,
        "overflow": 0,
    }
    assert [row["reason"] for row in step.rejected] == [
        "late",
        "future",
        "malformed",
        "null_time",
        "null_key",
    ]
    assert {row["watermark"] for row in step.rejected} == {30}


def test_a_rejected_message_keeps_its_columns() -> None:
    step = Oracle(SPEC).step([message(None, 7) | {"other": "x"}], wall=0)
    assert step.rejected == [
        {
            "key": "a",
            "time": None,
            "value": 7,
            "other": "x",
            "reason": "null_time",
            "watermark": None,
        }
    ]


def test_an_overflow_is_told_once_a_firing_with_every_column() -> None:
    twice = {"one": aggregates.sum("value"), "two": aggregates.sum("value")}
    oracle = Oracle(replace(SPEC, aggregates=twice))
    oracle.step([message(1, 2**63 - 1)], wall=0)
    step = oracle.step([message(2, 1)], wall=0, final=True)
    assert step.firings[0]["one"] is step.firings[0]["two"] is None
    assert step.rejected == [
        {"key": "a", "time": 0, "value": None, "reason": "overflow", "watermark": 1}
    ]
    assert step.counts["overflow"] == 1


def test_the_input_is_left_alone() -> None:
    batch = [message(3), message(None)]
    copies = [dict(row) for row in batch]
    Oracle(SPEC).step(batch, wall=0, final=True)
    assert batch == copies


@pytest.mark.parametrize("time", [-62_135_596_800_000_000, 253_402_300_799_999_999])
def test_the_ends_of_time(time: int) -> None:
    step = Oracle(replace(SPEC, windows=Windows(10, 3))).step([message(time)], wall=0, final=True)
    assert len(step.firings) in (3, 4)
    assert all(row["window_start"] <= time < row["window_end"] for row in step.firings)


def test_a_query_without_keys() -> None:
    spec = replace(SPEC, keys=(), firing=Firing(early=Each()))
    step = Oracle(spec).step([message(3), message(4, key=None)], wall=0)
    assert [(row["n"], row["emission"]) for row in step.firings] == [(2, "early")]


@pytest.mark.parametrize(
    ("values", "expected"), [([0.1] * 3, 0.1), ([1.0, math.nan], math.nan), ([math.inf], math.inf)]
)
def test_mean_of_floats(values: list[float], expected: float) -> None:
    oracle = Oracle(replace(SPEC, aggregates={"mean": aggregates.mean("value")}))
    step = oracle.step([message(3, value) for value in values], wall=0, final=True)
    assert step.firings[0]["mean"] == pytest.approx(expected, nan_ok=True)


def test_the_users_own_sees_values_in_order_of_time_and_no_nulls() -> None:
    text = aggregates.aggregate(
        "value",
        initializer=str,
        aggregator=lambda state, value: state + str(value),
        merger=lambda one, other: one + other,
        finisher=lambda state: f"<{state}>",
        state_type="string",
    )
    oracle = Oracle(replace(SPEC, aggregates={"text": text}))
    batch = [message(5, 3), message(1, 1), message(2, None), message(3, 2)]
    assert oracle.step(batch, wall=0, final=True).firings[0]["text"] == "<123>"
