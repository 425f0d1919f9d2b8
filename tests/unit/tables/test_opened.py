"""Tests that tables read from outside have the values that the open app has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

import muntin as mt
from muntin.stores import Image, memory
from muntin.tables import App, WindowedTable
from muntin.tables.opened import RunNumbers, StoredTable
from muntin.tables.partition_store import open_partition_blobs

PARTITIONS = 4
EVENTS = [(f"page {n % 7}", float(n)) for n in range(60)]


@dataclass
class Seen:
    times: list[float]


def app_of(expires: Any = "1 minute") -> App:
    app = App("app", max_ahead=None)
    views = app.Table("views", default=lambda: 100).hopping(10, 5, expires=expires)
    last = app.Table("last").tumbling(30)
    visits = app.Table("visits", default=list).session(10, expires=expires)
    total = app.Table("total", default=int)
    seen = app.Table("seen", value_type=Seen)
    members = app.SetTable("members")
    by_second = app.SetTable("by_second").tumbling(5)
    pairs = app.Table("pairs", default=int)

    @app.agent(app.topic("clicks"))
    async def count(stream: Any) -> None:
        async for event in stream.events():
            page = event.value
            views[page] += 1
            last[page] = event.timestamp
            visits[page] += [event.timestamp]
            total[page] += 1
            seen[page] = Seen([event.timestamp])
            members[page].add(int(event.timestamp) % 3)
            by_second[page].add(int(event.timestamp))
            pairs[page, "second"] += 1

    return app


def run_app(image: Image, app: App, events: list[tuple[str, float]] = EVENTS) -> Any:
    running = app.open(store=memory(image), partitions=PARTITIONS)
    for page, at in events:
        running.send("clicks", page, key=page, timestamp=at)
    return running


def open_table(
    image: Image, table: str, fetched: list[int] | None = None, **options: Any
) -> StoredTable:
    """Open a stored table; the partitions that it fetches are added to ``fetched``."""
    blobs = [open_partition_blobs(memory(image), "app", number) for number in range(PARTITIONS)]

    def fetch(wanted: RunNumbers) -> Mapping[int, Mapping[int, bytes]]:
        if fetched is not None:
            fetched.extend(wanted)
        return {n: {run: blobs[n].get(run) for run in runs} for n, runs in wanted.items()}

    return StoredTable(table, [store.load() or "" for store in blobs], fetch, **options)


@pytest.fixture(scope="module")
def image() -> Image:
    image = Image()
    run_app(image, app_of()).close()
    return image


@pytest.mark.parametrize("table", ["views", "last", "visits", "by_second"])
def test_windows(image: Image, table: str) -> None:
    app = app_of()
    outside = open_table(image, table)
    with app.open(store=memory(image), partitions=PARTITIONS):
        for page in ("page 0", "page 3"):
            expected = WindowedTable(app, table)[page].windows()
            assert outside.handle[page].windows() == expected
            assert expected
    emitted = {(row.key, row.window): row.value for row in outside.snapshot("page 3")}
    assert list(emitted.values()) == list(outside.handle["page 3"].windows().values())


def test_values(image: Image) -> None:
    total = open_table(image, "total")
    expected = {f"page {n}": sum(page == f"page {n}" for page, _ in EVENTS) for n in range(7)}
    assert dict(total.handle.items()) == expected
    assert {row.key: row.value for row in total.snapshot()} == expected
    assert total.handle["nobody"] == 0
    assert open_table(image, "members").handle["page 1"] == {0, 1, 2}
    # This key isn't in the partition where such a key is usually looked up.
    assert open_table(image, "pairs").handle["page 5", "second"] == expected["page 5"]


def test_defaults_and_types(image: Image) -> None:
    views = open_table(image, "views").handle
    assert views["page 0"].current(56.0) == 101
    assert views["nobody"].current(56.0) == 100
    with pytest.raises(KeyError):
        open_table(image, "last").handle["nobody"].current(56.0)
    table_with_default = open_table(image, "last", default=lambda: -1.0)
    assert table_with_default.handle["nobody"].current(56.0) == -1.0
    assert open_table(image, "seen").handle["page 0"] == {"times": [56.0]}
    assert open_table(image, "seen", value_type=Seen).handle["page 0"] == Seen([56.0])


def test_only_the_partition_of_a_key_is_fetched(image: Image) -> None:
    fetched: list[int] = []
    total = open_table(image, "total", fetched)
    assert fetched == []
    assert total.handle["page 2"] > 0
    assert total.handle["page 2"] > 0
    assert len(fetched) == 1
    assert len(total.handle) == 7
    assert sorted(fetched) == [0, 1, 2, 3]


def test_what_isnt_there(image: Image) -> None:
    with pytest.raises(mt.OptionError, match="name='other' isn't a table of this state; give one"):
        open_table(image, "other")
    with pytest.raises(mt.OutsideStreamError):
        open_table(image, "total").handle["page 1"] = 4


@pytest.mark.parametrize("expires", ["20 seconds", "1 hour", None])
def test_expires_may_change(expires: Any) -> None:
    """Stored entries are found whatever the new expiry is."""
    image, app = Image(), app_of()
    run_app(image, app, EVENTS[:40]).close()
    changed_app = app_of(expires)
    running = run_app(image, changed_app, EVENTS[40:])
    visits = WindowedTable(changed_app, "visits")["page 0"].windows()
    assert list(visits.values()) == [[at for page, at in EVENTS if page == "page 0"]]
    views = WindowedTable(changed_app, "views")["page 0"].windows()
    for (start, end), value in views.items():
        expected = sum(page == "page 0" and start <= at < end for page, at in EVENTS)
        assert value == 100 + expected
    assert min(start for start, _ in views) == {"20 seconds": 30.0}.get(expires, -5.0)
    running.close()
