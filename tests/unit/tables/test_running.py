"""Tests of an app in this process: its sources, results, rejected events and restarts."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from concurrent.futures import thread
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic
import pytest

import muntin as mt
from muntin.stores import Image, memory, rocks
from muntin.tables import App, Running


@dataclass
class Click:
    page: str
    seconds: float = 0.0


class Order(pydantic.BaseModel):
    item: str
    pieces: int = pydantic.Field(gt=0)


def make_counting_app(**options: Any) -> tuple[App, Any]:
    app = App("app", max_ahead=None, **options)
    pages = app.Table("pages", default=int)

    @app.agent(app.topic("clicks", value_type=Click))
    async def count(clicks: Any) -> None:
        async for click in clicks:
            pages[click.page] += 1

    return app, pages


def test_an_app_without_tables_counts_on() -> None:
    image = Image()
    for number in (1, 2):
        app = App("app", max_ahead=None)

        @app.agent(app.topic("clicks"))
        async def look(clicks: Any) -> None:
            async for _ in clicks:
                pass

        with app.open(store=memory(image)) as running:
            running.send("clicks", 1, timestamp=1.0)
            running.send("clicks", 1, timestamp=1.0)
            assert running.counts == {"seen": 2 * number, "taken": 2 * number}


def test_values_of_the_wrong_type_are_rejected_and_harm_nobody() -> None:
    app, pages = make_counting_app()
    raw = [
        {"page": "a"},
        b'{"page": "a", "seconds": 2}',
        {"seconds": 1.0},
        Click("a"),
        '{"page": ',
        {"page": "a", "seconds": "long"},
        None,
    ]
    with app.open() as running:
        for value in raw:
            running.send("clicks", value, key="a", timestamp=1.0)
        assert pages["a"] == 3
        assert running.counts == {"seen": 7, "taken": 3, "malformed": 4}
        assert [row.value for row in running.rejected] == [raw[2], raw[4], raw[5], raw[6]]
        assert [row.agent for row in running.rejected] == [None] * 4
        details = [row.detail or "" for row in running.rejected]
        assert details[0].startswith("page: ")
        assert details[2].startswith("seconds: ")
        assert all(details)


def test_pydantic_models_say_what_is_wrong() -> None:
    app = App("app", max_ahead=None)
    pieces = app.Table("pieces", default=int)

    @app.agent(app.topic("orders", value_type=Order, key_type=str))
    def add(order: Order) -> None:
        pieces[order.item] += order.pieces

    with app.open() as running:
        for count in (2, 0, 5):
            running.send("orders", {"item": "pen", "pieces": count}, key="pen", timestamp=1.0)
        running.send("orders", {"item": "pen", "pieces": 1}, key=7, timestamp=1.0)
        assert pieces["pen"] == 7
        assert [row.value for row in running.rejected] == [
            {"item": "pen", "pieces": 0},
            {"item": "pen", "pieces": 1},
        ]
        assert "greater than 0" in (running.rejected[0].detail or "")


def test_what_lacks_a_key_or_a_time_is_rejected() -> None:
    app, pages = make_counting_app()
    rows = [
        {"page": "a", "by": "a", "at": 1.0},
        {"page": "a", "by": None, "at": 1.0},
        {"page": "a", "by": "a", "at": None},
        {"page": "a", "by": "a", "at": "soon"},
        {"page": "a", "by": "a"},
        {"page": "a", "at": 5.0},
    ]
    with app.run({"clicks": mt.source(rows, key="by", time="at")}) as running:
        rejected = [(row.reason, row.offset) for row in running.rejected]
        assert rejected == [
            ("null_key", 1), ("null_time", 2), ("malformed", 3), ("null_time", 4), ("null_key", 5),
        ]  # fmt: skip
        assert pages["a"] == 1


def test_a_time_ahead_of_the_clock_counts_before_a_missing_key() -> None:
    """On Spark, too, a time is checked where its message is read, before keys."""
    app, _ = make_counting_app()
    app.max_ahead = 60_000_000
    rows = [{"page": "a", "by": None, "at": 4e9}, {"page": "a", "by": None, "at": 1.0}]
    with app.run({"clicks": mt.source(rows, key="by", time="at")}) as running:
        assert [row.reason for row in running.rejected] == ["future", "null_key"]


def test_a_time_ahead_of_the_clock_counts_before_an_unreadable_value() -> None:
    """On Spark, too, a task checks times before a shard reads values."""
    app = App("app", max_ahead="1 minute")
    app.agent(app.topic("clicks", value_type=int))(lambda value: None)
    with app.open(clock=lambda: 1000.0) as running:
        for value, key, time in (("x", "a", 2000.0), ("x", "a", 990.0), (1, "a", 990.0)):
            running.send("clicks", value, key=key, timestamp=time)
        assert [row.reason for row in running.rejected] == ["future", "malformed"]
        assert running.rejected[1].time == 990_000_000


def test_a_run_goes_on_where_the_last_one_was(tmp_path: Path) -> None:
    rows = [{"page": page} for page in "abacadabra"]
    topics = mt.memory()
    for upto in (0, 4, 4, 10, 10):
        for row in rows[len(topics.messages("clicks")) : upto]:
            topics.send("clicks", row, key=row["page"])
        app, pages = make_counting_app()
        with app.run(topics, store=rocks(tmp_path / "state"), batch=3) as running:
            counts = {page: pages[page] for page in "abcdr"}
            assert counts == {
                page: [r["page"] for r in rows[:upto]].count(page) for page in "abcdr"
            }
            assert running.counts.get("seen", 0) == upto


def test_rejected_events_outlive_a_restart() -> None:
    image = Image()
    for number in range(3):
        app, _ = make_counting_app()
        with app.open(store=memory(image)) as running:
            running.send("clicks", {"number": number}, key="a", timestamp=1.0)
            rejected = [(row.reason, row.value) for row in running.rejected]
            assert rejected == [("malformed", {"number": n}) for n in range(number + 1)]
            assert running.counts == {"seen": number + 1, "malformed": number + 1}


def test_a_batch_that_fails_leaves_nothing_behind() -> None:
    image = Image()
    fails = [True]

    def failing() -> tuple[App, Any]:
        app = App("app", max_ahead=None)
        pages = app.Table("pages", default=int)

        @app.agent(app.topic("clicks"))
        async def count(clicks: Any) -> None:
            async for page in clicks:
                pages[page] += 1
                if page == "bad" and fails[0]:
                    raise RuntimeError("a fault in the agent")

        return app, pages

    rows = ["a", "b", "a", "bad", "a"]
    source = {"clicks": mt.source(rows, key=lambda page: page)}
    app, pages = failing()
    with pytest.raises(RuntimeError, match="a fault in the agent"):
        app.run(source, store=memory(image), batch=2)
    app, pages = failing()
    with app.open(store=memory(image)):
        assert dict(pages.items()) == {"a": 1, "b": 1}
    fails[0] = False
    app, pages = failing()
    with app.run(source, store=memory(image), batch=2) as running:
        assert dict(pages.items()) == {"a": 3, "b": 1, "bad": 1}
        assert running.counts == {"seen": 5, "taken": 5}


def test_errors_can_cost_their_event_only() -> None:
    app = App("app", max_ahead=None, errors="reject")
    lengths = app.Table("lengths", default=int)

    @app.agent(app.topic("words"))
    async def measure(words: Any) -> None:
        async for word in words:
            lengths["all"] += len(word)

    @app.agent(app.topic("words"))
    def shout(word: Any) -> None:
        lengths["plain"] += len(word)

    with app.run({"words": ["one", 2, 3, "four", None]}) as running:
        assert dict(lengths.items()) == {"all": 7, "plain": 7}
        rejected = [(row.agent, row.value, row.reason) for row in running.rejected]
        assert sorted(rejected, key=str) == sorted(
            [(agent, value, "error") for agent in ("measure", "shout") for value in (2, 3, None)],
            key=str,
        )
        assert "TypeError" in (running.rejected[0].detail or "")


def test_agents_send_to_each_other() -> None:
    app = App("app", max_ahead=None)
    lengths = app.Table("lengths", default=int)
    words = app.topic("words", value_type=str)

    @app.agent(app.topic("lines"))
    async def split(lines: Any) -> None:
        async for line in lines:
            for word in line.split():
                await words.send(value=word, key=word)
            await alarm.cast({"line": line})

    @app.agent(words, sink=["found"])
    async def measure(stream: Any) -> Any:
        async for word in stream:
            lengths[word] += len(word)
            yield word.upper()

    @app.agent()
    async def alarm(stream: Any) -> None:
        async for emitted in stream.events():
            line = emitted.value["line"]
            lines.append((line, emitted.timestamp))

    lines: list[Any] = []
    with app.open(partitions=3) as running:
        running.send("lines", "to be or not to be", timestamp=7.0)
        assert dict(lengths.items()) == {"to": 4, "be": 4, "or": 2, "not": 3}
        # Each partition works in order, and one after another.
        words_sent = running.topics.values("found")
        assert sorted(words_sent) == sorted(["TO", "BE", "OR", "NOT", "TO", "BE"])
        assert lines == [("to be or not to be", 7.0)]


def test_messages_on_their_way_outlive_a_crash() -> None:
    """The message is committed with the batch that sent it, before anyone works on it."""
    image = Image()
    crashes = [True]

    def make_app() -> tuple[App, Any]:
        app = App("app", max_ahead=None)
        done = app.Table("done", default=list, value_type=list[Click])
        jobs = app.topic("jobs", value_type=Click)

        @app.agent(app.topic("orders"))
        async def plan(orders: Any) -> None:
            async for order in orders:
                await jobs.send(value=Click(order, 2.5), key=order)

        @app.agent(jobs)
        async def work(stream: Any) -> None:
            async for job in stream:
                if crashes[0]:
                    raise RuntimeError("crash")
                done[job.page] += [job]

        return app, done

    app, done = make_app()
    with pytest.raises(RuntimeError, match="crash"), app.open(store=memory(image)) as running:
        running.send("orders", "pen", key="pen", timestamp=3.0)
    crashes[0] = False
    app, done = make_app()
    with app.open(store=memory(image)) as running:
        running.tick()
        assert done["pen"] == [Click("pen", 2.5)]
        running.tick()
        assert done["pen"] == [Click("pen", 2.5)]


def test_sinks_are_functions_topics_and_agents() -> None:
    app = App("app", max_ahead=None)
    heard: list[Any] = []
    later: list[Any] = []

    async def listen(value: Any) -> None:
        heard.append(value)

    @app.agent(app.topic("doubled"))
    def double(value: Any) -> None:
        later.append(value)

    @app.agent(app.topic("numbers"), sink=[heard.append, listen, app.topic("told"), double])
    def twice(number: Any) -> Iterator[Any]:
        yield number
        yield number * 2

    @app.agent(app.topic("numbers"), sink=[heard.append], name="odd ones")
    def odd(number: Any) -> Any:
        return number if number % 2 else None

    with app.run({"numbers": [1, 2]}) as running:
        assert heard == [1, 1, 2, 2, 2, 2, 4, 4, 1]
        assert later == running.topics.values("told") == [1, 2, 2, 4]


def test_an_agent_that_ends_begins_anew() -> None:
    app = App("app", max_ahead=None)
    seen: list[Any] = []

    @app.agent(app.topic("numbers"))
    async def pairs(numbers: Any) -> None:
        pair = []
        async for number in numbers:
            pair.append(number)
            if len(pair) == 2:
                break
        seen.append(pair)

    with app.run({"numbers": [1, 2, 3, 4, 5]}):
        pass
    assert seen == [[1, 2], [3, 4], [5]]


def test_an_agent_that_reads_nothing_is_refused() -> None:
    app = App("app")

    @app.agent(app.topic("numbers"))
    async def idle(numbers: Any) -> None:
        return

    with pytest.raises(mt.OptionError, match="agent='idle' ends without reading"):
        app.open()


def test_take_hands_over_lists_that_end_with_their_batch() -> None:
    app = App("app", max_ahead=None)
    totals = app.Table("totals", default=int).tumbling(10)
    lists: list[Any] = []

    @app.agent(app.topic("numbers"))
    async def add(numbers: Any) -> None:
        async for numbers_of_list in numbers.take(3, within=10):
            lists.append(numbers_of_list)
            totals["all"] += len(numbers_of_list)
            assert totals["all"].current(numbers_of_list[0]) == len(numbers_of_list)

    rows = [{"at": float(n)} for n in (1, 2, 3, 11, 12, 21, 22)]
    with app.run({"numbers": mt.source(rows, time="at")}, batch=5):
        assert [[row["at"] for row in numbers_of_list] for numbers_of_list in lists] == [
            [1.0, 2.0, 3.0], [11.0, 12.0], [21.0, 22.0],
        ]  # fmt: skip
        # A list is written at the time of its last event.
        assert totals["all"].windows() == {(0.0, 10.0): 3, (10.0, 20.0): 2, (20.0, 30.0): 2}


def test_streams_can_be_filtered_numbered_and_grouped() -> None:
    app = App("app", max_ahead=None)
    read: dict[str, list[Any]] = {name: [] for name in ("even", "numbered", "items", "grouped")}
    topic = app.topic("numbers")

    @app.agent(topic)
    async def even(stream: Any) -> None:
        async for number in stream.filter(lambda n: n % 2 == 0).filter(lambda n: n > 2):
            read["even"].append(number)

    @app.agent(topic)
    async def numbered(stream: Any) -> None:
        async for number, value in stream.enumerate(1):
            read["numbered"].append((number, value))

    @app.agent(topic)
    async def items(stream: Any) -> None:
        async for key, value in stream.filter(lambda n: n > 4).items():
            read["items"].append((key, value))

    @app.agent(topic)
    async def grouped(stream: Any) -> None:
        async for event in stream.group_by(lambda n: "even" if n % 2 == 0 else None).events():
            read["grouped"].append((event.key, event.value))

    with app.run({"numbers": mt.source([1, 2, 3, 4, 5, 6], key=lambda n: n * 10)}) as running:
        assert read == {
            "even": [4, 6],
            "numbered": [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6)],
            "items": [(50, 5), (60, 6)],
            "grouped": [("even", 2), ("even", 4), ("even", 6)],
        }
        rejected = [(row.reason, row.agent, row.value) for row in running.rejected]
        assert rejected == [("null_key", "grouped", n) for n in (1, 3, 5)]


def test_a_function_that_groups_may_be_surprised_by_a_value() -> None:
    app = App("app", max_ahead=None)
    seen: list[Any] = []

    @app.agent(app.topic("values"), group_by=lambda value: value["group"])
    def look(value: Any) -> None:
        seen.append(value)

    with app.run({"values": [{"group": 1}, 7, {}]}) as running:
        assert seen == [{"group": 1}]
        assert [row.reason for row in running.rejected] == ["malformed"] * 2


def test_it_runs_where_a_loop_is_running_already() -> None:
    async def notebook() -> dict[str, int]:
        app, pages = make_counting_app()
        with app.run({"clicks": mt.source([{"page": "a"}], key="page")}) as running:
            running.send("clicks", Click("a"), key="a")
            return dict(pages.items())

    assert asyncio.run(notebook()) == {"a": 2}


def open_counting_app(**options: Any) -> Running:
    return make_counting_app()[0].open(**options)


def test_what_cannot_work_is_refused() -> None:
    image = Image()
    open_counting_app(store=memory(image), partitions=2).close()
    with pytest.raises(mt.OptionError, match="partitions=0"):
        open_counting_app(partitions=0)
    app, _ = make_counting_app()
    with app.open() as running:
        running.send("clicks", Click("a"), key="a", timestamp=1.0)
        with pytest.raises(mt.OptionError, match=r"app='app' is open already"):
            app.open()
        with pytest.raises(mt.OptionError, match=r"topic='orders' is read by no agent.*clicks"):
            running.send("orders", 1)
        with pytest.raises(mt.OptionError, match="topic='orders' is read by no agent"):
            running.feed({"orders": []})
        with pytest.raises(mt.OptionError, match="batch=0"):
            running.feed({}, batch=0)
    with pytest.raises(mt.MuntinError, match="is closed"):
        running.send("clicks", Click("a"), key="a", timestamp=1.0)


def test_partitions_belong_to_the_store() -> None:
    image = Image()
    with open_counting_app(store=memory(image), partitions=2) as running:
        running.send("clicks", Click("a"), key="a", timestamp=1.0)
    with pytest.raises(mt.SpecChangedError, match="partitions=2, not 3"):
        open_counting_app(store=memory(image), partitions=3)


def test_two_apps_may_share_a_store() -> None:
    image = Image()
    for name in ("one", "two", "one"):
        app, pages = make_counting_app()
        app.name = name
        with app.open(store=memory(image)) as running:
            running.send("clicks", Click(name), key=name, timestamp=1.0)
            assert set(dict(pages.items())) == {name}


def test_an_open_app_may_be_collected_while_a_thread_pool_is_locked() -> None:
    ended = threading.Event()

    def open_app() -> None:
        app = App("app", max_ahead=None)

        @app.agent(app.topic("clicks"))
        async def look(clicks: Any) -> None:
            try:
                async for _ in clicks:
                    pass
            finally:
                ended.set()

        app.open(store=memory(Image())).send("clicks", 1, timestamp=1.0)

    async def notebook() -> None:
        open_app()
        # A garbage collection may begin in the middle of `submit`, which has this lock.
        with thread._global_shutdown_lock:
            gc.collect()

    caller = threading.Thread(target=asyncio.run, args=(notebook(),), daemon=True)
    caller.start()
    caller.join(timeout=30)
    assert not caller.is_alive()
    assert ended.wait(timeout=30)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda app: app.Table(""), "table='' is no name"),
        (lambda app: app.Table("pages"), "table='pages' is there already"),
        (lambda app: app.Table("t", default=0), "default=0 can't be called"),
        (lambda app: app.topic("clicks", value_type=int), "topic='clicks'.*other options"),
        (lambda app: app.task(lambda: None), "task=.*isn't a coroutine function"),
        (lambda app: app.agent(name="count")(lambda v: v), "name='count' is the name of another"),
        (lambda app: App("x", errors="ignore"), "errors='ignore' isn't known"),
        (lambda app: app.SetTable("s").session(10), "SetTable='s' can't be kept by sessions"),
        (lambda app: mt.source([], key=7), "key=7 is no field"),
    ],
)
def test_definitions_that_cannot_work_are_refused(make: Any, problem: str) -> None:
    with pytest.raises(mt.OptionError, match=problem):
        make(make_counting_app()[0])


def test_streams_are_opened_in_agents() -> None:
    app, _ = make_counting_app()
    with pytest.raises(mt.OutsideStreamError, match=r"clicks.*@app\.task"):
        app.topic("clicks").stream()
    with pytest.raises(mt.OutsideStreamError, match="sent to clicks outside"):
        app.topic("clicks").post(1)


def test_a_source_that_isnt_the_one_that_was_read_is_refused() -> None:
    image = Image()
    clicks = [{"page": page} for page in ("home", "cart", "home")]
    app, pages = make_counting_app()
    with app.open(store=memory(image)) as running:
        running.feed({"clicks": clicks})
        running.feed({"clicks": [*clicks, {"page": "new"}]})
        assert pages["new"] == 1
        with pytest.raises(mt.OptionError, match="sources='clicks' has fewer rows than the 4"):
            running.feed({"clicks": [{"page": "cart"}]})
        with pytest.raises(mt.OptionError, match="sources='clicks' has another row 4 than"):
            running.feed({"clicks": [{"page": f"p{n}"} for n in range(9)]})
        assert running.counts["taken"] == 4
    app, _ = make_counting_app()
    with app.open(store=memory(image)) as running:
        with pytest.raises(mt.OptionError, match="has fewer rows than the 4"):
            running.feed({"clicks": clicks})
        running.feed({"clicks": [*clicks, {"page": "new"}, {"page": "last"}]})
        assert running.counts["taken"] == 5
