"""How a batch of Kafka's offsets is planned."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muntin.model.errors import OptionError, SourceError
from muntin.sources.kafka_client import of_librdkafka, refuse_unknown
from muntin.sources.kafka_ranges import ends_of, ranges_of, shares, starting_of, within

ends = st.dictionaries(
    st.sampled_from(["a", "b"]),
    st.dictionaries(st.sampled_from("0123"), st.integers(0, 200_000), min_size=1),
    min_size=1,
)


@given(ends, st.integers(1, 8))
def test_tasks_share_all_offsets_in_order(newest: dict[str, dict[str, int]], tasks: int) -> None:
    ranges = ranges_of({}, newest)
    parts = shares(ranges, tasks) if ranges else []
    assert len(parts) <= tasks
    flat = [one for part in parts for one in part]
    assert [(t, p, o) for t, p, s, e in flat for o in (s, e - 1)] == sorted(
        (t, p, o) for t, p, s, e in flat for o in (s, e - 1)
    )
    found = {(t, p): 0 for t, p, _, _ in ranges}
    for topic, number, start, end in flat:
        assert start == found[topic, number] < end
        found[topic, number] = end
    assert found == {(t, p): end for t, p, _, end in ranges}
    for part in parts:
        assert len({(t, p) for t, p, _, _ in part}) == len(part)


@given(ends, st.integers(1, 10_000))
def test_a_limit_is_kept_and_something_is_read(
    newest: dict[str, dict[str, int]], limit: int
) -> None:
    taken = within({}, newest, limit)
    counts = [end for numbers in taken.values() for end in numbers.values()]
    there = [end for numbers in newest.values() for end in numbers.values()]
    assert sum(counts) <= limit + len(counts)
    assert all(taken[t][p] <= end for t, numbers in newest.items() for p, end in numbers.items())
    assert all((count > 0) == (end > 0) for count, end in zip(counts, there, strict=True))


def test_a_new_partition_begins_with_its_first_message() -> None:
    assert ranges_of({"t": {"0": 5}}, {"t": {"0": 5, "1": 3}}) == [("t", 1, 0, 3)]


@pytest.mark.parametrize("newest", [{"t": {"0": 4}}, {"t": {}}, {}])
def test_a_topic_that_was_made_anew_is_no_silent_gap(newest: dict[str, dict[str, int]]) -> None:
    with pytest.raises(SourceError, match="made anew; start with a new checkpoint"):
        ranges_of({"t": {"0": 5}}, newest)


def test_a_checkpoint_of_sparks_connector_is_gone_on_from() -> None:
    assert ends_of({"t": {"0": 5}}) == ends_of({"ends": {"t": {"0": 5}}, "now": 3})


def test_where_to_begin() -> None:
    assert starting_of("latest") == "latest"
    assert starting_of('{"t": {"0": 5}}') == {"t": {"0": 5}}
    for wrong in ("newest", "[1]", '{"t": 5}'):
        with pytest.raises(ValueError, match=r"."):
            starting_of(wrong)


def test_options_are_of_librdkafka() -> None:
    given = {"kafka.security.protocol": "SASL_SSL", "sasl.username": "u", "failOnDataLoss": "false"}
    assert of_librdkafka("h:1", given) == (
        {"bootstrap.servers": "h:1", "security.protocol": "SASL_SSL", "sasl.username": "u"}, True
    )  # fmt: skip
    with pytest.raises(OptionError, match=r"sasl\.username"):
        of_librdkafka("h:1", {"kafka.sasl.jaas.config": "secret-value"})
    with pytest.raises(OptionError, match="reader='spark'"):
        of_librdkafka("h:1", {"subscribePattern": "a.*"})


def test_options_of_the_connector_alone_reach_no_client() -> None:
    given = {"fetchOffset.numRetries": "60", "fetchOffset.retryIntervalMs": "500"}
    assert of_librdkafka("h:1", given) == ({"bootstrap.servers": "h:1"}, False)


def test_librdkafka_says_which_settings_it_knows() -> None:
    pytest.importorskip("confluent_kafka")
    refuse_unknown({"bootstrap.servers": "h:1", "isolation.level": "read_committed"})
    with pytest.raises(OptionError, match=r"default\.api\.timeout\.ms.*reader='spark'"):
        refuse_unknown({"bootstrap.servers": "h:1", "default.api.timeout.ms": "90000"})
