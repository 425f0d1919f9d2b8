"""Tests that no message stops an app: each is accepted or rejected, also after a restart."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import muntin as mt
from muntin.stores import Image, memory
from muntin.tables import App

DEEP: Any = []
for _ in range(10_000):
    DEEP = [DEEP]
BRACKETS = "[" * 10_000 + "]" * 10_000
TIMES = [
    -219_965_000_000.0, 1_767_225_600_000.0, 1e300, -1e300, math.inf, -math.inf, math.nan, "",
    "\0", "\ud800", DEEP, {}, 2**70, -(2**70), datetime.max, datetime.min.replace(tzinfo=UTC),
    True, Decimal("1e100000000"), b"x", "57971-01-01", "9" * 100_000,
]  # fmt: skip
KEYS = [
    "\0", "\ud800", "k" * 6_000, math.nan, math.inf, 2**70, b"\xff", DEEP, {}, "",
    Decimal("1e10000000"), object(), ("\ud800",), ("a", math.nan),
]  # fmt: skip
VALUES = [
    "\ud800", "x" * 1_000_000, DEEP, BRACKETS, BRACKETS.encode(), b"\xff\xfe",
    '{"n": 1e10000000}', '{"n": "\ud800"}', "1" * 10_000, object(), math.nan, {"\ud800": 1},
    {1: 2}, "[", {"n": DEEP}, {"n": 2**70},
]  # fmt: skip


def make_counting_app(value_type: Any) -> tuple[App, Any]:
    app = App("app", max_ahead=None)
    plain = app.Table("plain", default=int)
    minutes = app.Table("minutes", default=int).tumbling(10, expires=60)

    @app.agent(app.topic("events", value_type=value_type))
    async def count(events: Any) -> None:
        async for key, _ in events.items():  # noqa: PERF102  (a stream, not a dictionary)
            plain[key] += 1
            minutes[key] += 1

    return app, plain


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("value_type", [None, dict[str, int]])
def test_each_message_is_taken_or_rejected(partitions: int, value_type: Any) -> None:
    image = Image()
    app, plain = make_counting_app(value_type)
    sent = 0
    with app.open(store=memory(image), partitions=partitions) as running:
        sends = [({"n": 1}, "k", time) for time in TIMES]
        sends += [({"n": 1}, key, 1.0) for key in KEYS]
        sends += [(value, "k", 2.0) for value in VALUES]
        for value, key, time in sends:
            running.send("events", value, key=key, timestamp=time)
            sent += 1
            counts = running.counts
            assert counts["seen"] == sent
            rejected = sum(n for name, n in counts.items() if name in ("malformed", "future"))
            assert counts["taken"] + rejected == sent
        taken, before = plain["k"], running.counts
    app, plain = make_counting_app(value_type)
    with app.open(store=memory(image), partitions=partitions) as running:
        assert +Counter(running.counts) == +Counter(before)
        running.send("events", {"n": 1}, key="k", timestamp=3.0)
        assert plain["k"] == taken + 1
        assert running.counts["seen"] == sent + 1


@pytest.mark.parametrize("kind", ["arrow", "polars", "parquet"])
def test_times_in_frames_that_python_cant_hold(tmp_path: Path, kind: str) -> None:
    times = pa.array([3_000_000, 1_767_225_600_000_000_000, 4_000_000]).cast(pa.timestamp("us"))
    table = pa.table({"k": ["a", "a", "a"], "at": times})
    data: Any = pl.from_arrow(table) if kind == "polars" else table
    if kind == "parquet":
        data = str(tmp_path / "events.parquet")
        pq.write_table(table, data)
    app, plain = make_counting_app(None)
    with app.run({"events": mt.source(data, key="k", time="at")}) as running:
        assert plain["a"] == 2
        assert running.counts["malformed"] == 1
        (rejected,) = running.rejected
        assert rejected.value["at"].startswith("+57971-02-25")


@pytest.mark.parametrize("kind", ["table", "batch", "parquet"])
def test_text_that_isnt_utf8(tmp_path: Path, kind: str) -> None:
    binary = pa.array([b"a", b"\xff", b"a", b"\xed\xa0\x80", b"a"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 5, binary.buffers())
    table: Any = pa.table({"k": text, "at": [1.0, 2.0, 3.0, 4.0, 5.0]})
    app, plain = make_counting_app(None)
    data = table.to_batches()[0] if kind == "batch" else table
    if kind == "parquet":
        data = str(tmp_path / "events.parquet")
        pq.write_table(table, data)
    with app.run({"events": mt.source(data, key="k", time="at")}) as running:
        assert dict(plain.items()) == {"a": 3}
        assert running.counts["malformed"] == 2
        assert [row.value["k"] for row in running.rejected] == ["\\xff", "\\xed\\xa0\\x80"]
        assert {row.detail for row in running.rejected} == {"k isn't UTF-8"}
    messages = mt.source(data, key="k").messages(3)
    assert [(message.key, message.read_error) for message in messages] == [
        ("\\xed\\xa0\\x80", "k isn't UTF-8"), ("a", None)
    ]  # fmt: skip


def test_half_surrogate_pairs_in_pandas_frames() -> None:
    app, plain = make_counting_app(None)
    frame = pd.DataFrame({"k": ["a", "\ud800", "b"], "at": [1.0, 2.0, 3.0]}, index=[7, 8, 9])
    with app.run({"events": mt.source(frame, key="k", time="at")}) as running:
        assert dict(plain.items()) == {"a": 1, "b": 1}
        (rejected,) = running.rejected
        assert (rejected.reason, rejected.offset) == ("malformed", 1)
        assert (rejected.value["k"], rejected.detail) == ("\\xed\\xa0\\x80", "k isn't UTF-8")


def test_lines_of_csv_whose_quotes_dont_end(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(b'k,at\na,1\n"a,2\na,3\n"b",4\n')
    app, plain = make_counting_app(None)
    with app.run({"events": mt.source(path, key="k", time="at")}) as running:
        assert dict(plain.items()) == {"a": 2, "b": 1}
        (rejected,) = running.rejected
        assert (rejected.reason, rejected.value, rejected.offset) == ("malformed", b'"a,2', 1)
        assert rejected.detail == "a quote doesn't end where its field does"


@pytest.mark.slow
def test_a_key_of_ten_million_characters_and_a_value_of_fifty() -> None:
    app, plain = make_counting_app(None)
    with app.open(store=memory(Image()), partitions=4) as running:
        running.send("events", "x" * 5 * 10**7, key="k", timestamp=1.0)
        running.send("events", {"n": 1}, key="k" * 10**7, timestamp=1.0)
        assert running.counts["taken"] == 2
        assert plain["k" * 10**7] == 1
