"""Tests that a card shows the progress of a query, and is redrawn while it runs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from muntin.hosts.progress import Progress
from muntin.spark import notebook_card
from muntin.spark.notebook_card import Card
from muntin.spark.query import WindowedQuery


@dataclass
class Handle:
    """Spark's handle on a query."""

    name: str | None = "a & b"
    failure: Exception | None = None

    def exception(self) -> Exception | None:
        return self.failure


@dataclass
class Query:
    """A query as a card reads it."""

    query: Handle = field(default_factory=Handle)
    checkpoint: str = "folder/<1>"
    progress: Progress = field(default_factory=Progress)
    is_active: bool = True


def make_card(query: Query) -> Card:
    return Card(cast(WindowedQuery, query))


def test_what_is_on_it() -> None:
    query = Query(progress=Progress(3, counts={"seen": 1200, "counted": 1200}))
    html = make_card(query).html()
    assert "<b>a &amp; b</b> runs" in html
    assert "<td>seen</td><td>1,200</td>" in html
    assert "checkpoint folder/&lt;1&gt;" in html
    assert "messages/s" not in html
    query.is_active = False
    assert "has ended" in make_card(query).html()
    query.query = Handle(None, ValueError("no <disk>\nand more"))
    assert "<b>the query</b> has failed: no &lt;disk&gt;" in make_card(query).html()
    assert "and more" not in make_card(query).html()


def test_it_is_drawn_when_it_changes_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_card, "_SECONDS", 0.01)
    query, drawn = Query(progress=Progress(5, counts={"seen": 100})), []
    thread = make_card(query).follow(drawn.append)

    def until(number: int) -> None:
        deadline = time.monotonic() + 10
        while len(drawn) < number and time.monotonic() < deadline:
            time.sleep(0.005)
        assert len(drawn) == number

    until(1)
    time.sleep(0.05)
    for number in (2, 3):
        until(number - 1)
        query.progress = Progress(4 + number, counts={"seen": 100 * number})
        until(number)
    assert "messages/s" in drawn[1]
    assert "polyline" not in drawn[1]
    assert "polyline" in drawn[2]
    query.is_active = False
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert "has ended" in drawn[-1]
    assert len(drawn) == 4


def test_what_was_counted_before_is_no_speed() -> None:
    query: Any = Query()
    card = make_card(query)
    query.progress = Progress(7, counts={"seen": 10**9})
    card._measure()
    assert "messages/s" not in card.html()
