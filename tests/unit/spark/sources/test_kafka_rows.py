"""Tests of planning, repeating and refusing Spark's batches of a topic, with a fake broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from muntin.model.errors import SourceError
from muntin.sources.kafka_broker import Described, Offsets, Topics
from muntin.sources.kafka_ranges import lag_of
from muntin.sources.kafka_sizes import MessageSizes
from muntin.spark.host.internals.versions import ReadAllAvailable, ReadMaxRows
from muntin.spark.sources.kafka_rows import _Stream


def pass_ranges(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the ranges of a task unchanged."""
    yield from batches


class Cluster:
    """Topics of one partition: their ids, and the offsets between which they have messages."""

    def __init__(self) -> None:
        self.topics: dict[str, tuple[str, int, int]] = {}
        self.committed: Offsets = {}

    def topic(self, name: str = "orders", count: int = 0) -> str:
        self.topics[name] = (f"id-{len(self.topics)}", 0, count)
        return name

    def create_again(self, name: str, count: int) -> None:
        self.topics[name] = (f"{self.topics[name][0]}-again", 0, count)

    def send(self, name: str, count: int) -> None:
        topic_id, low, high = self.topics[name]
        self.topics[name] = (topic_id, low, high + count)

    def delete_before(self, name: str, low: int) -> None:
        topic_id, _, high = self.topics[name]
        self.topics[name] = (topic_id, low, high)


class FakeBroker:
    """Describes a cluster as ``Broker`` does."""

    def __init__(self, cluster: Cluster, topics: Topics) -> None:
        self.cluster, self.names = cluster, topics.names

    def describe(self) -> Described:
        present = [name for name in self.names if name in self.cluster.topics]
        ids = {name: self.cluster.topics[name][0] for name in present}
        return Described({name: [0] for name in present}, ids)

    def remember(self, names: Any) -> None:
        """Do nothing, since the cluster forgets no topic."""

    def earliest(self, partitions: Any) -> Offsets:
        return {name: {"0": self.cluster.topics[name][1]} for name in partitions}

    def latest(self, partitions: Any) -> Offsets:
        return {name: {"0": self.cluster.topics[name][2]} for name in partitions}

    first = earliest

    def commit(self, ends: Offsets) -> None:
        self.cluster.committed = ends


@pytest.fixture
def kafka() -> Cluster:
    return Cluster()


def make_stream(kafka: Cluster, topic: str, run: str | None = None, **options: Any) -> _Stream:
    topics = Topics((topic,), "earliest", None, {"bootstrap.servers": "h:1"}, **options)
    reader = _Stream(topics, pass_ranges, 2, run)
    reader._broker = FakeBroker(kafka, topics)  # type: ignore[assignment]
    return reader


def log_offset(offset: dict[str, Any]) -> dict[str, Any]:
    """Return an offset as Spark's log returns it."""
    return dict(json.loads(json.dumps(offset)))


def plan_ranges(
    reader: _Stream, start: Any, end: Any, *, is_next: bool = False
) -> list[tuple[int, int]]:
    """Return the ranges that the tasks of a batch read, or read ahead for the next one."""
    parts = reader.partitions(log_offset(start), log_offset(end))
    rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    assert {row["topic_id"] for row in rows} <= {*end["ids"].values()}
    assert all(row["run"] == reader.run for row in rows)
    return [(row["start"], row["end"]) for row in rows if row["is_next"] == is_next]


def test_offsets_say_ids_lag_and_what_is_committed(kafka: Cluster) -> None:
    topic = kafka.topic()
    kafka.send(topic, 10)
    reader = make_stream(kafka, topic, group="billing")
    start = reader.initialOffset()
    end = reader.latestOffset(log_offset(start), ReadMaxRows(4))
    assert lag_of(end) == {f"{topic}[0]": 6}
    assert reader.reportLatestOffset() == {"ends": {topic: {"0": 10}}}
    assert plan_ranges(reader, start, end) == [(0, 4)]
    reader.commit(log_offset(end))
    assert kafka.committed == {topic: {"0": 4}}
    # Without new messages there is no batch.
    last = reader.latestOffset(log_offset(end), ReadAllAvailable())
    assert reader.latestOffset(log_offset(last), ReadAllAvailable()) == last


def test_a_task_reads_the_next_batch_ahead(kafka: Cluster) -> None:
    topic = kafka.topic()
    kafka.send(topic, 10)
    reader = make_stream(kafka, topic, "orders-1")
    start = reader.initialOffset()
    end = reader.latestOffset(log_offset(start), ReadMaxRows(4))
    assert plan_ranges(reader, start, end) == [(0, 4)]
    assert plan_ranges(reader, start, end, is_next=True) == [(4, 8)]
    # The next batch has just these ranges, although its limit now allows for more.
    kafka.send(topic, 5)
    following = reader.latestOffset(log_offset(end), ReadMaxRows(6))
    assert plan_ranges(reader, end, following) == [(4, 8)]
    assert plan_ranges(reader, end, following, is_next=True) == [(8, 14)]
    last = reader.latestOffset(log_offset(following), ReadMaxRows(20))
    assert plan_ranges(reader, following, last) == [(8, 14)]
    assert plan_ranges(reader, following, last, is_next=True) == [(14, 15)]
    # Nothing is read ahead for a batch that an earlier run has planned, nor on a cluster.
    again = make_stream(kafka, topic, "orders-2")
    assert plan_ranges(again, start, end, is_next=True) == []
    on_cluster = make_stream(kafka, topic)
    end = on_cluster.latestOffset(log_offset(start), ReadMaxRows(4))
    assert plan_ranges(on_cluster, start, end, is_next=True) == []


def test_a_batch_is_bounded_by_bytes(kafka: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = kafka.topic()
    kafka.send(topic, 600_000)
    megabyte = float(1 << 20)
    monkeypatch.setattr(MessageSizes, "_sample", lambda self, points: [megabyte] * len(points))
    # By default, a batch has 128 MB for each of the two tasks.
    reader = make_stream(kafka, topic, "orders-1")
    start = reader.initialOffset()
    end = reader.latestOffset(log_offset(start), ReadAllAvailable())
    assert plan_ranges(reader, start, end) == [(0, 256)]
    assert plan_ranges(reader, start, end, is_next=True) == [(256, 512)]
    following = reader.latestOffset(log_offset(end), ReadAllAvailable())
    assert plan_ranges(reader, end, following) == [(256, 512)]
    small = make_stream(kafka, topic, bytes_per_batch=10 << 20)
    assert plan_ranges(small, start, small.latestOffset(log_offset(start), ReadMaxRows(100))) == [
        (0, 10)
    ]
    assert plan_ranges(small, start, small.latestOffset(log_offset(start), ReadMaxRows(5))) == [
        (0, 5)
    ]


def test_ranges_that_were_read_ahead_are_planned_again_where_the_topic_is_shorter(
    kafka: Cluster,
) -> None:
    topic = kafka.topic()
    kafka.send(topic, 10)
    reader = make_stream(kafka, topic, "orders-1")
    start = reader.initialOffset()
    end = reader.latestOffset(log_offset(start), ReadMaxRows(4))
    kafka.send(topic, -3)
    following = reader.latestOffset(log_offset(end), ReadMaxRows(4))
    assert plan_ranges(reader, end, following) == [(4, 7)]
    assert plan_ranges(reader, end, following, is_next=True) == []


def test_a_planned_batch_that_expired_is_refused_at_restart(kafka: Cluster) -> None:
    topic = kafka.topic()
    kafka.send(topic, 10)
    reader = make_stream(kafka, topic)
    start = reader.initialOffset()
    end = reader.latestOffset(log_offset(start), ReadAllAvailable())
    assert plan_ranges(make_stream(kafka, topic), start, end) == [(0, 10)]
    kafka.send(topic, 10)
    # Messages after the planned end have expired, too.
    kafka.delete_before(topic, 15)
    with pytest.raises(SourceError, match=f"messages 0 to 9 of partition 0 of topic '{topic}'"):
        plan_ranges(make_stream(kafka, topic), start, end)
    with pytest.raises(SourceError, match=f"messages 10 to 14 of partition 0 of topic '{topic}'"):
        make_stream(kafka, topic).latestOffset(log_offset(end), ReadAllAvailable())
    lossy = make_stream(kafka, topic, lossy=True)
    assert lossy.latestOffset(log_offset(end), ReadAllAvailable())["ends"] == {topic: {"0": 20}}


def test_a_topic_created_again_is_refused_or_read_from_its_beginning(kafka: Cluster) -> None:
    topic = kafka.topic()
    kafka.send(topic, 10)
    reader = make_stream(kafka, topic)
    start = reader.initialOffset()
    end = reader.latestOffset(log_offset(start), ReadAllAvailable())
    kafka.create_again(topic, 30)
    for either in (reader, make_stream(kafka, topic)):
        with pytest.raises(SourceError, match="was deleted and created again") as error:
            either.latestOffset(log_offset(end), ReadAllAvailable())
        assert "failOnDataLoss" in str(error.value)
        assert "checkpoint folder" not in str(error.value)
    with pytest.raises(SourceError, match="was deleted and created again"):
        plan_ranges(make_stream(kafka, topic), start, end)
    lossy = make_stream(kafka, topic, lossy=True)
    # Nothing of the new topic is read as the old one's.
    assert plan_ranges(lossy, start, end) == []
    again = lossy.latestOffset(log_offset(end), ReadAllAvailable())
    assert plan_ranges(lossy, end, again) == [(0, 30)]
    assert plan_ranges(make_stream(kafka, topic, lossy=True), end, again) == [(0, 30)]
    other = kafka.topic("other")
    with pytest.raises(SourceError, match=f"has read topic '{topic}', and the query reads"):
        make_stream(kafka, other).latestOffset(log_offset(again), ReadAllAvailable())


def test_a_checkpoint_of_sparks_connector_has_no_ids(kafka: Cluster) -> None:
    topic = kafka.topic()
    kafka.send(topic, 10)
    end = make_stream(kafka, topic).latestOffset({topic: {"0": 4}}, ReadAllAvailable())
    assert plan_ranges(make_stream(kafka, topic), {topic: {"0": 4}}, end) == [(4, 10)]
