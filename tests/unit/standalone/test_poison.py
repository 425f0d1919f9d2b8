"""Tests that no message stops an operator: each is counted or rejected, also after a restart."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import muntin as mt
from muntin.standalone import (
    JoinWindow,
    SessionAggregator,
    WindowedAggregator,
    join,
    windowed,
)
from muntin.stores import Image, memory

SECOND = 1_000_000
YEAR = 31_556_952 * SECOND


def nest(levels: int, wrap: Callable[[Any], Any]) -> Any:
    value = wrap(0)
    for _ in range(levels):
        value = wrap(value)
    return value


ODD = [
    math.inf,
    math.nan,
    2**62,
    -(2**62),
    2**63,
    -(2**200),
    1e300,
    Decimal("1e10000000"),
    Decimal("-1e-10000000"),
    Decimal("NaN"),
    "",
    "\0",
    "\ud800",
    "k" * 6_000,
    "9" * 100_000,
    "1e10000000",
    b"\xff",
    True,
    datetime.max,
    datetime.min.replace(tzinfo=UTC),
    date.min,
    [],
    {},
    {"": 1},
    {1: 2},
    {"\ud800": "\ud800"},
    nest(10_000, lambda value: [value]),
    nest(10_000, lambda value: {"a": value}),
    nest(10_000, lambda value: (value,)),
    object(),
    "x" * 1_000_000,
]
TIMES = [
    *ODD,
    -6970 * YEAR,
    56_000 * YEAR,
    "-5000-01-01T00:00:00Z",
    "57971-01-01T00:00:00Z",
    "1e10000000",
]


def make_operator(kind: str, image: Image) -> Any:
    sentence = windowed(key="k", time="at")
    windows: Any = {
        "tumbling": lambda: sentence.tumbling("10 s"),
        "hopping": lambda: sentence.hopping("10 s", "4 s"),
        "sliding": lambda: sentence.sliding("10 s"),
        "session": lambda: sentence.session("10 s"),
    }[kind]()
    spec = windows.agg(n=mt.count(), v=mt.max("v"), t=mt.last("t"), s=mt.sum("i"))
    operator_class = SessionAggregator if kind == "session" else WindowedAggregator
    return operator_class(spec, store=memory(image))


def check_sums(counts: dict[str, int], seen: int) -> None:
    assert counts["seen"] == seen
    rest = {name: n for name, n in counts.items() if name not in ("seen", "partly_late")}
    assert sum(rest.values()) == seen


@pytest.mark.parametrize("kind", ["tumbling", "hopping", "sliding", "session"])
@pytest.mark.parametrize(
    ("field", "stamps"),
    [*product(["k", "v", "t", "i"], ["numbers"]), ("at", "numbers"), ("at", "timestamps")],
)
def test_messages_one_by_one(kind: str, field: str, stamps: str) -> None:
    def message(second: int) -> dict[str, Any]:
        at: Any = second * SECOND
        if stamps == "timestamps":
            at = datetime.fromtimestamp(second, UTC)
        return {"k": "a", "at": at, "v": 1.5, "t": "x", "i": 1}

    def take(operator: Any, fields: dict[str, Any]) -> None:
        key, at = fields.pop("k"), fields.pop("at")
        operator.add_message(key=key, time=at, value=fields)

    image = Image()
    operator = make_operator(kind, image)
    take(operator, message(100))
    odd = TIMES if field == "at" else ODD
    for number, value in enumerate(odd, 2):
        take(operator, {**message(101), field: value})
        check_sums(operator.counts, number)
    assert len(operator.rejected) > 0
    assert set(operator.rejected["reason"]) <= {"malformed", "late", "future", "null_key"}
    before = operator.counts
    operator.flush()
    operator.close()
    operator = make_operator(kind, image)
    take(operator, message(102))
    after = operator.counts
    check_sums(after, before["seen"] + 1)
    assert operator.get_windows().height > 0


@pytest.mark.parametrize("field", ["k", "at", "v"])
def test_messages_in_batches(field: str) -> None:
    rows = [{"k": "a", "at": 100 * SECOND, "v": 1.5, "t": "x", "i": 1}]
    odd = TIMES if field == "at" else ODD
    rows += [{**rows[0], field: value} for value in odd]
    operator = make_operator("tumbling", Image())
    operator.add_messages(rows)
    check_sums(operator.counts, len(rows))
    operator.add_messages(rows[:1])
    check_sums(operator.counts, len(rows) + 1)


@pytest.mark.parametrize("field", ["id", "at", "v"])
def test_messages_of_a_join(field: str) -> None:
    side = windowed(time="at")
    operator = JoinWindow(join(side, side, on="id", within=(0, "10 s"), how="left"))
    row = {"id": 1, "at": 100 * SECOND, "v": 1.5}
    odd = TIMES if field == "at" else ODD
    for number, value in enumerate([row[field], *odd], 1):
        for name in ("left", "right"):
            message = {**row, field: value}
            operator.add_message(
                name, key=message["id"], time=message["at"], value={"v": message["v"]}
            )
        assert operator.counts["seen"] == 2 * number
    operator.flush()
    operator.add_message("left", key=1, time=101 * SECOND, value={"v": 2.5})
    assert operator.counts["seen"] == 2 * (len(odd) + 1) + 1


def test_tables_of_extreme_times() -> None:
    times = [2**63 - 1, -(2**63), 2**62, -(2**62), 0]
    for unit in ("ms", "us"):
        stamps = pa.array(times, pa.timestamp(unit))
        operator = WindowedAggregator(
            windowed(key="k", time="at").tumbling("10 s").agg(n=mt.count())
        )
        operator.add_messages(pa.table({"k": ["a"] * 5, "at": stamps}))
        assert operator.counts["malformed"] == 4
        check_sums(operator.counts, 5)
        assert operator.rejected["reason"].to_list() == ["malformed"] * 4


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_receivers_get_times_that_python_cant_hold_as_text(zone: str | None) -> None:
    far, near = 1_767_225_600_000_000_000, 1_767_225_600_000_000
    stamps = pa.timestamp("us", tz=zone)
    values = {"at": [near, near, far], "x": [near, far, near], "deep": [[near], [near, far], []]}
    types = {"at": stamps, "x": stamps, "deep": pa.list_(stamps)}
    columns = {
        n: pa.array(v, pa.list_(pa.int64()) if n == "deep" else None) for n, v in values.items()
    }
    table = pa.table({"k": ["a", "b", "c"], **{n: columns[n].cast(t) for n, t in types.items()}})
    results: list[Any] = []
    errors: list[Any] = []
    spec = windowed(key="k", time="at").tumbling("10 s").early(each=True)
    operator = WindowedAggregator(
        spec.agg(x=mt.max("x"), deep=mt.last("deep")),
        downstream=results.append,
        errors=errors.append,
    )
    operator.add_messages(table)
    assert [str(row["x"])[:12] for row in results] == ["2026-01-01 0", "+57971-02-25"]
    assert [str(time)[:12] for time in results[1]["deep"]] == ["2026-01-01 0", "+57971-02-25"]
    assert [(row["reason"], row["k"]) for row in errors] == [("malformed", "c")]
    assert errors[0]["unread"] == f"at={far}"
    check_sums(operator.counts, 3)


@pytest.mark.parametrize("batch", [False, True])
def test_text_that_isnt_utf8_in_arrow_tables(batch: bool) -> None:
    binary = pa.array([b"a", b"\xff", b"a", b"\xed\xa0\x80"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 4, binary.buffers())
    times = [5 * SECOND, 5 * SECOND, 2**63 - 1, 6 * SECOND]
    table: Any = pa.table({"k": text, "at": times, "v": ["x", "y", "z", "w"]})
    results: list[Any] = []
    errors: list[Any] = []
    operator = WindowedAggregator(
        windowed(key="k", time="at", max_ahead=None)
        .tumbling("10 s")
        .early(each=True)
        .agg(n=mt.count()),
        downstream=results.append,
        errors=errors.append,
    )
    operator.add_messages(table.to_batches()[0] if batch else table)
    check_sums(operator.counts, 4)
    assert [(row["k"], row["n"]) for row in results] == [("a", 1)]
    rejected = {row["v"]: (row["reason"], row["k"], row["unread"]) for row in errors}
    assert rejected["y"] == ("malformed", "\\xff", "k isn't UTF-8")
    assert rejected["w"] == ("malformed", "\\xed\\xa0\\x80", "k isn't UTF-8")
    assert rejected["z"][0] == "malformed"


def test_half_surrogate_pairs_in_pandas_frames() -> None:
    errors: list[Any] = []
    operator = WindowedAggregator(
        windowed(key="k", time="at").tumbling("10 s").agg(n=mt.count()), errors=errors.append
    )
    cells = {"k": ["a", "\ud800", None], "at": [SECOND] * 3, "x": [0.5, math.nan, 1.5]}
    operator.add_messages(pd.DataFrame(cells))
    check_sums(operator.counts, 3)
    assert [(row["k"], row["reason"], row["unread"]) for row in errors] == [
        ("\\xed\\xa0\\x80", "malformed", "k isn't UTF-8"), (None, "null_key", None)
    ]  # fmt: skip
    assert errors[0]["x"] is None


def test_nested_text_that_isnt_utf8() -> None:
    binary = pa.array([b"x", b"a\xff"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 2, binary.buffers())
    deep = pa.StructArray.from_arrays([text, pa.array([1, 2])], ["s", "n"])
    errors: list[Any] = []
    operator = WindowedAggregator(
        windowed(key="k", time="at").tumbling("10 s").agg(n=mt.count()), errors=errors.append
    )
    operator.add_messages(pa.table({"k": ["a", "b"], "at": [SECOND] * 2, "deep": deep}))
    check_sums(operator.counts, 2)
    (rejected,) = errors
    assert (rejected["k"], rejected["reason"], rejected["unread"]) == (
        "b",
        "malformed",
        "deep isn't UTF-8",
    )
    assert rejected["deep"] == {"s": "a\\xff", "n": 2}


def test_names() -> None:
    many = {f"c{number}": [1] for number in range(10_000)}
    operator = WindowedAggregator(windowed(key="k", time="at").tumbling("10 s").agg(n=mt.count()))
    operator.add_messages(pl.DataFrame({"k": ["a"], "at": [SECOND], "": [1], **many}))
    check_sums(operator.counts, 1)
    double = pa.table([["a"], [SECOND], [SECOND]], names=["k", "at", "at"])
    with pytest.raises(mt.OptionError, match="isn't a table"):
        operator.add_messages(double)
    check_sums(operator.counts, 1)


@pytest.mark.slow
def test_a_key_of_ten_million_characters_and_a_text_of_fifty() -> None:
    operator = make_operator("tumbling", Image())
    for number, (key, text) in enumerate([("a", "x"), ("k" * 10**7, "x"), ("a", "x" * 5 * 10**7)]):
        value = {"v": 1.5, "t": text, "i": 1}
        operator.add_message(key=key, time=(100 + number) * SECOND, value=value)
    assert operator.counts["counted"] == 3
    operator.add_message(key="a", time=200 * SECOND, value={"v": 1.5, "t": "x", "i": 1})
    assert sorted(operator.get_result()["k"].str.len_chars().to_list()) == [1, 10**7]
