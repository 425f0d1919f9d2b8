"""Tests of how a batch of Kafka's offsets is planned."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.model.errors import SourceError
from muntin.sources.kafka_ranges import (
    ends_of,
    lag_of,
    limit_batch,
    ranges_of,
    refuse_expired,
    refuse_recreated,
    split_ranges,
)

draw_ends = st.dictionaries(
    st.sampled_from(["a", "b"]),
    st.dictionaries(st.sampled_from("0123"), st.integers(0, 200_000), min_size=1),
    min_size=1,
)


@given(draw_ends, st.integers(1, 8))
def test_tasks_share_all_offsets_in_order(newest: dict[str, dict[str, int]], tasks: int) -> None:
    ranges = ranges_of({}, newest)
    parts = split_ranges(ranges, tasks) if ranges else []
    assert len(parts) <= tasks
    split = [piece for part in parts for piece in part]
    assert [(t, p, o) for t, p, s, e in split for o in (s, e - 1)] == sorted(
        (t, p, o) for t, p, s, e in split for o in (s, e - 1)
    )
    ends_read = {(t, p): 0 for t, p, _, _ in ranges}
    for topic, number, start, end in split:
        assert start == ends_read[topic, number] < end
        ends_read[topic, number] = end
    assert ends_read == {(t, p): end for t, p, _, end in ranges}
    for part in parts:
        assert len({(t, p) for t, p, _, _ in part}) == len(part)


@given(draw_ends, st.integers(1, 10_000))
def test_a_limit_is_kept_and_something_is_read(
    newest: dict[str, dict[str, int]], limit: int
) -> None:
    batch = limit_batch({}, newest, limit)
    counts = [end for numbers in batch.values() for end in numbers.values()]
    available = [end for numbers in newest.values() for end in numbers.values()]
    assert sum(counts) <= limit + len(counts)
    assert all(batch[t][p] <= end for t, numbers in newest.items() for p, end in numbers.items())
    assert all((count > 0) == (end > 0) for count, end in zip(counts, available, strict=True))


def test_a_new_partition_begins_with_its_first_message() -> None:
    assert ranges_of({"t": {"0": 5}}, {"t": {"0": 5, "1": 3}}) == [("t", 1, 0, 3)]


@pytest.mark.parametrize("newest", [{"t": {"0": 4}}, {"t": {}}, {}])
def test_a_partition_that_lost_messages_is_no_silent_gap(newest: dict[str, dict[str, int]]) -> None:
    with pytest.raises(SourceError, match=r"partition 0 of topic 't'.*offset 5") as error:
        ranges_of({"t": {"0": 5}}, newest)
    assert "failOnDataLoss" in str(error.value)
    assert "new checkpoint" not in str(error.value)
    assert ranges_of({"t": {"0": 5}}, newest, lossy=True) == []


def test_messages_that_expired_are_named() -> None:
    ranges = ranges_of({"t": {"0": 5}}, {"t": {"0": 9}})
    refuse_expired(ranges, {"t": {"0": 5}})
    for low, last in ((7, 6), (30, 8)):
        with pytest.raises(SourceError, match=f"messages 5 to {last} of partition 0 of topic"):
            refuse_expired(ranges, {"t": {"0": low}})


def test_a_topic_that_was_created_again_is_another_one() -> None:
    draw_ends = {"t": {"0": 5, "1": 7}}
    refuse_recreated({"t": "a"}, {"t": "a"}, draw_ends, ["t"])
    # Old brokers give no ids.
    refuse_recreated({"t": "a"}, {}, draw_ends, ["t"])
    refuse_recreated({}, {"t": "b"}, draw_ends, ["t"])
    for ids_now, present, problem in (
        ({"t": "b"}, ["t"], "created again"),
        ({}, [], "'t' was deleted: "),
    ):
        with pytest.raises(SourceError, match=problem) as error:
            refuse_recreated({"t": "a"}, ids_now, draw_ends, present)
        assert "partition 0 up to 5, 1 up to 7" in str(error.value)
        assert "failOnDataLoss" in str(error.value)


def test_lag_is_what_was_planned_but_not_read() -> None:
    offset = {"ends": {"t": {"0": 5}}, "newest": {"t": {"0": 9, "1": 3}}, "now": 1}
    assert lag_of(offset) == {"t[0]": 4, "t[1]": 3}
    # A checkpoint of Spark's connector has no newest offsets.
    assert lag_of({"t": {"0": 5}}) == {}


def test_a_checkpoint_of_sparks_connector_is_gone_on_from() -> None:
    assert ends_of({"t": {"0": 5}}) == ends_of({"ends": {"t": {"0": 5}}, "now": 3})
