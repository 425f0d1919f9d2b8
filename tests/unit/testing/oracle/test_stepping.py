from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from muntin.model import aggregates
from muntin.model.cumulating import Cumulating
from muntin.model.policies import Each, Firing
from muntin.model.sliding import Sliding
from muntin.model.spec import WindowSpec
from muntin.model.windows import Windows
from muntin.testing.oracle import Oracle

SPEC = WindowSpec(
    keys=("key",),
    time="time",
    windows=Windows(10, 10),
    aggregates={"n": aggregates.count(), "sum": aggregates.sum("value")},
)


def message(time: Any, value: int | None = 1, key: str | None = "a") -> dict[str, Any]:
    return {"key": key, "time": time, "value": value}


def test_the_columns_of_an_emission() -> None:
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


def test_the_watermark_from_the_first_batch_to_the_end() -> None:
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
        "undecided": 0,
        "partly_late": 0,
        "duplicates": 0,
        "late": 1,
        "future": 1,
        "null_key": 1,
        "null_time": 1,
        "malformed": 1,
        "outside": 0,
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


def test_an_overflow_is_reported_once_per_emission_with_every_column() -> None:
    sums = {"one": aggregates.sum("value"), "two": aggregates.sum("value")}
    oracle = Oracle(replace(SPEC, aggregates=sums))
    oracle.step([message(1, 2**63 - 1)], wall=0)
    step = oracle.step([message(2, 1)], wall=0, final=True)
    assert step.firings[0]["one"] is step.firings[0]["two"] is None
    assert step.rejected == [
        {"key": "a", "time": 0, "value": None, "reason": "overflow", "watermark": 1}
    ]
    assert step.counts["overflow"] == 1


def test_the_input_is_not_changed() -> None:
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


def test_a_users_aggregate_gets_values_in_order_of_time_and_no_nulls() -> None:
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


OFFSET_COLUMNS = ("partition", "offset")


def message_at(
    offset: int | None, key: str | None = "a", partition: int | None = 0
) -> dict[str, Any]:
    return {"partition": partition, "offset": offset, "key": key, "value": offset}


def build_offset_spec(**options: Any) -> WindowSpec:
    windows = Windows(3, 3, axis="rows")
    counts = {"n": aggregates.count()}
    return WindowSpec(("partition", "key"), None, windows, counts, offset=OFFSET_COLUMNS, **options)


def test_repeated_messages_are_only_counted() -> None:
    oracle = Oracle(build_offset_spec())
    oracle.step([message_at(0), message_at(0), message_at(1, key=None)], wall=0)
    step = oracle.step(
        [message_at(1, key=None), message_at(0), message_at(None), message_at(None), message_at(2)],
        wall=1,
    )
    assert step.counts["seen"] == 5
    assert (step.counts["duplicates"], step.counts["malformed"], step.counts["counted"]) == (
        2,
        2,
        1,
    )
    assert [row["reason"] for row in step.rejected] == ["malformed", "malformed"]
    assert [(row["n"], row["emission"]) for row in step.firings] == [(2, "full")]


def test_the_rows_axis_has_no_watermark() -> None:
    oracle = Oracle(build_offset_spec())
    assert oracle.step([message_at(7)], wall=0).watermark is None
    step = oracle.step([message_at(1)], wall=1, final=True)
    assert step.watermark is None
    assert step.rejected == [message_at(1) | {"reason": "late", "watermark": None}]


def test_late_and_other_messages_are_rejected_in_order_of_arrival() -> None:
    oracle = Oracle(build_offset_spec())
    oracle.step([message_at(7)], wall=0)
    step = oracle.step(
        [message_at(1), message_at(9, key=None), message_at(2), message_at(8)], wall=1
    )
    assert [row["reason"] for row in step.rejected] == ["late", "null_key", "late"]
    assert step.counts["counted"] == 1


def test_an_overflow_on_the_rows_axis_has_its_first_offset() -> None:
    spec = replace(build_offset_spec(), aggregates={"sum": aggregates.sum("value")})
    batch = [message_at(3) | {"value": 2**63 - 1}, message_at(4)]
    step = Oracle(spec).step(batch, wall=0, final=True)
    assert step.firings[0]["sum"] is None
    assert step.rejected == [
        message_at(3) | {"value": None, "reason": "overflow", "watermark": None},
    ]


def test_an_overflow_by_arrival_has_only_its_key() -> None:
    windows, total = Windows(2, 2, axis="rows"), {"sum": aggregates.sum("value")}
    spec = WindowSpec(("key",), None, windows, total)
    batch = [{"key": "a", "value": 2**63 - 1}, {"key": "a", "value": 1}]
    step = Oracle(spec).step(batch, wall=0)
    assert step.rejected == [{"key": "a", "value": None, "reason": "overflow", "watermark": None}]


@pytest.mark.parametrize(
    "windows", [Windows(3, 2, axis="rows"), Cumulating(4, 2, axis="rows"), Sliding(3, "rows")]
)
def test_after_the_end_every_message_is_late(windows: Any) -> None:
    oracle = Oracle(WindowSpec(("key",), None, windows, {"n": aggregates.count()}))
    oracle.step([{"key": "a"}], wall=0, final=True)
    assert oracle.step([{"key": "a"}], wall=1).counts["late"] == 1
