from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tests.unit.engine.queries import combiner, messages

from muntin.engine import columns
from muntin.engine.windows.combine import Combined, Combiner
from muntin.model import aggregates
from muntin.model.counts import count_outcomes
from muntin.model.cumulating import Cumulating
from muntin.model.errors import OptionError
from muntin.model.kinds import Kind
from muntin.model.policies import Firing
from muntin.model.sliding import Sliding
from muntin.model.windows import Windows
from muntin.state import lookup
from muntin.testing.oracle import Oracle

LEAST, GREATEST = -(2**63), 2**63 - 1


def list_cells(combined: Combined) -> list[tuple[Any, ...]]:
    return sorted(combined.cells.select("k0", columns.PANE, columns.MESSAGES, "a1.s").rows())


def test_messages_become_one_row_a_key_and_pane() -> None:
    # time   0   3 | 5     9 | 10     windows of 10 every 5
    # a      1   2 |       4 |
    # b            | 8       | 16
    rows = [("a", 0, 1), ("a", 3, 2), ("a", 9, 4), ("b", 5, 8), ("b", 10, 16)]
    combined = combiner(Windows(10, 5)).combine(messages(rows), None)
    assert list_cells(combined) == [("a", 0, 2, 3), ("a", 1, 1, 4), ("b", 1, 1, 8), ("b", 2, 1, 16)]
    assert combined.counts == {"seen": 5, "counted": 5}
    assert (combined.latest, combined.clock) == (10, None)
    assert len(combined.rejected) == 0


def test_cells_keep_the_order_of_the_messages() -> None:
    # So a batch that is repeated adds the same floats in the same order.
    rows = [(f"k{n * 7919 % 1000}", 0, n) for n in range(3000)]
    order = [key for key, _, _ in rows[:1000]]
    query = combiner(Windows(10, 10))
    lifted = query.combine(messages(rows), None).cells
    assert lifted["k0"].to_list() == order
    assert query.merge([lifted, lifted.reverse()])["k0"].to_list() == order


@pytest.mark.parametrize(
    ("windows", "times", "partly_late"),
    [
        # The watermark is 10, so windows that end by then take nothing more.
        (Windows(10, 10), [9, 10, 12], 0),
        (Windows(10, 5), [6, 5, 10, 14], 2),
        (Windows(10, 4), [2, 4, 5, 7, 8, 9], 5),
        (Cumulating(20, 5), [0, 4, 9, 10, 14], 3),
        (Sliding(10), [8, 9, 10, 11], 2),
    ],
)
def test_messages_that_some_of_their_windows_no_longer_take_are_counted(
    windows: Kind, times: list[int], partly_late: int
) -> None:
    query = combiner(windows)
    combined = query.combine(messages([("a", time, 1) for time in times]), 10)
    oracle = Oracle(query.spec)
    oracle.step([{"key": "a", "time": 10, "value": 1}], wall=0)
    step = oracle.step([{"key": "a", "time": time, "value": 1} for time in times], wall=0)
    expected_counts = {name: n for name, n in step.counts.items() if n}
    assert combined.counts.get("partly_late", 0) == partly_late == step.counts["partly_late"]
    assert {name: n for name, n in combined.counts.items() if n} == expected_counts
    assert count_outcomes(combined.counts) == len(times)


def test_a_message_with_several_faults_is_rejected_for_the_first() -> None:
    # Each row has one fault fewer than the row before.
    rows = [(None, None), (None, None), (None, None), (None, 0), ("a", 0), ("a", 0), ("a", 99)]
    keep = [False] + [True] * 6
    malformed = [True, True] + [False] * 5
    future = [True] * 5 + [False] * 2
    flags = {
        columns.KEEP: keep,
        columns.MALFORMED: malformed,
        columns.LIMIT_FLAGS["future"]: future,
    }
    combined = combiner().combine(messages(rows, **flags), 50)
    assert combined.rejected[columns.REASON].to_list() == [
        "malformed",
        "null_time",
        "null_key",
        "future",
        "late",
    ]
    assert combined.counts == {
        "seen": 7,
        "counted": 1,
        "filtered": 1,
        "malformed": 1,
        "null_time": 1,
        "null_key": 1,
        "future": 1,
        "late": 1,
    }


def test_a_message_with_a_null_flag_is_not_accepted() -> None:
    flags = {columns.KEEP: [None, True, True], columns.MALFORMED: [None, None, False]}
    combined = combiner().combine(messages([("a", 1)] * 3, **flags), None)
    assert combined.counts == {"seen": 3, "counted": 1, "filtered": 1, "malformed": 1}


def test_a_rejected_message_keeps_its_columns_and_no_flags() -> None:
    frame = messages([("a", None, 7, 0.5, True)], **{columns.LIMIT_FLAGS["future"]: [False]})
    rejected = combiner().combine(frame, None).rejected
    assert rejected.to_dicts() == [
        {
            "key": "a",
            "value": 7,
            "amount": 0.5,
            "flag": True,
            columns.TIME: None,
            columns.REASON: "null_time",
        }
    ]


@pytest.mark.parametrize(
    ("grace", "time", "reason"),
    [(0, 9, "late"), (0, 10, None), (3, 9, "late"), (4, 9, None), (4, 0, None), (4, -1, "late")],
)
def test_a_message_is_late_if_no_open_window_takes_it(
    grace: int, time: int, reason: str | None
) -> None:
    # watermark 13: window 0 is [0, 10), and open until 10 + grace
    query = combiner(firing=Firing(grace=grace, retention=grace))
    combined = query.combine(messages([("a", time)]), 13)
    assert combined.rejected[columns.REASON].to_list() == ([] if reason is None else [reason])


def test_a_message_in_overlapping_windows_is_late_if_all_are_closed() -> None:
    # windows of 10 every 5, watermark 14: [0, 10) is closed, [5, 15) is open
    combined = combiner(Windows(10, 5)).combine(messages([("a", 4), ("a", 5)]), 14)
    assert combined.rejected[columns.TIME].to_list() == [4]


def test_which_messages_move_the_watermark() -> None:
    # A message of the future doesn't; a late one, and one without a key, may.
    rows = [("a", 10), ("a", 99), (None, 50)]
    frame = messages(rows, **{columns.LIMIT_FLAGS["future"]: [False, True, False]})
    assert combiner().combine(frame, None).latest == 50
    assert combiner().combine(messages([("a", 5)]), 1000).latest == 5
    assert combiner().combine(messages([("a", None)]), None).latest is None
    assert combiner().combine(messages([]), 3).latest is None


def test_the_messages_own_clock_counts_rejected_ones_too() -> None:
    frame = messages([("a", 1), ("a", None)], **{columns.CLOCK: [5, 9]})
    assert combiner().combine(frame, None).clock == 9
    null_clocks = frame.with_columns(pl.lit(None, dtype=pl.Int64).alias(columns.CLOCK))
    assert combiner().combine(null_clocks, None).clock is None


def test_no_messages_make_no_cells() -> None:
    query = combiner(Windows(10, 3))
    combined = query.combine(messages([]), 5)
    assert combined.counts == {"seen": 0, "counted": 0}
    assert combined.cells.equals(query.no_cells)
    assert combined.cells.schema == query.combine(messages([("a", 1, 1)]), None).cells.schema
    assert combined.rejected.equals(query.nothing_rejected)


INTEGERS = [
    pytest.param([-1, 0, 2], id="near"),
    pytest.param([LEAST, LEAST + 1], id="least"),
    pytest.param([GREATEST, GREATEST - 1], id="greatest"),
    pytest.param([LEAST, 0, GREATEST], id="both ends"),
    pytest.param([0, 2**62], id="as wide as fits"),
]


@pytest.mark.parametrize("keys", INTEGERS)
@pytest.mark.parametrize("spread", [1, 1000, 10**17])
def test_integer_keys_group_as_strings_do(keys: list[int], spread: int) -> None:
    rows = [(key, time * spread, 1 + time) for key in keys for time in (-3, -3, 0, 7)]
    integer_query = combiner(schema={"key": pl.Int64()})
    text_query = combiner(schema={"key": pl.String()})
    cells = list_cells(integer_query.combine(messages(rows, {"key": pl.Int64()}), None))
    text_rows = [(str(key), *rest) for key, *rest in rows]
    expected = list_cells(text_query.combine(messages(text_rows), None))
    assert cells == sorted((int(key), *rest) for key, *rest in expected)


def test_two_integer_keys() -> None:
    schema = {"key": pl.Int8(), "value": pl.UInt32()}
    query = combiner(schema=schema, keys=("key", "value"), aggs={"n": aggregates.count()})
    rows = [(-128, 0, 0), (127, 0, 2**32 - 1), (127, 15, 0), (-128, 0, 0)]
    cells = query.combine(messages(rows, schema), None).cells
    assert cells.schema == pl.Schema(
        {"k0": pl.Int8(), "k1": pl.UInt32(), "pane": pl.Int64(), "n": pl.Int64()}
    )
    expected = [(-128, 0, 0, 2), (127, 0, 1, 1), (127, 2**32 - 1, 0, 1)]
    assert sorted(cells.rows()) == expected


@pytest.mark.parametrize(
    ("dtype", "keys"),
    [
        (pl.UInt64(), [0, 2**64 - 1]),
        (pl.Boolean(), [False, True]),
        (pl.Date(), [date(1, 1, 1), date(9999, 12, 31)]),
        (pl.Decimal(10, 2), [Decimal("-1.50"), Decimal("2.25")]),
        (pl.Binary(), [b"", b"\xff"]),
    ],
    ids=str,
)
def test_keys_of_every_type(dtype: pl.DataType, keys: list[Any]) -> None:
    query = combiner(schema={"key": dtype})
    rows = [(key, 1, 1) for key in keys] * 2
    combined = query.combine(messages(rows, {"key": dtype}), None)
    assert combined.cells["k0"].dtype == dtype
    assert list_cells(combined) == [(key, 0, 2, 2) for key in keys]


@pytest.mark.parametrize("dtype", [pl.Float64(), pl.Float32(), pl.List(pl.Int64())], ids=str)
def test_types_that_keys_cannot_have(dtype: pl.DataType) -> None:
    with pytest.raises(OptionError, match=r"key='key' has type .*; use strings"):
        combiner(schema={"key": dtype})


def test_extreme_times() -> None:
    times = [-62_135_596_800_000_000, 253_402_300_799_999_999]
    combined = combiner(Windows(1, 1)).combine(messages([("a", t, 1) for t in times]), None)
    assert combined.cells[columns.PANE].sort().to_list() == times


def test_merging_is_by_key_and_pane_or_by_other_columns() -> None:
    query = combiner()
    first = query.lift(messages([("a", 1, 1), ("b", 1, 2)]))
    second = query.lift(messages([("a", 2, 4), ("a", 11, 8)]))
    assert list_cells(Combined(query.merge([first, second]), rejected=first)) == [
        ("a", 0, 2, 5),
        ("a", 1, 1, 8),
        ("b", 0, 1, 2),
    ]
    by_key = query.merge([first, second], by=["k0"]).sort("k0")
    assert by_key.select("k0", "n", "a1.s").rows() == [("a", 3, 13), ("b", 1, 2)]


@pytest.mark.parametrize("name", [columns.REASON, columns.WATERMARK])
@pytest.mark.parametrize("keys", [("key",), ()])
def test_names_of_columns_of_rejected_messages_are_refused(
    name: str, keys: tuple[str, ...]
) -> None:
    with pytest.raises(OptionError) as refusal:
        combiner(schema={name: pl.String()}, keys=keys)
    assert (refusal.value.option, refusal.value.value) == ("column", name)
    assert refusal.value.hint.startswith("rename it")


def test_results_of_windows_and_joins_may_be_input_of_windows() -> None:
    result_columns = dict.fromkeys(("window_start", "window_end", "revision"), pl.Int64())
    query = combiner(schema={**result_columns, "emission": pl.String(), "side": pl.String()})
    assert query.combine(messages([], query.schema), None).counts["seen"] == 0


def test_merging_a_single_frame_returns_it() -> None:
    query = combiner()
    cells = query.lift(messages([("a", 1, 1)]))
    assert query.merge([query.no_cells, cells, query.no_cells]) is cells
    assert query.merge([query.no_cells]) is query.no_cells


def test_columns_of_cells_are_always_in_one_order() -> None:
    query: Combiner = combiner()
    cells = query.lift(messages([("a", 1, 1)]))
    expected = ["k0", "pane", "n", "a1.s", "a1.r"]
    assert (
        cells.columns == query.merge([cells, cells]).columns == query.no_cells.columns == expected
    )


def test_many_rows_that_occur_once_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    value, amount = "value", "amount"
    query = combiner(
        aggs={
            "n": aggregates.count(),
            "sum": aggregates.sum(value),
            "mean": aggregates.mean(amount),
            "first": aggregates.first(value),
            "middle": aggregates.quantile(amount, 0.5),
            "all": aggregates.collect_list(value),
        }
    )
    ranges = [range(100), range(90, 200), range(95, 300)]
    rows = [
        [
            (None if n == 97 else f"k{n}", 0, None if n % 7 == 0 else n + part, n / 3)
            for n in numbers
        ]
        for part, numbers in enumerate(ranges)
    ]
    frames = [query.lift(messages(part)) for part in rows]
    by_groups = query.merge(frames).sort("k0", nulls_last=True)
    monkeypatch.setattr(lookup, "_MANY_ROWS", 0)
    merged = query.merge(frames).sort("k0", nulls_last=True)
    assert_frame_equal(merged, by_groups)
    assert len(merged) == 300
