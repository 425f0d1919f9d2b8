"""Builds checkpoints of every kind of query without Spark, as its readers of state return them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl
from tests.unit.tables.test_opened import app_of

from muntin.engine import columns
from muntin.engine.joins.joiner import Joiner
from muntin.engine.joins.operator import open_join_shard
from muntin.engine.windows.operator import make_combiner, open_shard
from muntin.model import aggregates
from muntin.model.bounds import AsOf, Bound, SessionBound, SideName, Together, Within
from muntin.model.cumulating import Cumulating
from muntin.model.days import days
from muntin.model.fill import Fill
from muntin.model.grouping_sets import GROUPING_ID
from muntin.model.joins import HOWS, SIDES, How, JoinSpec, Side
from muntin.model.kinds import Kind
from muntin.model.policies import Each, Firing
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.spec import WindowSpec
from muntin.model.windows import Windows
from muntin.spark.host.checkpoint import Checkpoint
from muntin.spark.host.shards import slots
from muntin.spark.rescale import choose_division
from muntin.state.blobs import Blobs, MemoryBlobs
from muntin.state.frames import FrameCache
from muntin.state.hashing import split_by_shard
from muntin.state.manifest import parse_manifest
from muntin.state.rescale import build_manifests, split_blob
from muntin.stores import Image, memory
from muntin.tables.partition_store import open_partition_blobs

UNIT = 43_200_000_000
"""Microseconds of one unit of time in tests of windows of days."""
Message = tuple[str, int, int]
"""A key, a time (or an offset) and a value."""
Image_ = dict[int, tuple[str, dict[int, bytes]]]
"""Manifest and blobs of each slot."""
SCHEMA = pl.Schema(
    {
        "key": pl.String(),
        "value": pl.Int64(),
        "part": pl.Int64(),
        "at": pl.Int64(),
        "time": pl.Datetime("us", "UTC"),
        columns.TIME: pl.Int64(),
    }
)
# A column of the kinds with a condition alone: the states of tests/migration don't have it.
ODD = {"odd": pl.Boolean()}
TYPES = {name: str(SCHEMA[name]) for name in ("key", "value", "part", "at", "time")}
BATCHES: list[list[Message]] = [
    [("a", 1, 1), ("b", 3, 2), ("c", 4, 3), ("d", 5, 3)],
    [("a", 12, 4), ("b", 6, 5), ("e", 13, 6)],
    [("a", 14, 7), ("c", 31, 8), ("b", 32, 9), ("a", 9, 1)],
    [("f", 44, 1), ("a", 47, 2), ("b", 49, 3), ("c", 35, 4)],
]
WINDOWS: dict[str, Kind] = {
    "hopping": Windows(10, 4, 3),
    "hopping once": Windows(10, 4, 3),
    "filled": Windows(10, 4, 3),
    "grouped by sets": Windows(10, 4, 3),
    "cumulating": Cumulating(10, 5),
    "days": days("2 days", "America/New_York", slide="1 day"),
    "sliding": Sliding(10),
    "sessions": Sessions(5),
    "sessions of a length": Sessions(5, longest=8),
    "sessions with a start": Sessions(9, start="odd", same="part"),
    "rows": Windows(3, 2, 1, "rows"),
    "rows that slide": Sliding(3, "rows"),
    "offsets": Windows(3, 3, 0, "rows"),
    "sessions of offsets": Sessions(3, "both", "rows"),
}
BOUNDS: dict[str, Bound] = {
    "distance": Within(50, 20),
    "window": Together((Windows(10, 5),)),
    "session": SessionBound(Sessions(5)),
    "version": AsOf(30),
    "offsets": Within(3, 3, "rows"),
}


class MemoryCheckpoint(Checkpoint):
    """A checkpoint in memory, with all of its batches."""

    def __init__(self, images: Sequence[Image_], batch: int | None = None) -> None:
        self.folder = "memory"
        self.images = list(images)
        self.oldest, self.newest = 0, len(self.images) - 1
        self.batch = self.newest if batch is None else self.check_batch("batch", batch)

    def read_manifests(self, batch: int | None = None) -> dict[int, str]:
        image = self.images[self.batch if batch is None else batch]
        return {slot: text for slot, (text, _) in image.items()}

    def read_blobs(
        self, wanted: Mapping[int, Sequence[int]], batch: int | None = None
    ) -> dict[int, dict[int, bytes]]:
        image = self.images[self.batch if batch is None else batch]
        return {slot: {n: image[slot][1][n] for n in numbers} for slot, numbers in wanted.items()}

    def read_lease(self) -> str | None:
        return None

    def measure_blobs(self) -> dict[int, dict[int, int]]:
        image = self.images[self.batch]
        return {slot: {n: len(b) for n, b in blobs.items()} for slot, (_, blobs) in image.items()}

    def read_written_since(self, since: int) -> dict[int, list[bytes]]:
        earlier, blobs_by_slot = self.images[since], {}
        for image in self.images[since + 1 : self.batch + 1]:
            for slot, (_, blobs) in image.items():
                old = earlier[slot][1] if slot in earlier else {}
                new = [blob for number, blob in blobs.items() if number not in old]
                blobs_by_slot.setdefault(slot, []).extend(new)
        return {slot: written for slot, written in blobs_by_slot.items() if written}


def image_of(stores: Sequence[Blobs]) -> Image_:
    """Return the contents of stores by slot."""
    image: Image_ = {}
    for slot, store in zip(slots(len(stores)), stores, strict=True):
        text = store.load() or ""
        image[slot] = (
            text,
            {run.number: store.get(run.number) for run in parse_manifest(text).runs()},
        )
    return image


@dataclass
class Run:
    """A query that keeps its state in memory.

    Attributes:
        step: Processes a batch, and returns its sorted results.
        stores: The store of each shard.
        images: The contents of the stores after each batch.
    """

    step: Callable[[list[Message]], list[Any]]
    stores: list[MemoryBlobs]
    images: list[Image_] = field(default_factory=list)

    def take(self, batches: Sequence[list[Message]]) -> list[list[Any]]:
        outputs = []
        for rows in batches:
            outputs.append(self.step(rows))
            self.images.append(image_of(self.stores))
        return outputs

    def open_checkpoint(self, batch: int | None = None) -> MemoryCheckpoint:
        return MemoryCheckpoint(self.images, batch)

    def moved(self, shards: int, start: Callable[[list[MemoryBlobs]], Run]) -> Run:
        """Return the query with another number of shards; it continues from this one's state."""
        return start(rescaled(self.stores, shards))


def rescaled(old: Sequence[MemoryBlobs], shards: int) -> list[MemoryBlobs]:
    """Distribute the contents of stores over another number of stores."""
    parts: dict[int, dict[int, tuple[int, int, int]]] = {}
    stores = [MemoryBlobs() for _ in range(shards)]
    manifests = [parse_manifest(store.load() or "") for store in old]
    division = choose_division(manifests)
    for store in old:
        for number, blob in store.blobs.items():
            for owner, count, part in split_blob(number, blob, division, shards):
                new_number = secrets.randbits(62)
                stores[owner].put(new_number, part)
                parts.setdefault(number, {})[owner] = (new_number, count, len(part))
    for store, text in zip(
        stores, build_manifests(manifests, parts, shards, division), strict=True
    ):
        store.save(text)
    return stores


def messages(rows: Sequence[Message], scale: int = 1, schema: pl.Schema = SCHEMA) -> pl.DataFrame:
    """Return messages as a frame for the engine."""
    names = ["key", "at", "value"]
    frame = pl.DataFrame(rows, schema=names, orient="row").with_columns(pl.lit(0).alias("part"))
    time = (pl.col("at") * scale).alias(columns.TIME)
    odd = (pl.col("value") % 2 == 1).alias("odd")
    frame = frame.with_columns(time, odd, time.cast(SCHEMA["time"]).alias("time"))
    return frame.select(pl.col(name).cast(kind) for name, kind in schema.items())


def window_spec(kind: str, shards: int = 2, **firing: Any) -> WindowSpec:
    windows, offset, keys, sets = WINDOWS[kind], None, ("key",), None
    if kind == "grouped by sets":
        keys, sets = ("key", GROUPING_ID), (0, 1)
    if "offsets" in kind:
        offset, keys = ("part", "at"), ("part", "key")
    if kind == "hopping once":  # messages that are delivered again count once
        offset = ("part", "at")
    by_arrival = windows.axis == "rows" and offset is None
    unit = UNIT if kind == "days" else 1
    if kind == "filled":
        firing = {"fill": Fill("zero", 30), **firing}
    if windows.axis == "time":
        firing = {"early": Each(), "grace": 10 * unit, "retention": 100 * unit, **firing}
    elif not by_arrival:
        firing = {"retention": 100, **firing}
    return WindowSpec(
        keys,
        "time" if windows.axis == "time" else None,
        windows,
        {"n": aggregates.count(), "sum": aggregates.sum("value")},
        firing=Firing(**firing),
        lateness=2 if windows.axis == "time" else 0,
        types=TYPES | ({"odd": str(ODD["odd"])} if "start" in kind else {}),
        shards=shards,
        offset=offset,
        sets=sets,
    )


def windows_run(spec: WindowSpec, stores: list[MemoryBlobs] | None = None) -> Run:
    """Return a windowed aggregation, on stores of its own or on existing ones."""
    schema = pl.Schema({**SCHEMA, **ODD}) if "odd" in spec.types else SCHEMA
    query = make_combiner(spec, schema)
    shard_stores = stores or [MemoryBlobs() for _ in range(spec.shards or 1)]
    scale = UNIT if spec.windows == WINDOWS["days"] else 1

    def step(rows: list[Message]) -> list[Any]:
        frame = messages(rows, scale, schema)
        shards = [open_shard(query, store, FrameCache()) for store in shard_stores]
        part = query.combine(frame, shards[0].state.watermark, shards[0].state.offsets)
        cells = split_by_shard(part.cells, query.keys, len(shard_stores))
        raw = (
            {}
            if part.raw is None
            else split_by_shard(part.raw, query.message_keys, len(shard_stores))
        )
        emitted: list[Any] = []
        for number, shard in enumerate(shards):
            shard_part = replace(
                part,
                cells=cells.get(number, query.no_cells),
                raw=raw.get(number),
                rejected=part.rejected if number == 0 else query.nothing_rejected,
                counts=part.counts if number == 0 else {},
            )
            emitted += shard.step([shard_part], 0).results.rows()
        return sorted(emitted, key=str)

    return Run(step, shard_stores)


def hows_of(kind: str) -> Sequence[How]:
    """Return the kinds of join that a bound allows."""
    return ("inner", "left") if kind == "version" else HOWS


def join_spec(kind: str, shards: int = 2, how: How | None = None, **firing: Any) -> JoinSpec:
    bound, how = BOUNDS[kind], how or ("full" if "full" in hows_of(kind) else "left")
    offset = ("part", "at") if bound.axis == "rows" else None
    side = Side(("key",), None if offset else "time", offset=offset, types=TYPES)
    if firing:
        side = replace(side, firing=Firing(Each(), Each(), **firing))
    return JoinSpec(side, side, bound, how, shards=shards)


def join_run(
    spec: JoinSpec, stores: list[MemoryBlobs] | None = None, *, apart: bool = False
) -> Run:
    """Return a join of a stream with itself, whose right side has twice the value.

    Args:
        spec: The join.
        stores: The store of each shard.
        apart: Whether each message goes to one side only: odd values to the right one.
    """
    joiner = Joiner(spec, dict.fromkeys(SIDES, SCHEMA))
    shard_stores = stores or [MemoryBlobs() for _ in range(spec.shards or 1)]

    def step(rows: list[Message]) -> list[Any]:
        parts: dict[SideName, dict[int, pl.DataFrame]] = {}
        arrived = {}
        for factor, side in enumerate(SIDES, 1):
            side_rows = [row for row in rows if not apart or row[2] % 2 == factor - 1]
            frame = messages([(key, at, value * factor) for key, at, value in side_rows])
            arrived[side] = joiner.arrive(side, frame)
            parts[side] = split_by_shard(arrived[side].messages, ["key"], len(shard_stores))
        emitted: list[Any] = []
        for number, store in enumerate(shard_stores):
            shard_inputs: dict[SideName, Any] = {}
            for side in SIDES:
                side_batch = arrived[side]
                shard_messages = parts[side].get(number, side_batch.messages.clear())
                counts = side_batch.counts if number == 0 else {}
                shard_inputs[side] = [replace(side_batch, messages=shard_messages, counts=counts)]
            emitted += (
                open_join_shard(joiner, store, FrameCache()).step(shard_inputs, 0).results.rows()
            )
        return sorted(emitted, key=str)

    return Run(step, shard_stores)


TABLES = ("views", "last", "visits", "total", "members", "by_second")


def tables_images(batches: Sequence[list[tuple[str, float]]], partitions: int = 2) -> list[Image_]:
    """Return the state of agents with a table of each kind, after each batch."""
    image, images = Image(), []
    for events in batches:
        running = app_of().open(store=memory(image), partitions=partitions)
        for page, at in events:
            running.send("clicks", page, key=page, timestamp=at)
        running.close()
        stores = [
            open_partition_blobs(memory(image), "app", number) for number in range(partitions)
        ]
        images.append(image_of(stores))
    return images
