"""What a page that looks now, or later, is shown."""

from __future__ import annotations

from muntin.serve import Feed, Subject


def feed(batches: int = 0) -> Feed:
    made = Feed()
    made.add(Subject("visits", columns=("k", "n")))
    for number in range(batches):
        made.add_batch("visits", number, at=number, numbers={"seen": number})
    return made


def kept(made: Feed):
    return made.snapshot()["queries"][0]


def test_who_comes_later_sees_what_was_told():
    made = feed()
    made.add_batch("visits", 0, at=5, numbers={"seen": 1}, windows=[{"k": "a"}])
    made.add_batch(
        "visits", 1, at=6, numbers={"seen": 2}, rejected={"late": 3}, samples=[{"k": None}]
    )
    seen = kept(made)
    assert [batch["numbers"]["seen"] for batch in seen["batches"]] == [1, 2]
    assert seen["windows"] == [{"k": "a"}]
    assert seen["samples"] == [{"k": None}]
    assert seen["rejected"] == {"late": 3}
    assert seen["state"] == "running"


def test_a_repeated_batch_replaces_what_it_told():
    made = feed(3)
    made.add_batch("visits", 1, at=9, numbers={"seen": 10})
    assert [batch["numbers"]["seen"] for batch in kept(made)["batches"]] == [0, 10]


def test_only_so_much_is_kept():
    assert len(kept(feed(700))["batches"]) == 600


def test_events_come_once_and_in_order():
    made = feed(2)
    assert [event["kind"] for event in made.since(0)] == ["added", "batch", "batch"]
    last = made.snapshot()["id"]
    assert made.since(last) == []
    made.mark_ended("visits", "disk full")
    (event,) = made.since(last)
    assert event["what"] == {"state": "failed", "failure": "disk full"}
    assert kept(made)["failure"] == "disk full"


def test_who_fell_too_far_behind_needs_everything_anew():
    made = feed(2100)
    assert made.since(1) is None
    assert made.since(2000) is not None


def test_a_query_that_begins_again_begins_empty():
    made = feed(3)
    made.mark_ended("visits")
    made.add(Subject("visits"))
    assert kept(made)["batches"] == []
    assert kept(made)["state"] == "running"
