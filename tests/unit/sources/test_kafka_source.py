"""Tests of topics as a source without Spark: ranges that can be read again."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.services.kafka import Kafka

import muntin as mt
from muntin.engine.columns import PARTITION
from muntin.model.errors import OptionError, SourceError
from muntin.sources.fetch import Fetcher
from muntin.sources.fetch_requests import BY_ID
from muntin.sources.kafka_broker import Broker
from muntin.sources.kafka_connection import Connection
from muntin.sources.kafka_source import KafkaSourceReader
from muntin.sources.source import Planned, Source

COLUMNS = "id long, at timestamp"


def make_messages(count: int, first: int = 0) -> list[tuple[Any, ...]]:
    return [
        (n % 2, b"k%d" % n, b'{"id":%d,"at":"2026-01-01T00:00:%02dZ"}' % (n, n % 60))
        for n in range(first, first + count)
    ]


def list_rows(frames: Any) -> list[tuple[Any, ...]]:
    return [row for frame in frames for row in frame.select("partition", "offset", "id").rows()]


def test_ranges_are_planned_and_read_again(broker: Kafka) -> None:
    topic = broker.topic()
    broker.send(topic, [*make_messages(20), (0, None, b"broken"), (1, b"k", None)])
    source = mt.kafka(broker.servers, topic, columns=COLUMNS)
    assert isinstance(source, Source)
    assert source.malformed_column == "malformed"
    reader = source.open()
    first = reader.plan(None, 10)
    assert first.has_new
    assert not first.caught_up
    rest = reader.plan(first.end, None)
    assert rest.caught_up
    assert not reader.plan(rest.end, None).has_new
    assert reader.plan(rest.end, None).end == rest.end
    first_rows = list_rows(reader.read(None, first.end))
    frames = list(reader.read(first.end, rest.end))
    assert frames[0].drop(PARTITION).schema == source.schema
    assert {*frames[0][PARTITION]} == {f"{topic}[0]", f"{topic}[1]"}
    assert reader.backlog(first.end) == {f"{topic}[0]": True, f"{topic}[1]": True}
    assert reader.backlog(rest.end) == {f"{topic}[0]": False, f"{topic}[1]": False}
    assert sorted(first_rows + list_rows(frames)) == sorted(
        [(n % 2, n // 2, n) for n in range(20)] + [(0, 10, None), (1, 10, None)]
    )
    bad = pl.concat(frames).filter(pl.col("malformed").is_not_null())
    assert sorted(bad["malformed"].to_list()) == [b"", b"broken"]
    good = pl.concat(frames).filter(pl.col("id") == 19).row(0, named=True)
    assert (good["key"], good["topic"]) == ("k19", topic)
    assert good["at"] == datetime(2026, 1, 1, 0, 0, 19, tzinfo=UTC)
    # Positions are JSON, and another process reads the same rows.
    other_reader = source.open()
    ends = [json.loads(json.dumps(planned.end)) for planned in (first, rest)]
    assert list_rows(other_reader.read(None, ends[0])) == first_rows
    assert list_rows(other_reader.read(*ends)) == list_rows(frames)
    broker.send(topic, make_messages(4, 20))
    assert list_rows(other_reader.read(ends[1], other_reader.plan(ends[1], None).end)) == [
        (n % 2, n // 2 + 1, n) for n in (20, 22, 21, 23)
    ]


def test_a_batch_that_is_read_ahead_has_the_rows_of_its_plan(broker: Kafka) -> None:
    topic = broker.topic()
    broker.send(topic, make_messages(40))
    reader = mt.kafka(broker.servers, topic, columns=COLUMNS, per_batch=10).open()
    first = reader.plan(None, None)
    first_rows = list_rows(reader.read(None, first.end))
    # The next batch is being read now, and newer messages don't change it.
    broker.send(topic, make_messages(10, 40))
    second = reader.plan(first.end, None)
    assert second.end["ends"] == {topic: {"0": 10, "1": 10}}
    assert second.end["newest"] == {topic: {"0": 25, "1": 25}}
    second_rows = list_rows(reader.read(first.end, second.end))
    # Any other range is read as well, as after a batch that failed.
    assert list_rows(reader.read(None, first.end)) == first_rows
    assert list_rows(reader.read(first.end, second.end)) == second_rows
    third = reader.plan(second.end, None)
    third_rows = list_rows(reader.read(second.end, third.end))
    while not third.caught_up:
        start, third = third.end, reader.plan(third.end, None)
        third_rows += list_rows(reader.read(start, third.end))
    assert sorted(first_rows + second_rows + third_rows) == [
        (n % 2, n // 2, n) for n in (*range(0, 50, 2), *range(1, 50, 2))
    ]
    reader.close()


def keep_up(broker: Kafka, topic: str) -> tuple[KafkaSourceReader, Planned]:
    """A reader that has read all messages of a topic, and its last plan."""
    broker.send(topic, make_messages(20))
    reader = mt.kafka(broker.servers, topic, columns=COLUMNS).open()
    first = reader.plan(None, None)
    assert len(list_rows(reader.read(None, first.end))) == 20
    broker.send(topic, make_messages(2, 20))
    second = reader.plan(first.end, None)
    assert len(list_rows(reader.read(first.end, second.end))) == 2
    return reader, second


def test_a_reader_that_keeps_up_fetches_messages_in_one_request(
    broker: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.topic()
    reader, last = keep_up(broker, topic)
    for name in ("latest", "ids", "describe"):
        monkeypatch.delattr(Broker, name)
    monkeypatch.setattr(Fetcher, "fetch", None)
    broker.send(topic, [*make_messages(6, 22), (0, None, b"broken")])
    planned = reader.plan(last.end, None)
    assert planned.has_new
    assert planned.caught_up
    assert planned.end["ends"] == planned.end["newest"] == {topic: {"0": 15, "1": 14}}
    some = list_rows(reader.read(last.end, planned.end))
    assert some == [(0, 11, 22), (0, 12, 24), (0, 13, 26), (0, 14, None),
                    (1, 11, 23), (1, 12, 25), (1, 13, 27)]  # fmt: skip
    # Without messages, a wait ends at its limit; it ends earlier when the first one comes.
    assert reader.wait(planned.end, 0.01)
    assert not reader.plan(planned.end, None).has_new
    sender = threading.Timer(0.05, broker.send, (topic, make_messages(1, 28)))
    sender.start()
    monkeypatch.setattr(reader, "_wait", 60.0)
    assert reader.wait(planned.end, 60.0)
    after = reader.plan(planned.end, None)
    sender.join()
    assert list_rows(reader.read(planned.end, after.end)) == [(0, 15, 28)]
    # Another process reads the same.
    monkeypatch.undo()
    again = mt.kafka(broker.servers, topic, columns=COLUMNS).open()
    assert list_rows(again.read(last.end, planned.end)) == some
    again.close()
    reader.close()


def test_a_reader_waits_for_the_first_message_of_a_topic_that_was_read(broker: Kafka) -> None:
    topic = broker.topic()
    broker.send(topic, make_messages(4))
    reader = mt.kafka(broker.servers, topic, columns=COLUMNS).open()
    first = reader.plan(None, None)
    # A query that begins has no offsets yet, and one that has just read everything can wait.
    assert not reader.wait(None, 0.01)
    assert not reader.wait(first.end, 0.01)
    assert not reader.plan(first.end, None).has_new
    assert reader.wait(first.end, 0.01)
    reader.close()


def test_a_reader_that_keeps_up_plans_no_more_than_a_batch_has(broker: Kafka) -> None:
    topic = broker.topic()
    reader, last = keep_up(broker, topic)
    broker.send(topic, make_messages(10, 22))
    planned = reader.plan(last.end, 4)
    assert planned.end["ends"] == {topic: {"0": 13, "1": 13}}
    assert not planned.caught_up
    assert len(list_rows(reader.read(last.end, planned.end))) == 4
    reader.close()


def test_a_reader_that_keeps_up_reads_no_other_topic(broker: Kafka) -> None:
    topic = broker.topic()
    reader, last = keep_up(broker, topic)
    broker.create_again(topic, 2)
    broker.send(topic, make_messages(40))
    with pytest.raises(SourceError, match="deleted and created again"):
        list(reader.read(last.end, reader.plan(last.end, None).end))
    reader.close()


def test_a_batch_by_name_is_discarded_if_its_topic_is_another_one(
    broker: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker before Kafka 3.1 has no requests by id."""
    takes = Connection.takes
    monkeypatch.setattr(Connection, "takes", lambda *two: two[2] != BY_ID and takes(*two))
    topic = broker.topic()
    reader, last = keep_up(broker, topic)
    broker.send(topic, make_messages(4, 22))
    planned = reader.plan(last.end, None)
    broker.create_again(topic)
    broker.send(topic, [(0, b"k", b"{}")])
    with pytest.raises(SourceError, match="The batch is discarded"):
        list(reader.read(last.end, planned.end))
    reader.close()


def test_where_a_query_begins(broker: Kafka) -> None:
    topic = broker.topic()
    broker.send(topic, make_messages(10))
    latest = mt.kafka(broker.servers, topic, columns=COLUMNS, starting="latest").open()
    empty = latest.plan(None, None)
    assert not empty.has_new
    broker.send(topic, make_messages(2, 10))
    assert len(list_rows(latest.read(empty.end, latest.plan(empty.end, None).end))) == 2
    offsets = json.dumps({topic: {"0": 3, "1": 5}})
    part = mt.kafka(broker.servers, topic, columns=COLUMNS, starting=offsets, per_batch=2).open()
    planned = part.plan(None, 100)
    # Each partition has its share of the batch, rounded up.
    assert list_rows(part.read(None, planned.end)) == [(0, 3, 6), (0, 4, 8), (1, 5, 11)]


def test_what_cant_be_read_is_refused(broker: Kafka) -> None:
    with pytest.raises(SourceError, match="create it first"):
        mt.kafka(broker.servers, "nowhere", columns=COLUMNS).open()
    with pytest.raises(OptionError, match="reader"):
        mt.kafka(broker.servers, "t", columns=COLUMNS, reader="spark").open()


def test_windows_over_a_topic_need_no_spark(broker: Kafka, tmp_path: Path) -> None:
    topic = broker.topic()
    broker.send(topic, [*make_messages(120), (0, None, b"broken")])
    source = mt.kafka(broker.servers, topic, columns=COLUMNS)
    counts = mt.windowed(source, time="at").tumbling("10 seconds").agg(n=mt.count())
    query = counts.start(checkpoint=str(tmp_path / "checkpoint"))
    try:
        assert query.await_idle(30)
        # The watermark has closed all windows except the last one.
        assert query.frame()["n"].sum() == 100
        assert query.progress.counts["malformed"] == 1
    finally:
        query.stop()


def make_backlog_of_two_speeds() -> list[tuple[Any, ...]]:
    """Return old messages of two partitions, of which one is ahead of the other."""
    seconds = {0: (1000, 1500, 2000), 1: (100, 150, 250)}
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return [
        (p, b"k", json.dumps({"id": n, "at": str(start + timedelta(seconds=n))}).encode())
        for p, times in seconds.items()
        for n in times
    ]


@pytest.mark.parametrize(("watermark", "late"), [(None, 0), ("source", 0), ("greatest", 2)])
def test_a_backlog_that_is_read_at_two_speeds_makes_no_message_late(
    broker: Kafka, tmp_path: Path, watermark: Any, late: int
) -> None:
    topic = broker.topic()
    broker.send(topic, make_backlog_of_two_speeds())
    source = mt.kafka(broker.servers, topic, columns=COLUMNS, per_batch=2)
    windows = mt.windowed(source, time="at", watermark=watermark).tumbling("100 seconds")
    query = windows.agg(n=mt.count()).start(checkpoint=str(tmp_path / "checkpoint"))
    try:
        assert query.await_idle(30)
        assert query.progress.counts.get("late", 0) == late
        clocks = {name: time // 10**6 % 86_400 for name, time in query.progress.clocks.items()}
        expected = {f"{topic}[0]": 2000, f"{topic}[1]": 250}
        assert clocks == ({} if watermark == "greatest" else expected)
        assert query.progress.held_by is None
    finally:
        query.stop()


def test_clocks_of_partitions_need_a_source_that_has_some() -> None:
    frame = pl.DataFrame({"k": ["a"], "at": [datetime(2026, 1, 1)]})
    with pytest.raises(OptionError, match="watermark='source' needs a source with partitions"):
        mt.windowed(frame, time="at", watermark="source").tumbling("1 hour").agg(n=mt.count())
    with pytest.raises(OptionError, match="watermark='device' isn't a column"):
        mt.windowed(frame, time="at", watermark=["device"]).tumbling("1 hour").agg(n=mt.count())


def test_a_topic_that_is_created_again_while_it_is_read_is_named(broker: Kafka) -> None:
    topic = broker.topic()
    broker.send(topic, make_messages(20))
    reader = mt.kafka(broker.servers, topic, columns=COLUMNS).open()
    end = reader.plan(None, None).end
    # The reader has just seen the topic, and doesn't look again for seconds.
    broker.create_again(topic, 2)
    broker.send(topic, make_messages(4))
    with pytest.raises(SourceError, match=f"topic '{topic}' was deleted and created again"):
        reader.plan(end, None)
