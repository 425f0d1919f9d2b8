"""Tests that tables go on unchanged after their partitions were divided anew."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.contract.checkpoints import MemoryCheckpoint, image_of, rescaled

from muntin.model.errors import OptionError
from muntin.spark.inspect.tables import OpenTable
from muntin.state.blobs import MemoryBlobs
from muntin.state.manifest import parse_manifest
from muntin.stores import Image, memory
from muntin.tables import App
from muntin.tables.partition_store import open_partition_blobs

TABLES = ("views", "last", "visits", "total", "members", "by_second", "pairs")
Events = list[tuple[Any, float]]


def app_of(closed: list[Any]) -> App:
    """Make an app with tables of each kind, which lists the windows that closed."""
    app = App("app", max_ahead=None)

    def close(key: Any, value: Any) -> None:
        # Sets have no order.
        closed.append((key, sorted(value) if isinstance(value, set) else value))

    options: dict[str, Any] = {"on_window_close": close}
    views = app.Table("views", default=int, **options).hopping(10, 5, expires="20 seconds")
    last = app.Table("last", **options).tumbling(30, expires="20 seconds")
    visits = app.Table("visits", default=list, **options).session(8, expires="20 seconds")
    total = app.Table("total", default=int)
    members = app.SetTable("members")
    by_second = app.SetTable("by_second").tumbling(5, expires="43 seconds")
    pairs = app.Table("pairs", default=int)

    @app.agent(app.topic("clicks", lateness="5 seconds"))
    async def count(stream: Any) -> None:
        async for event in stream.events():
            page = event.value
            views[page] += 1
            last[page] = event.timestamp
            visits[page] += [event.timestamp]
            total[page] += 1
            if total[page] % 5 == 0:
                del total[page]
            members[page].add(int(event.timestamp) % 3)
            by_second[page].add(int(event.timestamp))
            pairs[page, int(event.timestamp) % 2] += 1

    return app


def draw_batches(keys: Any) -> list[Events]:
    random, batches = Random(5), []
    for batch in range(9):
        low = max(0, 12 * batch - 40)
        pages = [keys(random.randrange(20)) for _ in range(25)]
        batches.append([(page, float(random.randrange(low, 12 * batch + 12))) for page in pages])
    return batches


class Run:
    """An app whose partitions are in memory, between batches."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.image = Image()
        self.closed: list[Any] = []

    def take(self, batches: list[Events]) -> None:
        for events in batches:
            running = app_of(self.closed).open(store=memory(self.image), partitions=self.partitions)
            for page, at in events:
                running.send("clicks", page, key=page, timestamp=at)
            running.close()

    def stores(self) -> list[MemoryBlobs]:
        stores = []
        for number in range(self.partitions):
            blobs = open_partition_blobs(memory(self.image), "app", number)
            store = MemoryBlobs(blobs.load())
            store.blobs = {
                r.number: blobs.get(r.number) for r in parse_manifest(store.load() or "").runs()
            }
            stores.append(store)
        return stores

    def rescale(self, partitions: int) -> None:
        """Divide the tables into other partitions."""
        state = {**memory(self.image).marks["app"], "partitions": partitions}
        stores = rescaled(self.stores(), partitions)
        rejected = self.list_rejected()
        self.image, self.partitions = Image(), partitions
        image_store = memory(self.image)
        for number, store in enumerate(stores):
            blobs = open_partition_blobs(image_store, "app", number)
            for run, blob in store.blobs.items():
                blobs.put(run, blob)
            blobs.save(store.load() or "")
            blobs.release()
        image_store.flush({"app": state | {"rejected": 0}})
        self.before = rejected + getattr(self, "before", [])

    def list_rejected(self) -> list[Any]:
        running = app_of([]).open(store=memory(self.image), partitions=self.partitions)
        rows = [(row.reason, row.table, row.key, row.time) for row in running.rejected]
        running.close()
        return rows

    def read_tables(self) -> dict[str, list[Any]]:
        checkpoint = MemoryCheckpoint([image_of(self.stores())])
        frames = {name: OpenTable(checkpoint, name, None, None).fetch() for name in TABLES}
        return {name: sorted(map(str, frame.rows())) for name, frame in frames.items()}


KEYS = {
    "text": lambda n: f"page {n}",
    "numbers": lambda n: n - 3,
    "mixed": lambda n: n / 2 if n % 2 else f"page {n}",
}


@pytest.mark.parametrize("keys", KEYS)
def test_tables_go_on_in_more_and_in_fewer_partitions(keys: str) -> None:
    batches, expected, run = draw_batches(KEYS[keys]), Run(2), Run(2)
    expected.take(batches)
    run.take(batches[:3])
    for batch, partitions in ((3, 3), (6, 1)):
        before = run.read_tables()
        run.rescale(partitions)
        assert run.read_tables() == before
        run.take(batches[batch : batch + 3])
    assert run.read_tables() == expected.read_tables()
    assert sorted(map(str, run.closed)) == sorted(map(str, expected.closed))
    assert sorted(map(str, run.before + run.list_rejected())) == sorted(
        map(str, expected.list_rejected())
    )
    assert run.closed
    assert run.before
    assert all(run.read_tables().values())


def test_what_has_expired_in_one_partition_does_not_come_back() -> None:
    """Each of two partitions with different watermarks keeps its own windows, and no others."""
    run = Run(2)
    run.take(draw_batches(KEYS["text"])[:6])
    ahead, behind = run.stores()

    def put_back(name: str) -> None:
        manifest = parse_manifest(behind.load() or "")
        table = manifest.extra["tables"][name]
        table["closed"] -= 2
        table["watermark"] -= 10_000_000
        behind.save(manifest.dumps())

    put_back("by_second")
    frames = []
    for stores in ([ahead, behind], rescaled([ahead, behind], 1)):
        checkpoint = MemoryCheckpoint([image_of(stores)])
        frames.append(OpenTable(checkpoint, "by_second", None, None).fetch())
    before, after = (sorted(map(str, frame.rows())) for frame in frames)
    assert after == before
    put_back("views")
    with pytest.raises(OptionError, match=r"views.*equally far in its shards; let the query run"):
        rescaled([ahead, behind], 1)


def test_keys_that_lie_in_several_ways_are_not_divided() -> None:
    app = App("app", max_ahead=None)
    total = app.Table("total", default=int)

    @app.agent(app.topic("clicks"))
    async def count(stream: Any) -> None:
        async for page in stream:
            total[page] += 1

    def stores(*keys: Any) -> list[MemoryBlobs]:
        run = Run(2)
        running = app.open(store=memory(run.image), partitions=2)
        for key in keys:
            running.send("clicks", key or "page", key=key)
        running.close()
        return run.stores()

    new_stores = rescaled(stores(None, None), 3)
    assert [bool(store.blobs) for store in new_stores] == [True, False, False]
    pages = [f"page {n}" for n in range(4)]
    mixed = stores(None, None)
    # The state doesn't record that keys are partitioned as a whole, only that they are elsewhere.
    mixed[1] = stores(*pages)[1]
    with pytest.raises(OptionError, match=r"total.*partitioned in several ways; partition its"):
        rescaled(mixed, 3)
