from __future__ import annotations

from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.queries import SCHEMA, messages

from muntin.engine import columns
from muntin.engine.sessions.combine import SessionCombiner, group_rows, merge_sessions
from muntin.model import aggregates
from muntin.model.policies import Firing
from muntin.model.sessions import Closed, Sessions
from muntin.model.spec import WindowSpec

Output = list[tuple[str, int]]
"""Key and place of each message."""

EMITTED = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(-30, 30) | st.sampled_from((-(10**17), 10**17))),
    max_size=30,
)
CLOSED = st.sampled_from(("both", "left"))


def query(gap: int = 10, closed: Closed = "both", **options: Any) -> SessionCombiner:
    spec = WindowSpec(
        keys=("key",),
        time="time",
        windows=Sessions(gap, closed),
        aggregates={"n": aggregates.count(), "sum": aggregates.sum("value")},
        **options,
    )
    return SessionCombiner(spec, SCHEMA)


def frame(emitted: Output) -> pl.DataFrame:
    return messages([(key, place, 1) for key, place in emitted])


def stretches(emitted: Output, gap: int, closed: str) -> list[tuple[str, int, int, int]]:
    """Key, first and last place and number of messages of each session."""
    found: list[tuple[str, int, int, int]] = []
    for key, place in sorted(emitted):
        if found and found[-1][0] == key:
            apart = place - found[-1][2]
            if apart < gap or (apart == gap and closed == "both"):
                found[-1] = (key, found[-1][1], place, found[-1][3] + 1)
                continue
        found.append((key, place, place, 1))
    return found


def emitted_of(rows: pl.DataFrame) -> list[tuple[str, int, int, int]]:
    assert rows["n"].to_list() == rows["a1.s"].to_list()
    return rows.select("k0", columns.FIRST, columns.LAST, "n").rows()


@given(EMITTED, st.integers(1, 12), CLOSED)
def test_messages_are_lifted_to_whole_stretches(emitted: Output, gap: int, closed: Closed) -> None:
    combined = query(gap, closed).combine(frame(emitted), None)
    assert emitted_of(combined.cells.sort("k0", columns.FIRST)) == stretches(emitted, gap, closed)
    assert (combined.counts["counted"], combined.raw) == (len(emitted), None)


@given(EMITTED, st.integers(1, 12), CLOSED, st.data())
def test_however_messages_are_cut_their_stretches_grow_together(
    emitted: Output, gap: int, closed: Closed, data: st.DataObject
) -> None:
    made = query(gap, closed)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(emitted)), max_size=4)))
    parts = [
        made.combine(frame(emitted[a:b]), None).cells for a, b in pairwise([0, *cuts, len(emitted)])
    ]
    assert emitted_of(made.combine_cells(parts)) == stretches(emitted, gap, closed)
    assert emitted_of(merge_sessions(parts[::-1], made)) == stretches(emitted, gap, closed)


def test_a_ruler() -> None:
    # gap 5     0 . 2 . . . . 7 . . . . . 13 .      both: 7 is a gap from 2, and shares its session
    #           |---|---------|           |
    emitted = [("a", 0), ("a", 2), ("a", 7), ("a", 13)]
    assert emitted_of(query(5).combine(frame(emitted), None).cells) == [
        ("a", 0, 7, 3),
        ("a", 13, 13, 1),
    ]
    left = query(5, "left").combine(frame(emitted), None).cells
    assert emitted_of(left) == [("a", 0, 2, 2), ("a", 7, 7, 1), ("a", 13, 13, 1)]


def rows_of(*bounds: tuple[str, int, int]) -> pl.DataFrame:
    made = query()
    lifted = made.lift(frame([(key, first) for key, first, _ in bounds])).sort("k0", "first")
    lasts = [last for _, _, last in sorted(bounds)]
    return lifted.with_columns(pl.Series(columns.LAST, lasts)).drop(columns.PANE)


def test_a_row_within_a_longer_one_does_not_end_it() -> None:
    # gap 10    0 --------------- 40          the short row's end is no place to count from
    #              10 - 12            50
    made = query()
    rows = rows_of(("a", 0, 40), ("a", 10, 12), ("a", 50, 50), ("b", 51, 51))
    _, group = group_rows([rows], made)
    assert group.tolist() == [0, 0, 0, 1]
    assert emitted_of(merge_sessions([rows], made)) == [("a", 0, 50, 3), ("b", 51, 51, 1)]


@pytest.mark.parametrize("far", [10**6, 4 * 10**18])
def test_no_axis_is_too_long(far: int) -> None:
    rows = rows_of(
        ("a", -far, 40 - far), ("a", 10 - far, 12 - far), ("a", far, far), ("b", -far, far)
    )
    _, group = group_rows([rows], query())
    assert group.tolist() == [0, 0, 1, 2]


def test_rows_of_other_keys_are_no_bridge() -> None:
    rows = rows_of(("a", 0, 100), ("b", 5, 5), ("b", 30, 31))
    _, group = group_rows([rows], query())
    assert group.tolist() == [0, 1, 2]


def test_nothing_of_nothing() -> None:
    made = query()
    combined = made.combine(frame([]), 3)
    assert (len(combined.cells), combined.raw, combined.latest) == (0, None, None)
    assert len(merge_sessions([made.no_cells], made)) == 0
    assert made.combine_cells([]).columns == made.no_cells.columns


@pytest.mark.parametrize("closed", ["both", "left"])
@pytest.mark.parametrize(("lateness", "grace", "edge"), [(0, 0, 99), (7, 0, 99), (0, 20, 79)])
def test_what_may_be_late_is_left_to_the_shard(
    closed: Closed, grace: int, edge: int, lateness: int
) -> None:
    # A session that ended at 100 takes nothing more, and what lies before may be within its gap.
    made = query(10, closed, lateness=lateness, firing=Firing(grace=grace, retention=grace))
    emitted = [("a", edge), ("a", edge + 1), ("a", 5), ("b", 300)]
    combined = made.combine(frame(emitted), 100)
    assert combined.raw is not None
    assert combined.raw.select("key", columns.TIME).rows() == [("a", edge), ("a", 5)]
    assert emitted_of(combined.cells) == [("a", edge + 1, edge + 1, 1), ("b", 300, 300, 1)]
    assert (combined.counts["seen"], combined.counts["counted"]) == (4, 2)
    assert (combined.latest, len(combined.rejected)) == (300, 0)


def test_grace_lets_messages_count_for_longer() -> None:
    made = query(10, firing=Firing(grace=25, retention=25))
    combined = made.combine(frame([("a", 64), ("a", 65)]), 100)
    assert combined.raw is not None
    assert combined.raw[columns.TIME].to_list() == [64, 65]
    assert made.patience == 36


def test_where_nothing_is_doubtful_nothing_is_left_to_the_shard() -> None:
    assert query().combine(frame([("a", 100)]), 100).raw is None
    assert query().combine(frame([("a", 5)]), None).raw is None


def test_what_is_wrong_is_rejected_at_once() -> None:
    made = query()
    emitted = messages([(None, 5), ("a", None), ("a", 5)])
    combined = made.combine(emitted, 100)
    assert combined.rejected[columns.REASON].sort().to_list() == ["null_key", "null_time"]
    assert combined.raw is not None
    assert len(combined.raw) == 1
    assert combined.counts == {"seen": 3, "counted": 0, "null_time": 1, "null_key": 1}
