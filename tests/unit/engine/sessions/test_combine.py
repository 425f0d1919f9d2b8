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

Messages = list[tuple[str, int]]
"""Key and position of each message."""

MESSAGES = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(-30, 30) | st.sampled_from((-(10**17), 10**17))),
    max_size=30,
)
CLOSED = st.sampled_from(("both", "left"))


def build_combiner(gap: int = 10, closed: Closed = "both", **options: Any) -> SessionCombiner:
    spec = WindowSpec(
        keys=("key",),
        time="time",
        windows=Sessions(gap, closed),
        aggregates={"n": aggregates.count(), "sum": aggregates.sum("value")},
        **options,
    )
    return SessionCombiner(spec, SCHEMA)


def build_frame(rows: Messages) -> pl.DataFrame:
    return messages([(key, position, 1) for key, position in rows])


def list_sessions(rows: Messages, gap: int, closed: str) -> list[tuple[str, int, int, int]]:
    """Return key, first and last position and number of messages of each session."""
    sessions: list[tuple[str, int, int, int]] = []
    for key, position in sorted(rows):
        if sessions and sessions[-1][0] == key:
            distance = position - sessions[-1][2]
            if distance < gap or (distance == gap and closed == "both"):
                sessions[-1] = (key, sessions[-1][1], position, sessions[-1][3] + 1)
                continue
        sessions.append((key, position, position, 1))
    return sessions


def list_cells(rows: pl.DataFrame) -> list[tuple[str, int, int, int]]:
    assert rows["n"].to_list() == rows["a1.s"].to_list()
    return rows.select("k0", columns.FIRST, columns.LAST, "n").rows()


@given(MESSAGES, st.integers(1, 12), CLOSED)
def test_messages_are_lifted_to_whole_sessions(rows: Messages, gap: int, closed: Closed) -> None:
    combined = build_combiner(gap, closed).combine(build_frame(rows), None)
    assert list_cells(combined.cells.sort("k0", columns.FIRST)) == list_sessions(rows, gap, closed)
    assert (combined.counts["counted"], combined.raw) == (len(rows), None)


@given(MESSAGES, st.integers(1, 12), CLOSED, st.data())
def test_sessions_merge_for_all_cuts_of_the_messages(
    rows: Messages, gap: int, closed: Closed, data: st.DataObject
) -> None:
    combiner = build_combiner(gap, closed)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    parts = [
        combiner.combine(build_frame(rows[a:b]), None).cells
        for a, b in pairwise([0, *cuts, len(rows)])
    ]
    assert list_cells(combiner.combine_cells(parts)) == list_sessions(rows, gap, closed)
    assert list_cells(merge_sessions(parts[::-1], combiner)) == list_sessions(rows, gap, closed)


def test_gaps_with_and_without_their_end() -> None:
    # gap 5     0 . 2 . . . . 7 . . . . . 13 .      both: 7 is a gap from 2, and shares its session
    #           |---|---------|           |
    rows = [("a", 0), ("a", 2), ("a", 7), ("a", 13)]
    assert list_cells(build_combiner(5).combine(build_frame(rows), None).cells) == [
        ("a", 0, 7, 3),
        ("a", 13, 13, 1),
    ]
    left = build_combiner(5, "left").combine(build_frame(rows), None).cells
    assert list_cells(left) == [("a", 0, 2, 2), ("a", 7, 7, 1), ("a", 13, 13, 1)]


def build_cells(*bounds: tuple[str, int, int]) -> pl.DataFrame:
    combiner = build_combiner()
    lifted = combiner.lift(build_frame([(key, first) for key, first, _ in bounds])).sort(
        "k0", "first"
    )
    last_positions = [last for _, _, last in sorted(bounds)]
    return lifted.with_columns(pl.Series(columns.LAST, last_positions)).drop(columns.PANE)


def test_a_row_within_a_longer_one_does_not_end_it() -> None:
    # gap 10    0 --------------- 40          the short row's end is no position to count from
    #              10 - 12            50
    combiner = build_combiner()
    rows = build_cells(("a", 0, 40), ("a", 10, 12), ("a", 50, 50), ("b", 51, 51))
    _, group = group_rows([rows], combiner)
    assert group.tolist() == [0, 0, 0, 1]
    assert list_cells(merge_sessions([rows], combiner)) == [("a", 0, 50, 3), ("b", 51, 51, 1)]


@pytest.mark.parametrize("far", [10**6, 4 * 10**18])
def test_no_axis_is_too_long(far: int) -> None:
    rows = build_cells(
        ("a", -far, 40 - far), ("a", 10 - far, 12 - far), ("a", far, far), ("b", -far, far)
    )
    _, group = group_rows([rows], build_combiner())
    assert group.tolist() == [0, 0, 1, 2]


def test_rows_of_other_keys_are_no_bridge() -> None:
    rows = build_cells(("a", 0, 100), ("b", 5, 5), ("b", 30, 31))
    _, group = group_rows([rows], build_combiner())
    assert group.tolist() == [0, 1, 2]


def test_no_messages_make_no_sessions() -> None:
    combiner = build_combiner()
    combined = combiner.combine(build_frame([]), 3)
    assert (len(combined.cells), combined.raw, combined.latest) == (0, None, None)
    assert len(merge_sessions([combiner.no_cells], combiner)) == 0
    assert combiner.combine_cells([]).columns == combiner.no_cells.columns


@pytest.mark.parametrize("closed", ["both", "left"])
@pytest.mark.parametrize(("lateness", "grace", "edge"), [(0, 0, 99), (7, 0, 99), (0, 20, 79)])
def test_messages_that_may_be_late_are_left_to_the_shard(
    closed: Closed, grace: int, edge: int, lateness: int
) -> None:
    # A session that ended at 100 is closed, and earlier messages may be within its gap.
    combiner = build_combiner(
        10, closed, lateness=lateness, firing=Firing(grace=grace, retention=grace)
    )
    rows = [("a", edge), ("a", edge + 1), ("a", 5), ("b", 300)]
    combined = combiner.combine(build_frame(rows), 100)
    assert combined.raw is not None
    assert combined.raw.select("key", columns.TIME).rows() == [("a", edge), ("a", 5)]
    assert list_cells(combined.cells) == [("a", edge + 1, edge + 1, 1), ("b", 300, 300, 1)]
    assert (combined.counts["seen"], combined.counts["counted"]) == (4, 2)
    assert (combined.latest, len(combined.rejected)) == (300, 0)


def test_grace_lets_messages_count_for_longer() -> None:
    combiner = build_combiner(10, firing=Firing(grace=25, retention=25))
    combined = combiner.combine(build_frame([("a", 64), ("a", 65)]), 100)
    assert combined.raw is not None
    assert combined.raw[columns.TIME].to_list() == [64, 65]
    assert combiner.patience == 36


def test_where_nothing_is_doubtful_nothing_is_left_to_the_shard() -> None:
    assert build_combiner().combine(build_frame([("a", 100)]), 100).raw is None
    assert build_combiner().combine(build_frame([("a", 5)]), None).raw is None


def test_messages_with_a_null_key_or_time_are_rejected_at_once() -> None:
    combiner = build_combiner()
    emitted = messages([(None, 5), ("a", None), ("a", 5)])
    combined = combiner.combine(emitted, 100)
    assert combined.rejected[columns.REASON].sort().to_list() == ["null_key", "null_time"]
    assert combined.raw is not None
    assert len(combined.raw) == 1
    assert combined.counts == {"seen": 3, "counted": 0, "null_time": 1, "null_key": 1}
