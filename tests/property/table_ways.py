"""An app that does with its tables what events say, and everything that it then says of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import muntin as mt
from muntin.stores import Image, memory
from muntin.tables import App, Running, WindowedTable
from muntin.tables.opened import StoredTable
from muntin.tables.partition_store import open_partition_blobs

USERS, PAGES = "abc", "xy"
TOPICS = ("one", "two")
IN_WINDOWS = ("add", "set", "delete", "append", "walk", "field add", "field append", "send")
Row = dict[str, Any]


@dataclass(frozen=True)
class Layout:
    """What the app is.

    Attributes:
        by: What sources are partitioned by: ``user``, ``both``, or nothing.
        pairs: Whether tables are written under user and page, or the user alone.
        hopping: Size and step.
        expires: How long windows are kept.
        lateness: How far watermarks trail.
    """

    by: str | None
    pairs: bool
    hopping: tuple[float, float]
    expires: float | None
    lateness: int

    def key(self, row: Row) -> Any:
        """The key that an event's tables are written under."""
        return (row["user"], row["page"]) if self.pairs else row["user"]

    def keys(self) -> list[Any]:
        """All keys."""
        return [(u, p) for u in USERS for p in PAGES] if self.pairs else list(USERS)

    def source(self, rows: list[Row]) -> mt.tables.Source:
        """The rows of a topic."""
        by = (lambda row: (row["user"], row["page"])) if self.by == "both" else self.by
        return mt.source(rows, key=by, time="at")


def greetings(layout: Layout) -> list[Row]:
    """One event for each key, so that every clock has begun wherever it counts."""
    first = {"at": 0.0, "field": 0.0, "do": "greet"}
    return [{**first, "n": -1, "user": u, "page": p} for u in USERS for p in PAGES]


@dataclass
class Said:
    """What an app says, by whatever it says it of."""

    seen: dict[Any, Any] = field(default_factory=dict)
    closed: list[Any] = field(default_factory=list)
    tables: dict[Any, Any] = field(default_factory=dict)
    rejected: list[Any] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


class Doing:
    """The app, one run after another.

    Args:
        layout: What it is.
        said: Where it says what agents see and what closes.
    """

    def __init__(self, layout: Layout, said: Said) -> None:
        self.layout = layout
        self.said = said
        self.app = app = App("app", max_ahead=None, lateness=f"{layout.lateness} seconds")
        shared = self._windows("shared", list)
        self.tables: dict[str, Any] = {"shared": shared}
        for topic in TOPICS:
            self._agent(topic, shared)
        sent = self.tables["sent"] = app.Table("sent", default=int).tumbling(10, expires=7)

        @app.agent(app.topic("third"))
        def third(row: Row) -> None:
            sent[layout.key(row)] += row["n"]

        ended = self.tables["ended"] = app.Table("ended", default=list).tumbling(10, expires=7)

        @app.agent(app.topic("fourth"))
        def fourth(row: Row) -> None:
            ended[row["key"]].current().append(row["n"])

    def _windows(self, name: str, default: Callable[[], Any]) -> WindowedTable:
        def close(key: Any, value: Any) -> None:
            emitted = sorted(value) if isinstance(value, list | set) else value
            self.said.closed.append((name, *key, emitted))
            if name == "one lists":
                row = {"key": key[0], "n": len(value)}
                self.app.topic("fourth").post(row, key=key[0])

        plain = self.app.Table(name, default=default, on_window_close=close)
        return plain.hopping(*self.layout.hopping, self.layout.expires)

    def _agent(self, topic: str, shared: WindowedTable) -> None:
        app, layout = self.app, self.layout
        plain = app.Table(f"{topic} plain", default=int)
        sums, lists = self._windows(f"{topic} sums", int), self._windows(f"{topic} lists", list)
        fields = self._windows(f"{topic} fields", list)
        by_field = fields.relative_to_field("field")
        visits = app.Table(f"{topic} visits", default=list).session(6, layout.expires)
        sets = app.SetTable(f"{topic} sets").tumbling(10, layout.expires)
        mine = (plain, sums, lists, fields, visits, sets)
        self.tables |= {table.name: table for table in mine}

        @app.agent(app.topic(topic), name=topic)
        async def work(stream: Any) -> None:
            async for event in stream.events():
                row, key = event.value, layout.key(event.value)
                number = row["n"]
                do = row["do"]
                plain[key] += 1
                if do in ("add", "greet"):
                    sums[key] += number
                    shared[key] += [number]
                    visits[key] += [number]
                    sets[key].add(number % 3)
                if do in ("set", "greet"):
                    sums[key] = number
                    visits[key] = [number]
                    lists[key] = [number]
                if do == "delete":
                    for table in (sums, lists, visits):
                        with suppress(KeyError):
                            del table[key]
                if do in ("append", "greet"):
                    lists[key].current().append(number)
                    visits[key].current().append(number)
                    shared[key].current().append(number)
                if do in ("walk", "greet"):
                    for value in lists[key].windows().values():
                        value.append(number)
                    for value in visits[key].windows().values():
                        value.append(number)
                    sets[key].current().add(number % 3)
                    with suppress(KeyError):
                        lists[key].delta(12).append(number)
                if do in ("field add", "greet"):
                    by_field[key] += [number]
                if do in ("field append", "greet") and row["field"] is not None:
                    by_field[key].value().append(number)
                    fields[key] += [-number]
                if do == "send" and topic == "one":
                    app.topic("third").post(row, key=event.key)
                self.said.seen[topic, event.offset] = [
                    *(_seen(table, key, event.time / 1e6) for table in mine),
                    repr(by_field[key].delta(5)) if row["field"] is not None else None,
                ]

    def finish(self, running: Running, image: Image, partitions: int, stored: bool) -> Said:
        """What is said in the end, inside, by reading from outside, and by what is stored."""
        said, keys = self.said, self.layout.keys()
        for name, table in self.tables.items():
            there = [_read(table, key) for key in keys]
            said.tables[name] = there
            if stored:
                outside = opened(image, name, partitions).handle
                assert [_read(outside, key) for key in keys] == there
        said.rejected = sorted(
            (row.topic, row.reason, row.table or "", row.value["n"], row.watermark)
            for row in running.rejected
        )
        said.counts = running.counts
        said.closed.sort(key=repr)
        return said


def _seen(table: Any, key: Any, at: float) -> Any:
    """What an agent sees; copies."""
    if table.spec.windows is None:
        return table[key], key in table
    mine = table[key]
    windows = [(window, repr(value)) for window, value in mine.windows().items()]
    return windows, repr(mine.current()), repr(mine.delta(15)), repr(mine.current(at - 9))


def _read(table: Any, key: Any) -> Any:
    if table.spec.windows is None:
        return table[key], key in table
    found = table[key].windows().items()
    return [(w, sorted(v) if isinstance(v, list | set) else v) for w, v in found]


def opened(image: Image, table: str, partitions: int) -> StoredTable:
    """A table as the store has it."""
    blobs = [open_partition_blobs(memory(image), "app", number) for number in range(partitions)]
    default = {"plain": int, "sums": int, "sent": int}.get(table.split()[-1], list)
    return StoredTable(
        table,
        [one.load() or "" for one in blobs],
        lambda wanted: {n: {run: blobs[n].get(run) for run in runs} for n, runs in wanted.items()},
        default=set if table.endswith("sets") else default,
    )


def run(
    layout: Layout,
    rows: dict[str, list[Row]],
    partitions: int,
    batch: int,
    restarts: list[int],
    stored: bool = False,
) -> Said:
    """All of it, in one way.

    Args:
        layout: What the app is.
        rows: The events of each topic.
        partitions: In how many partitions.
        batch: How many events of a topic are committed together.
        restarts: After how many of each topic the app is opened anew.
        stored: Whether to look also at what is stored.
    """
    said, image = Said(), Image()
    now = [0.0]
    for upto in [*restarts, None]:
        doing = Doing(layout, said)
        sources = {topic: layout.source(there[:upto]) for topic, there in rows.items()}
        store = memory(image)
        running = doing.app.open(store=store, partitions=partitions, clock=lambda: now[0])
        with running:
            running.feed(sources, batch=batch)
            if upto is None:
                # Whatever topic has stopped before the other isn't waited for any longer.
                now[0] = 3600.0
                running.tick()
                return doing.finish(running, image, partitions, stored)
    raise AssertionError("the last part is whole")
