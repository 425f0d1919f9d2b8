from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.transcripts.comparison import same_row
from tests.unit.engine.queries import combiner, lower_partials, messages
from tests.unit.engine.windows.test_overlap import ALL, random_messages

from muntin.engine import columns
from muntin.engine.windows.combine import Combiner
from muntin.engine.windows.sliding import SortedCells, compose_changed, compose_sliding, find_spans
from muntin.model import aggregates
from muntin.model.aggregates import Aggregate
from muntin.model.sliding import Sliding

Messages = list[tuple[str, int]]
"""Key and position of each message."""

FAR = 2**61
FULL_STATE = {
    "middle": aggregates.median("amount"),
    "list": aggregates.collect_list("value"),
    "top": aggregates.top_k("value", 2),
}
MESSAGES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(-12, 12) | st.sampled_from((-(10**17), 10**17))),
    max_size=25,
)


SOME = {
    "n": aggregates.count().over("1 us"),
    "list": replace(aggregates.collect_list("value"), frame=2),
}
SLIDING = st.builds(Sliding, st.integers(1, 9), st.sampled_from(("time", "rows")))


def build_query(sliding: int | Sliding, aggs: dict[str, Aggregate] | None = None) -> Combiner:
    windows = Sliding(sliding) if isinstance(sliding, int) else sliding
    offset = ("key", "value") if windows.axis == "rows" else None
    return combiner(windows, aggs, offset=offset)


def list_windows(rows: Messages, sliding: int | Sliding) -> dict[tuple[str, int], list[int]]:
    """Return the positions in each window, by the definition: by key and start of the window."""
    kind = Sliding(sliding) if isinstance(sliding, int) else sliding
    size = kind.size if kind.axis == "time" else kind.size - 1
    positions_by_key: dict[str, list[int]] = defaultdict(list)
    for key, position in rows:
        positions_by_key[key].append(position)
    windows = {}
    for key, positions in positions_by_key.items():
        after = {p + 1 for p in positions} if kind.axis == "time" else set()
        for start in {p - size for p in positions} | after:
            inside = sorted(p for p in positions if start <= p <= start + size)
            if inside:
                windows[key, start] = inside
    return windows


def lift_cells(rows: Messages, query: Combiner) -> pl.DataFrame:
    return query.lift(messages([(key, position, 1) for key, position in rows]))


@given(MESSAGES, SLIDING, st.integers(-20, 20), st.integers(-20, 20))
def test_windows_are_those_of_the_definition_each_once(
    rows: Messages, sliding: Sliding, low: int, high: int
) -> None:
    sorted_cells = SortedCells.of(lift_cells(rows, build_query(sliding)), ["k0"])
    spans = find_spans(sorted_cells, sliding, low, high)
    names = sorted_cells.cells["k0"].to_list()
    positions_by_window = {}
    for n, window in enumerate(spans.window.tolist()):
        window_of_key = (names[spans.creator[n]], window)
        assert window_of_key not in positions_by_window
        row_range = range(spans.ranges.start[n], spans.ranges.stop[n])
        assert {names[row] for row in row_range} == {window_of_key[0]}
        positions_by_window[window_of_key] = [int(sorted_cells.position[row]) for row in row_range]
    windows = list_windows(rows, sliding)
    expected = {at: sorted(set(inside)) for at, inside in windows.items() if low <= at[1] <= high}
    assert positions_by_window == expected


def test_no_two_windows_hold_the_same_messages() -> None:
    # size 4    0  .  2  .  .  5  .  .  .  9
    #           a     a        a           a
    sorted_cells = SortedCells.of(
        lift_cells([("a", position) for position in (0, 2, 5, 9)], build_query(4)), ["k0"]
    )
    spans = find_spans(sorted_cells, Sliding(4), -FAR, FAR)
    row_ranges = list(zip(spans.ranges.start.tolist(), spans.ranges.stop.tolist(), strict=True))
    assert len(set(row_ranges)) == len(row_ranges)
    assert sorted(spans.window.tolist()) == [-4, -2, 1, 3, 5, 6]


def test_cells_are_sorted_by_key_then_position() -> None:
    rows = [("b", 3), ("a", 9), ("b", -1), ("a", 0), ("c", 0)]
    sorted_cells = SortedCells.of(lift_cells(rows, build_query(4)), ["k0"])
    assert sorted_cells.cells["k0"].to_list() == ["a", "a", "b", "b", "c"]
    assert sorted_cells.key.tolist() == [0, 0, 1, 1, 2]
    assert sorted_cells.position.tolist() == [0, 9, -1, 3, 0]


def list_values(query: Combiner, frame: pl.DataFrame) -> list[dict[str, Any]]:
    frame = frame.sort(columns.WINDOW, "k0")
    rows = frame.select(columns.WINDOW, "k0", columns.MESSAGES).to_dicts()
    return [row | values for row, values in zip(rows, lower_partials(frame, query), strict=True)]


@pytest.mark.parametrize(
    "aggs", [ALL, FULL_STATE, ALL | FULL_STATE], ids=["slid", "stored", "both"]
)
@pytest.mark.parametrize(("size", "spread"), [(1, 4), (5, 30), (40, 30), (7, 600)])
def test_every_aggregate_over_every_window(
    aggs: dict[str, Aggregate], size: int, spread: int
) -> None:
    query, frame = build_query(size, aggs), random_messages(size, spread)
    results = list_values(query, compose_sliding(query.lift(frame), -FAR, FAR, query))
    rows = frame.select("key", columns.TIME).rows()
    windows = list_windows(rows, size)
    assert [(row["k0"], row["window"]) for row in results] == sorted(
        windows, key=lambda at: (at[1], at[0])
    )
    for row in results:
        inside = frame.filter(
            pl.col("key") == row["k0"],
            pl.col(columns.TIME).is_between(row["window"], row["window"] + size),
        )
        merged = query.merge([query.lift(inside)], by=["k0"])
        expected = {"window": row["window"], "k0": row["k0"], "n": len(inside)}
        assert same_row(row, expected | lower_partials(merged, query)[0])


@pytest.mark.parametrize(("size", "frame", "spread"), [(9, 3, 60), (40, 1, 30), (7, 7, 600)])
def test_every_aggregate_over_the_last_part_of_every_window(
    size: int, frame: int, spread: int
) -> None:
    aggs, rows = ALL | FULL_STATE, random_messages(size, spread)
    framed = {f"last {name}": replace(agg, frame=frame) for name, agg in aggs.items()}
    plain, query = build_query(size, aggs), build_query(size, aggs | framed)
    results = list_values(query, compose_sliding(query.lift(rows), -FAR, FAR, query))
    parts = []
    for row in results:
        end = row["window"] + size
        last_rows = rows.filter(
            pl.col("key") == row["k0"], pl.col(columns.TIME).is_between(end - frame, end)
        )
        parts.append(len(last_rows))
        own = {name: row[f"last {name}"] for name in aggs}
        if len(last_rows):
            assert same_row(
                own, lower_partials(plain.merge([plain.lift(last_rows)], by=["k0"]), plain)[0]
            )
        else:
            assert own == {name: agg.entry.empty for name, agg in aggs.items()}
    plain_results = list_values(plain, compose_sliding(plain.lift(rows), -FAR, FAR, plain))
    assert [{name: row[name] for name in plain_results[0]} for row in results] == plain_results
    assert 0 in parts or frame == size
    assert max(parts) > 1


@pytest.mark.parametrize(
    "aggs", [ALL, FULL_STATE, None, SOME], ids=["slid", "stored", "few", "over"]
)
def test_no_cells_make_no_windows(aggs: dict[str, Aggregate] | None) -> None:
    query = build_query(5, aggs)
    for no_windows in (
        compose_sliding(query.no_cells, -9, 9, query),
        compose_sliding(lift_cells([("a", 3)], query), 100, 200, query),
        compose_changed(query.no_cells, query.no_cells, -9, 9, query),
    ):
        assert len(no_windows) == 0
        assert set(no_windows.columns) == {columns.WINDOW, *query.no_cells.columns} - {columns.PANE}


@given(MESSAGES, MESSAGES, SLIDING)
def test_windows_that_a_batch_changes_and_creates(
    old: Messages, new: Messages, sliding: Sliding
) -> None:
    query = build_query(sliding)
    changed_windows = compose_changed(
        lift_cells(new, query), lift_cells(old, query), -FAR, FAR, query
    )
    before, after = list_windows(old, sliding), list_windows(old + new, sliding)
    new_positions: dict[str, list[int]] = defaultdict(list)
    for key, position in new:
        new_positions[key].append(position)
    expected = {}
    for (key, start), inside in after.items():
        count = sum(start <= position <= start + sliding.span for position in new_positions[key])
        if (key, start) not in before:
            expected[key, start] = len(inside)
        elif count:
            expected[key, start] = count
    counts = {(k, w): n for w, k, n in changed_windows.select(columns.WINDOW, "k0", "n").rows()}
    assert counts == expected
    assert len(changed_windows) == len(expected)
    assert dict(zip(changed_windows["n"], changed_windows["a1.s"], strict=True)) == {
        n: n for n in expected.values()
    }


def test_keys_whose_texts_joined_are_equal_stay_apart() -> None:
    query = combiner(Sliding(3), keys=("key", "value"))
    frame = messages([("a", 0, 1), ("a", 2, 11), ("a1", 1, 1)])
    emitted = compose_sliding(query.lift(frame), -FAR, FAR, query)
    assert sorted(emitted.select("k0", "k1", "window", "n").rows()) == [
        ("a", 1, -3, 1),
        ("a", 11, -1, 1),
        ("a1", 1, -2, 1),
    ]
