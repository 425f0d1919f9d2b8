"""Tests that an error in an agent rejects the events that it was reading, and no others."""

from __future__ import annotations

from typing import Any

import pytest

import muntin as mt
from muntin.tables import App


def is_odd(value: Any) -> bool:
    """Return whether a number is odd; text raises an error."""
    return bool(value % 2)


def make_listing_app(
    most: int, *, filtered: bool, bad: int | None = None
) -> tuple[App, list[Any], Any]:
    """Make an app whose agent reads lists, and fails at one with ``bad``; return the lists, too."""
    app = App("app", max_ahead=None, errors="reject")
    totals = app.Table("totals", default=int).tumbling(10)
    lists: list[Any] = []

    @app.agent(app.topic("numbers"))
    async def add(stream: Any) -> None:
        async for numbers in (stream.filter(is_odd) if filtered else stream).take(most):
            if bad in numbers:
                raise ValueError("bad")
            lists.append(numbers)
            totals["all"] += len(numbers)

    return app, lists, totals


def list_rejected(running: Any) -> list[Any]:
    return [(row.value, row.offset, row.reason, row.agent) for row in running.rejected]


@pytest.mark.parametrize(
    ("batch", "lost", "lists"),
    [(100, [3, 4, 5], [[0, 1, 2], [6, 7]]), (5, [3, 4], [[0, 1, 2], [5, 6, 7]])],
)
def test_an_error_costs_the_whole_list(batch: int, lost: list[int], lists: Any) -> None:
    app, lists_read, totals = make_listing_app(3, filtered=False, bad=4)
    source = mt.source(range(8), time=float)
    with app.run({"numbers": source}, batch=batch) as running:
        assert lists_read == lists
        assert list_rejected(running) == [(n, n, "error", "add") for n in lost]
        assert [row.time for row in running.rejected] == [n * 1_000_000 for n in lost]
        assert [row.watermark for row in running.rejected] == [(n - 1) * 1_000_000 for n in lost]
        assert running.counts == {"seen": 8, "taken": 8, "error": len(lost)}
        assert totals["all"].windows() == {(0.0, 10.0): 8 - len(lost)}


def test_a_filter_that_raises_costs_what_was_gathered_too() -> None:
    app, lists_read, _ = make_listing_app(3, filtered=True)
    with app.run({"numbers": [1, 3, 5, 7, 2, 9, "x", 11, 4, 13]}) as running:
        assert lists_read == [[1, 3, 5], [11, 13]]
        lost = [(7, 3), (9, 5), ("x", 6)]
        assert list_rejected(running) == [(value, at, "error", "add") for value, at in lost]
        assert "TypeError" in (running.rejected[0].detail or "")


def test_events_that_were_filtered_out_are_not_the_list_s() -> None:
    app, lists_read, totals = make_listing_app(3, filtered=True, bad=3)
    source = mt.source([1, 12, 3, 14, 5, 26], time=float)
    with app.run({"numbers": source}, batch=2) as running:
        assert lists_read == [[1], [5]]
        assert list_rejected(running) == [(3, 2, "error", "add")]
        # A list is written at the time of its own last event, not of one that was filtered out.
        assert totals["all"].windows() == {(0.0, 10.0): 2}


def test_a_list_that_the_agent_broke_off_at_is_done_with() -> None:
    app = App("app", max_ahead=None, errors="reject")
    seen: list[Any] = []

    @app.agent(app.topic("numbers"))
    async def look(stream: Any) -> None:
        if not seen:
            async for numbers in stream.take(2):
                seen.append(numbers)
                break
            return
        async for number in stream:
            seen.append(number)
            raise ValueError("bad")

    with app.run({"numbers": [1, 2, 3, 4]}) as running:
        assert seen == [[1, 2], 3, 4]
        assert [row.value for row in running.rejected] == [3, 4]
