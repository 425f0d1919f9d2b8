from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.transcripts.comparison import same_row
from tests.unit.engine.queries import combiner, lowered, messages
from tests.unit.engine.windows.test_overlap import ALL, random_messages

from muntin.engine import columns
from muntin.engine.windows.combine import Combiner
from muntin.engine.windows.sliding import SortedCells, compose_changed, compose_sliding, find_spans
from muntin.model import aggregates
from muntin.model.aggregates import Aggregate
from muntin.model.sliding import Sliding

Output = list[tuple[str, int]]
"""Key and place of each message."""

FAR = 2**61
FULL_STATE = {
    "middle": aggregates.median("amount"),
    "list": aggregates.collect_list("value"),
    "top": aggregates.top_k("value", 2),
}
EMITTED = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(-12, 12) | st.sampled_from((-(10**17), 10**17))),
    max_size=25,
)


SOME = {
    "n": aggregates.count().over("1 us"),
    "list": replace(aggregates.collect_list("value"), frame=2),
}
SLIDING = st.builds(Sliding, st.integers(1, 9), st.sampled_from(("time", "rows")))


def query(sliding: int | Sliding, aggs: dict[str, Aggregate] | None = None) -> Combiner:
    windows = Sliding(sliding) if isinstance(sliding, int) else sliding
    offset = ("key", "value") if windows.axis == "rows" else None
    return combiner(windows, aggs, offset=offset)


def asked_for(emitted: Output, sliding: int | Sliding) -> dict[tuple[str, int], list[int]]:
    """The definition: which windows the places of each key make, and the places in each."""
    windows = Sliding(sliding) if isinstance(sliding, int) else sliding
    size = windows.size if windows.axis == "time" else windows.size - 1
    by_key: dict[str, list[int]] = defaultdict(list)
    for key, place in emitted:
        by_key[key].append(place)
    found = {}
    for key, places in by_key.items():
        after = {p + 1 for p in places} if windows.axis == "time" else set()
        for start in {p - size for p in places} | after:
            inside = sorted(p for p in places if start <= p <= start + size)
            if inside:
                found[key, start] = inside
    return found


def cells_of(emitted: Output, made: Combiner) -> pl.DataFrame:
    return made.lift(messages([(key, place, 1) for key, place in emitted]))


@given(EMITTED, SLIDING, st.integers(-20, 20), st.integers(-20, 20))
def test_windows_are_those_of_the_definition_each_once(
    emitted: Output, sliding: Sliding, low: int, high: int
) -> None:
    laid = SortedCells.of(cells_of(emitted, query(sliding)), ["k0"])
    found = find_spans(laid, sliding, low, high)
    names = laid.cells["k0"].to_list()
    held = {}
    for n, window in enumerate(found.window.tolist()):
        place = (names[found.creator[n]], window)
        assert place not in held
        rows = range(found.ranges.start[n], found.ranges.stop[n])
        assert {names[row] for row in rows} == {place[0]}
        held[place] = [int(laid.position[row]) for row in rows]
    wanted = asked_for(emitted, sliding)
    within = {at: sorted(set(inside)) for at, inside in wanted.items() if low <= at[1] <= high}
    assert held == within


def test_no_two_windows_hold_the_same_messages() -> None:
    # size 4    0  .  2  .  .  5  .  .  .  9
    #           a     a        a           a
    laid = SortedCells.of(cells_of([("a", place) for place in (0, 2, 5, 9)], query(4)), ["k0"])
    found = find_spans(laid, Sliding(4), -FAR, FAR)
    held = list(zip(found.ranges.start.tolist(), found.ranges.stop.tolist(), strict=True))
    assert len(set(held)) == len(held)
    assert sorted(found.window.tolist()) == [-4, -2, 1, 3, 5, 6]


def test_cells_are_laid_out_by_key_then_place() -> None:
    emitted = [("b", 3), ("a", 9), ("b", -1), ("a", 0), ("c", 0)]
    laid = SortedCells.of(cells_of(emitted, query(4)), ["k0"])
    assert laid.cells["k0"].to_list() == ["a", "a", "b", "b", "c"]
    assert laid.key.tolist() == [0, 0, 1, 1, 2]
    assert laid.position.tolist() == [0, 9, -1, 3, 0]


def emitted_of(made: Combiner, frame: pl.DataFrame) -> list[dict[str, Any]]:
    frame = frame.sort(columns.WINDOW, "k0")
    rows = frame.select(columns.WINDOW, "k0", columns.MESSAGES).to_dicts()
    return [row | values for row, values in zip(rows, lowered(frame, made), strict=True)]


@pytest.mark.parametrize("aggs", [ALL, FULL_STATE, ALL | FULL_STATE], ids=["slid", "kept", "both"])
@pytest.mark.parametrize(("size", "spread"), [(1, 4), (5, 30), (40, 30), (7, 600)])
def test_every_aggregate_over_every_window(
    aggs: dict[str, Aggregate], size: int, spread: int
) -> None:
    made, frame = query(size, aggs), random_messages(size, spread)
    found = emitted_of(made, compose_sliding(made.lift(frame), -FAR, FAR, made))
    emitted = frame.select("key", columns.TIME).rows()
    wanted = asked_for(emitted, size)
    assert [(row["k0"], row["window"]) for row in found] == sorted(
        wanted, key=lambda at: (at[1], at[0])
    )
    for row in found:
        inside = frame.filter(
            pl.col("key") == row["k0"],
            pl.col(columns.TIME).is_between(row["window"], row["window"] + size),
        )
        merged = made.merge([made.lift(inside)], by=["k0"])
        alone = {"window": row["window"], "k0": row["k0"], "n": len(inside)}
        assert same_row(row, alone | lowered(merged, made)[0])


@pytest.mark.parametrize(("size", "frame", "spread"), [(9, 3, 60), (40, 1, 30), (7, 7, 600)])
def test_every_aggregate_over_the_last_part_of_every_window(
    size: int, frame: int, spread: int
) -> None:
    aggs, rows = ALL | FULL_STATE, random_messages(size, spread)
    framed = {f"last {name}": replace(agg, frame=frame) for name, agg in aggs.items()}
    plain, made = query(size, aggs), query(size, aggs | framed)
    found = emitted_of(made, compose_sliding(made.lift(rows), -FAR, FAR, made))
    parts = []
    for row in found:
        end = row["window"] + size
        last = rows.filter(
            pl.col("key") == row["k0"], pl.col(columns.TIME).is_between(end - frame, end)
        )
        parts.append(len(last))
        own = {name: row[f"last {name}"] for name in aggs}
        if len(last):
            assert same_row(own, lowered(plain.merge([plain.lift(last)], by=["k0"]), plain)[0])
        else:
            assert own == {name: agg.entry.empty for name, agg in aggs.items()}
    whole = emitted_of(plain, compose_sliding(plain.lift(rows), -FAR, FAR, plain))
    assert [{name: row[name] for name in whole[0]} for row in found] == whole
    assert 0 in parts or frame == size
    assert max(parts) > 1


@pytest.mark.parametrize("aggs", [ALL, FULL_STATE, None, SOME], ids=["slid", "kept", "few", "over"])
def test_nothing_of_nothing(aggs: dict[str, Aggregate] | None) -> None:
    made = query(5, aggs)
    for nothing in (
        compose_sliding(made.no_cells, -9, 9, made),
        compose_sliding(cells_of([("a", 3)], made), 100, 200, made),
        compose_changed(made.no_cells, made.no_cells, -9, 9, made),
    ):
        assert len(nothing) == 0
        assert set(nothing.columns) == {columns.WINDOW, *made.no_cells.columns} - {columns.PANE}


@given(EMITTED, EMITTED, SLIDING)
def test_what_a_batch_changes_and_makes(old: Output, new: Output, sliding: Sliding) -> None:
    made = query(sliding)
    touched = compose_changed(cells_of(new, made), cells_of(old, made), -FAR, FAR, made)
    before, after = asked_for(old, sliding), asked_for(old + new, sliding)
    fresh: dict[str, list[int]] = defaultdict(list)
    for key, place in new:
        fresh[key].append(place)
    wanted = {}
    for (key, start), inside in after.items():
        count = sum(start <= place <= start + sliding.span for place in fresh[key])
        if (key, start) not in before:
            wanted[key, start] = len(inside)
        elif count:
            wanted[key, start] = count
    found = {(k, w): n for w, k, n in touched.select(columns.WINDOW, "k0", "n").rows()}
    assert found == wanted
    assert len(touched) == len(wanted)
    assert dict(zip(touched["n"], touched["a1.s"], strict=True)) == {n: n for n in wanted.values()}


def test_keys_that_look_alike_when_put_together_are_told_apart() -> None:
    made = combiner(Sliding(3), keys=("key", "value"))
    frame = messages([("a", 0, 1), ("a", 2, 11), ("a1", 1, 1)])
    emitted = compose_sliding(made.lift(frame), -FAR, FAR, made)
    assert sorted(emitted.select("k0", "k1", "window", "n").rows()) == [
        ("a", 1, -3, 1),
        ("a", 11, -1, 1),
        ("a1", 1, -2, 1),
    ]
