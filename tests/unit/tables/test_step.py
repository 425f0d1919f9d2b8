"""Tests of an app's agents as an operator of the engine, in this process."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import polars as pl
import pytest
from tests.guide import faust_tables

import muntin as mt
from muntin.engine import columns
from muntin.engine.function_times import FUNCTION_TIMES
from muntin.engine.operator import REJECTED
from muntin.hosts.local.run import OperatorShards
from muntin.model.errors import PartitionError
from muntin.state.blobs import MemoryBlobs
from muntin.tables import App
from muntin.tables.emitted import RESULT, SENT, TABLE, format_kind
from muntin.tables.record import parse_keying
from muntin.tables.route import AgentStage, TopicFormat, group_agents
from muntin.tables.step import AgentOperator

SECOND = 1_000_000
BATCHES = [
    [("a", 1, 1), ("b", 2, 4), ("a", 3, 12), ("c", 1, 3)],
    [("a", 1, 31), ("b", 1, 38), ("b", 4, 25)],
    [("c", 1, 140), ("a", 7, 1), ("a", 2, 130)],
    [("a", 5, 40), ("b", 1, 300)],
]
SCHEMA = {"page": pl.String(), "n": pl.Int64()}


@dataclass
class Click:
    page: str
    n: int


class Shop:
    """An app's operator over shards in memory, and all that it emits."""

    def __init__(
        self,
        app: App,
        schema: Mapping[str, pl.DataType] = MappingProxyType(SCHEMA),
        *,
        value: str | None = None,
        types: Mapping[str, Any] = MappingProxyType({}),
        shards: int = 2,
    ) -> None:
        routes = group_agents(app)
        self.topic = routes[0].topic
        form = TopicFormat(dict(schema), parse_keying("key", next(iter(schema))), value)
        wanted = {format_kind(TABLE, name) for name in app.tables}
        wanted |= {format_kind(RESULT, name) for name in app.agents}
        wanted |= {format_kind(SENT, name) for name in app.topics}
        specs = {
            name: replace(spec, value_type=types.get(name)) for name, spec in app.tables.items()
        }
        stage = AgentStage(app, routes, {self.topic: form}, frozenset([*wanted, REJECTED]), specs)
        self.operator, self.schema = AgentOperator(stage), schema
        self.stores = [MemoryBlobs() for _ in range(shards)]
        self.rows: dict[str, list[pl.DataFrame]] = {}
        self.reopen()

    def reopen(self) -> None:
        """Open the shards again, as a process does that has run none of their batches."""
        self.shards = OperatorShards(self.operator, self.stores, uuid.uuid4().hex)

    def add(self, messages: Sequence[tuple[Any, ...]], *, final: bool = False) -> None:
        """Run a batch of messages: the fields of the schema, and the time in seconds."""
        *fields, times = zip(*messages, strict=True)
        frame = pl.DataFrame(dict(zip(self.schema, fields, strict=True)), schema=dict(self.schema))
        time = pl.Series(columns.TIME, times, dtype=pl.Float64) * SECOND
        parts = self.shards.prepare([frame.with_columns(time.cast(pl.Int64))], self.topic)
        self.outputs = self.shards.run(parts, 0, final=final)
        for output in self.outputs:
            for kind, rows in output.rows.items():
                self.rows.setdefault(kind, []).append(rows)

    def list_emitted(self, kind: str, name: str = "") -> list[dict[str, Any]]:
        frames = self.rows.get(format_kind(kind, name) if name else kind, [])
        return [row for frame in frames for row in frame.to_dicts()]

    def read_table(self, name: str) -> dict[Any, Any]:
        return {row["key"]: row["value"] for row in self.list_emitted(TABLE, name)}


def make_counting_app(closed: list[Any], alarms: list[Any]) -> App:
    """Make an app that counts views by window and in all, collects pages, and raises alarms."""
    app = App("shop", lateness="5 seconds", max_ahead=None)
    best = app.Table("best", default=int)

    def close(key: Any, value: Any) -> None:
        best[key[0]] = max(best[key[0]], value)
        closed.append((key[0], round(key[1].start), value))

    views = app.Table("views", default=int, on_window_close=close)
    windows = views.hopping("30 seconds", "10 seconds", expires="1 minute")
    numbers = app.SetTable("numbers")
    clicks = app.topic("clicks", value_type=Click)

    @app.agent(clicks, sink=[alarms.append])
    async def count(stream: Any) -> Any:
        async for event in stream.events():
            page = event.value.page
            windows[page] += event.value.n
            if windows[page].current() >= 5:
                yield page, windows[page].current(), event.timestamp

    @app.agent(clicks)
    async def group(stream: Any) -> None:
        async for click in stream.group_by(lambda click: f"number {click.n % 2}"):
            numbers[f"number {click.n % 2}"].add(click.page)

    return app


@pytest.mark.parametrize("restart", [False, True])
def test_the_operator_and_the_app_in_process_give_the_same_tables(restart: bool) -> None:
    closed: list[Any] = []
    alarms: list[Any] = []
    values = [{"page": p, "at": s, "n": n} for batch in BATCHES for p, n, s in batch]
    source = mt.source(values, key="page", time="at")
    with make_counting_app(closed, alarms).run({"clicks": source}, partitions=2) as running:
        expected = [dict(part.shards["best"].get_values()) for part in running.parts]  # type: ignore[attr-defined]
        late = sorted((row.value.page, row.value.n) for row in running.rejected)
    operator_closed: list[Any] = []
    operator_alarms: list[Any] = []
    shop = Shop(make_counting_app(operator_closed, operator_alarms))
    for batch in BATCHES:
        if restart:
            shop.reopen()
        shop.add(batch)
    assert closed
    assert (sorted(operator_closed), sorted(operator_alarms)) == (sorted(closed), sorted(alarms))
    assert shop.read_table("best") == expected[0] | expected[1]
    numbers = {key: set(json.loads(value)) for key, value in shop.read_table("numbers").items()}
    assert numbers == {"number 0": {"a", "b"}, "number 1": {"a", "b", "c"}}
    assert late == [("a", 5), ("a", 7)]
    rejected = [(row["reason"], json.loads(row["value"])) for row in shop.list_emitted(REJECTED)]
    assert sorted((reason, value["page"], value["n"]) for reason, value in rejected) == [
        ("late", "a", 5), ("late", "a", 7),
    ]  # fmt: skip


def test_malformed_events_are_rejected_once_however_many_agents_read_them() -> None:
    app = App("orders", max_ahead=None)
    pieces, orders = app.Table("pieces", default=int), app.topic("orders", value_type=Click)

    @app.agent(orders)
    async def add(stream: Any) -> None:
        async for order in stream:
            pieces[order.page] += order.n

    @app.agent(orders)
    async def watch(stream: Any) -> None:
        async for _ in stream:
            pass

    shop = Shop(app, {"page": pl.String(), "body": pl.String()}, value="body")
    good, bad = '{"page": "a", "n": 2}', '{"page": "a", "n": "two"}'
    shop.add([("a", good, 1), ("a", bad, 2), ("a", "{", 3), (None, good, 4), ("a", good, None)])
    shop.add([("a", good, 5)])
    assert shop.read_table("pieces") == {"a": 4}
    assert sorted((row["reason"], row["value"]) for row in shop.list_emitted(REJECTED)) == sorted(
        [("malformed", bad), ("malformed", "{"), ("null_key", good), ("null_time", good)]
    )


@pytest.mark.parametrize("errors", ["raise", "reject"])
def test_an_agent_that_fails_ends_the_batch_or_rejects_the_event(errors: Any) -> None:
    app = App("shop", max_ahead=None, errors=errors)
    views = app.Table("views", default=int)

    @app.agent(app.topic("clicks", value_type=Click))
    async def count(clicks: Any) -> None:
        async for click in clicks:
            if click.n == 4:
                raise RuntimeError("the agent has a fault")
            views[click.page] += click.n

    shop = Shop(app, shards=1)
    shop.add(BATCHES[0])
    if errors == "raise":
        with pytest.raises(RuntimeError, match="the agent has a fault"):
            shop.add(BATCHES[1])
        shop.reopen()
        shop.add([("a", 1, 31)])
        assert shop.read_table("views") == {"a": 5, "b": 2, "c": 1}
    else:
        shop.add(BATCHES[1])
        assert shop.read_table("views") == {"a": 5, "b": 3, "c": 1}
        assert [(row["reason"], row["agent"]) for row in shop.list_emitted(REJECTED)] == [
            ("error", "count")
        ]


def test_an_agent_that_leaves_its_loop_is_started_again_until_all_events_are_read() -> None:
    app = App("shop", max_ahead=None)
    views = app.Table("views", default=int)
    starts = []

    @app.agent(app.topic("clicks", value_type=Click))
    async def count(clicks: Any) -> None:
        starts.append(1)
        async for click in clicks:
            views[click.page] += click.n
            break

    shop = Shop(app, shards=1)
    shop.add(BATCHES[0])
    assert shop.read_table("views") == {"a": 4, "b": 2, "c": 1}
    assert len(starts) >= len(BATCHES[0])


def test_results_come_as_typed_columns_and_messages_as_json() -> None:
    app = App("lines", max_ahead=None)
    words = app.topic("words")

    @app.agent(app.topic("lines", value_type=Click), result_type=Click)
    async def split(stream: Any) -> Any:
        async for line in stream:
            await words.send(value={"n": line.n}, key=line.page)
            yield Click(line.page.upper(), line.n + 1)

    shop = Shop(app, shards=1)
    shop.add([("a", 1, 1), ("b", 2, 2)], final=True)
    assert shop.list_emitted(RESULT, "split") == [{"page": "A", "n": 2}, {"page": "B", "n": 3}]
    assert [(row["key"], row["value"]) for row in shop.list_emitted(SENT, "words")] == [
        ("a", '{"n": 1}'), ("b", '{"n": 2}'),
    ]  # fmt: skip


def test_a_key_of_another_partition_is_refused() -> None:
    app = App("shop", max_ahead=None)
    by_number = app.Table("by_number", default=int)

    @app.agent(app.topic("clicks", value_type=Click))
    async def count(clicks: Any) -> None:
        async for click in clicks:
            by_number[str(click.n)] += 1

    with pytest.raises(PartitionError, match="written under '1' by the agent 'count'"):
        Shop(app).add(BATCHES[0])


def test_a_value_that_fits_no_column_names_the_table_and_the_option() -> None:
    app = App("shop", max_ahead=None)
    totals = app.Table("totals", default=int)

    @app.agent(app.topic("clicks", value_type=Click))
    async def add(clicks: Any) -> None:
        async for click in clicks:
            totals[click.page] += click.n / 2

    with pytest.raises(
        mt.OptionError, match=r"table='totals' holds values that aren't Int64; .*types="
    ):
        Shop(app).add(BATCHES[0])


WITHDRAWALS = [
    ("ann", "NL", 2.5, 1.0),
    ("bob", "NL", 1.0, 4.0),
    ("ann", "DE", 4.0, 12.0),
    ("bob", "NL", 8.0, 9.0),
    ("cay", "NL", 16.0, 31.0),
]
TOTALS = {"ann": 6.5, "bob": 9.0, "cay": 16.0}


def run_guide(app_and_tables: tuple[App, Any], key: str) -> Shop:
    """Run an app of the guide, which adds floats to tables with default int, so needs a type."""
    app, tables = app_and_tables
    schema = {key: pl.String(), "country": pl.String(), "amount": pl.Float64()}
    shop = Shop(app, schema, types=dict.fromkeys(tables, float))
    shop.add(WITHDRAWALS)
    return shop


def test_the_guides_basics() -> None:
    assert run_guide(faust_tables.basics(), "account").read_table("totals") == TOTALS


def test_the_guides_corrected_form() -> None:
    shop = run_guide(faust_tables.correct(), "user")
    assert shop.read_table("user_to_total") == TOTALS
    by_country = [
        (row["key"], row["value"]) for row in shop.list_emitted(TABLE, "country_to_total")
    ]
    assert sorted(by_country) == [("DE", 4.0), ("NL", 11.5), ("NL", 16.0)]


def test_the_guides_windowing() -> None:
    shop = Shop(faust_tables.windowing()[0], {"page": pl.String()})
    shop.add([("home", second) for second in [*(60 + i / 1000 for i in range(1001)), 1900, 61]])
    assert sorted(row["value"] for row in shop.list_emitted(TABLE, "views")) == [1, 1002]


def test_the_guides_changelogging_keeps_a_value_that_was_changed_by_reference() -> None:
    app, _ = faust_tables.changelogging(set_again=False)
    shop = Shop(app, {"account": pl.String(), "amount": pl.Float64()})
    for amounts in ((2.5, 1.0), (4.0, 8.0)):
        shop.reopen()
        shop.add([("ann", amounts[0], 1), ("bob", amounts[1], 2)])
    assert shop.read_table("user_withdrawals") == {"ann": "[2.5, 4.0]", "bob": "[1.0, 8.0]"}


def test_the_time_of_agents_is_named() -> None:
    app = App("shop", max_ahead=None)

    @app.agent(app.topic("clicks", value_type=Click))
    def look(click: Click) -> None:
        time.sleep(0.01)

    shop = Shop(app, shards=1)
    shop.add([("a", 1, 0), ("b", 2, 1)])
    (output,) = shop.outputs
    # A lower bound is exact: an agent that sleeps can't take less.
    assert output.progress[FUNCTION_TIMES]["look"] >= 0.02
