"""Runs an app whose events change tables, and collects all of its output."""

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
    """The layout of the app.

    Attributes:
        by: The key of the sources: ``user``, ``both``, or None.
        pairs: Whether the key of tables is user and page, or the user alone.
        hopping: Size and step of the windows, in seconds.
        expires: Retention of windows, in seconds.
        lateness: The distance of watermarks behind the latest time, in seconds.
    """

    by: str | None
    pairs: bool
    hopping: tuple[float, float]
    expires: float | None
    lateness: int

    def key(self, row: Row) -> Any:
        """Return the key of an event in the tables."""
        return (row["user"], row["page"]) if self.pairs else row["user"]

    def keys(self) -> list[Any]:
        """Return all keys."""
        return [(u, p) for u in USERS for p in PAGES] if self.pairs else list(USERS)

    def source(self, rows: list[Row]) -> mt.tables.Source:
        """Return the source of a topic with these rows."""
        key = (lambda row: (row["user"], row["page"])) if self.by == "both" else self.by
        return mt.source(rows, key=key, time="at")


def make_greetings(layout: Layout) -> list[Row]:
    """Return one event for each key, which starts the clock of every partition."""
    first = {"at": 0.0, "field": 0.0, "do": "greet"}
    return [{**first, "n": -1, "user": u, "page": p} for u in USERS for p in PAGES]


@dataclass
class Output:
    """The output of an app."""

    agent_views: dict[Any, Any] = field(default_factory=dict)
    closed: list[Any] = field(default_factory=list)
    tables: dict[Any, Any] = field(default_factory=dict)
    rejected: list[Any] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


class AppRun:
    """The app during one run.

    Args:
        layout: The layout of the app.
        output: Collects what agents see and which windows close.
    """

    def __init__(self, layout: Layout, output: Output) -> None:
        self.layout = layout
        self.output = output
        self.app = app = App("app", max_ahead=None, lateness=f"{layout.lateness} seconds")
        shared = self._make_windows("shared", list)
        self.tables: dict[str, Any] = {"shared": shared}
        for topic in TOPICS:
            self._add_agent(topic, shared)
        sent = self.tables["sent"] = app.Table("sent", default=int).tumbling(10, expires=7)

        @app.agent(app.topic("third"))
        def third(row: Row) -> None:
            sent[layout.key(row)] += row["n"]

        ended = self.tables["ended"] = app.Table("ended", default=list).tumbling(10, expires=7)

        @app.agent(app.topic("fourth"))
        def fourth(row: Row) -> None:
            ended[row["key"]].current().append(row["n"])

    def _make_windows(self, name: str, default: Callable[[], Any]) -> WindowedTable:
        def close(key: Any, value: Any) -> None:
            final_value = sorted(value) if isinstance(value, list | set) else value
            self.output.closed.append((name, *key, final_value))
            if name == "one lists":
                row = {"key": key[0], "n": len(value)}
                self.app.topic("fourth").post(row, key=key[0])

        table = self.app.Table(name, default=default, on_window_close=close)
        return table.hopping(*self.layout.hopping, self.layout.expires)

    def _add_agent(self, topic: str, shared: WindowedTable) -> None:
        app, layout = self.app, self.layout
        plain = app.Table(f"{topic} plain", default=int)
        sums, lists = (
            self._make_windows(f"{topic} sums", int),
            self._make_windows(f"{topic} lists", list),
        )
        fields = self._make_windows(f"{topic} fields", list)
        by_field = fields.relative_to_field("field")
        visits = app.Table(f"{topic} visits", default=list).session(6, layout.expires)
        sets = app.SetTable(f"{topic} sets").tumbling(10, layout.expires)
        own_tables = (plain, sums, lists, fields, visits, sets)
        self.tables |= {table.name: table for table in own_tables}

        @app.agent(app.topic(topic), name=topic)
        async def work(stream: Any) -> None:
            async for event in stream.events():
                row, key = event.value, layout.key(event.value)
                number = row["n"]
                operation = row["do"]
                plain[key] += 1
                if operation in ("add", "greet"):
                    sums[key] += number
                    shared[key] += [number]
                    visits[key] += [number]
                    sets[key].add(number % 3)
                if operation in ("set", "greet"):
                    sums[key] = number
                    visits[key] = [number]
                    lists[key] = [number]
                if operation == "delete":
                    for table in (sums, lists, visits):
                        with suppress(KeyError):
                            del table[key]
                if operation in ("append", "greet"):
                    lists[key].current().append(number)
                    visits[key].current().append(number)
                    shared[key].current().append(number)
                if operation in ("walk", "greet"):
                    for value in lists[key].windows().values():
                        value.append(number)
                    for value in visits[key].windows().values():
                        value.append(number)
                    sets[key].current().add(number % 3)
                    with suppress(KeyError):
                        lists[key].delta(12).append(number)
                if operation in ("field add", "greet"):
                    by_field[key] += [number]
                if operation in ("field append", "greet") and row["field"] is not None:
                    by_field[key].value().append(number)
                    fields[key] += [-number]
                if operation == "send" and topic == "one":
                    app.topic("third").post(row, key=event.key)
                self.output.agent_views[topic, event.offset] = [
                    *(_read_inside(table, key, event.time / 1e6) for table in own_tables),
                    repr(by_field[key].delta(5)) if row["field"] is not None else None,
                ]

    def finish(self, running: Running, image: Image, partitions: int, stored: bool) -> Output:
        """Return the output, with the final tables as agents, readers and the store see them."""
        output, keys = self.output, self.layout.keys()
        for name, table in self.tables.items():
            values = [_read(table, key) for key in keys]
            output.tables[name] = values
            if stored:
                stored_table = open_stored(image, name, partitions).handle
                assert [_read(stored_table, key) for key in keys] == values
        output.rejected = sorted(
            (row.topic, row.reason, row.table or "", row.value["n"], row.watermark)
            for row in running.rejected
        )
        output.counts = running.counts
        output.closed.sort(key=repr)
        return output


def _read_inside(table: Any, key: Any, at: float) -> Any:
    """Return copies of what an agent sees of a key."""
    if table.spec.windows is None:
        return table[key], key in table
    view = table[key]
    windows = [(window, repr(value)) for window, value in view.windows().items()]
    return windows, repr(view.current()), repr(view.delta(15)), repr(view.current(at - 9))


def _read(table: Any, key: Any) -> Any:
    if table.spec.windows is None:
        return table[key], key in table
    windows = table[key].windows().items()
    return [(w, sorted(v) if isinstance(v, list | set) else v) for w, v in windows]


def open_stored(image: Image, table: str, partitions: int) -> StoredTable:
    """Return a table as it is stored."""
    blobs = [open_partition_blobs(memory(image), "app", number) for number in range(partitions)]
    default = {"plain": int, "sums": int, "sent": int}.get(table.split()[-1], list)
    return StoredTable(
        table,
        [partition_blobs.load() or "" for partition_blobs in blobs],
        lambda runs_by_partition: {
            n: {run: blobs[n].get(run) for run in runs} for n, runs in runs_by_partition.items()
        },
        default=set if table.endswith("sets") else default,
    )


def run(
    layout: Layout,
    rows: dict[str, list[Row]],
    partitions: int,
    batch: int,
    restarts: list[int],
    stored: bool = False,
) -> Output:
    """Run the app with all events, and return its output.

    Args:
        layout: The layout of the app.
        rows: The events of each topic.
        partitions: The number of partitions.
        batch: The number of events of a topic in one commit.
        restarts: The numbers of events of each topic after which the app is opened again.
        stored: Whether to check the stored tables, too.
    """
    output, image = Output(), Image()
    now = [0.0]
    for limit in [*restarts, None]:
        app_run = AppRun(layout, output)
        sources = {topic: layout.source(events[:limit]) for topic, events in rows.items()}
        store = memory(image)
        running = app_run.app.open(store=store, partitions=partitions, clock=lambda: now[0])
        with running:
            running.feed(sources, batch=batch)
            if limit is None:
                # The app doesn't wait any longer for a topic that ended before the other.
                now[0] = 3600.0
                running.tick()
                return app_run.finish(running, image, partitions, stored)
    raise AssertionError("the last part is whole")
