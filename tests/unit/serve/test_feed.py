"""Tests of the state and the events that a page is sent, from its start or later."""

from __future__ import annotations

from muntin.serve import Feed, Subject


def make_feed(batches: int = 0) -> Feed:
    feed = Feed()
    feed.add(Subject("visits", columns=("k", "n")))
    for number in range(batches):
        feed.add_batch("visits", number, at=number, numbers={"seen": number})
    return feed


def read_query(feed: Feed):
    return feed.snapshot()["queries"][0]


def test_who_comes_later_sees_what_was_told():
    feed = make_feed()
    feed.add_batch("visits", 0, at=5, numbers={"seen": 1}, windows=[{"k": "a"}])
    feed.add_batch(
        "visits", 1, at=6, numbers={"seen": 2}, rejected={"late": 3}, samples=[{"k": None}]
    )
    query = read_query(feed)
    assert [batch["numbers"]["seen"] for batch in query["batches"]] == [1, 2]
    assert query["windows"] == [{"k": "a"}]
    assert query["samples"] == [{"k": None}]
    assert query["rejected"] == {"late": 3}
    assert query["state"] == "running"


def test_a_repeated_batch_replaces_what_it_told():
    feed = make_feed(3)
    feed.add_batch("visits", 1, at=9, numbers={"seen": 10})
    assert [batch["numbers"]["seen"] for batch in read_query(feed)["batches"]] == [0, 10]


def test_only_so_much_is_kept():
    assert len(read_query(make_feed(700))["batches"]) == 600


def test_events_come_once_and_in_order():
    feed = make_feed(2)
    assert [event["kind"] for event in feed.since(0)] == ["added", "batch", "batch"]
    last = feed.snapshot()["id"]
    assert feed.since(last) == []
    feed.mark_ended("visits", "disk full")
    (event,) = feed.since(last)
    assert event["what"] == {"state": "failed", "failure": "disk full"}
    assert read_query(feed)["failure"] == "disk full"


def test_who_fell_too_far_behind_needs_everything_anew():
    feed = make_feed(2100)
    assert feed.since(1) is None
    assert feed.since(2000) is not None


def test_a_query_that_begins_again_begins_empty():
    feed = make_feed(3)
    feed.mark_ended("visits")
    feed.add(Subject("visits"))
    assert read_query(feed)["batches"] == []
    assert read_query(feed)["state"] == "running"
