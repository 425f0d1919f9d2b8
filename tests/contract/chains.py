"""Chains of operators without Spark: the host's own task and steps, over stores in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType
from tests.contract.checkpoints import (
    SCHEMA,
    Image_,
    MemoryCheckpoint,
    Message,
    image_of,
    join_spec,
    messages,
    rescaled,
    window_spec,
)

from muntin.engine import columns
from muntin.engine.joins.operator import JoinOperator
from muntin.engine.operator import RESULTS, TaskWatermark
from muntin.engine.windows.operator import WindowOperator
from muntin.model import aggregates
from muntin.model.bounds import SideName
from muntin.model.joins import SIDES, JoinSpec
from muntin.model.spec import WindowSpec
from muntin.spark.host.chain import _PASSED_FIELDS, Unpack
from muntin.spark.host.messages import PASSED, read_frames
from muntin.spark.host.processor import ShardSteps
from muntin.spark.host.schema import nullable, polars_schema, result_schema
from muntin.spark.host.shards import slots
from muntin.spark.host.task import ShuffleTask, Stage, identity
from muntin.spark.sources.inputs import WALL
from muntin.state.blobs import MemoryBlobs

_INPUT = [name for name in SCHEMA if name != columns.TIME]
SOURCE = from_arrow_schema(SCHEMA.to_frame().select(_INPUT).to_arrow().schema)
_EMITTED = pa.schema([("kind", pa.string()), ("blob", pa.binary()), ("progress", pa.string())])
Spec = WindowSpec | JoinSpec


@dataclass
class Link:
    """An operator of a chain.

    Attributes:
        spec: Its query.
        fed: The operator whose results each of its inputs takes; ``None``: messages.
        stores: The store of each shard.
        images: What they held after each batch.
    """

    spec: Spec
    fed: Mapping[str, Link | None]
    stores: list[MemoryBlobs] = field(default_factory=list)
    images: list[Image_] = field(default_factory=list)

    def __post_init__(self) -> None:
        shards = self.spec.shards or 1
        self.stores = self.stores or [MemoryBlobs() for _ in range(shards)]
        schemas = {name: _taken(one, name) for name, one in self.fed.items()}
        make: Callable[[], Any]
        if isinstance(self.spec, JoinSpec):
            given = {side: polars_schema(schemas[side]) for side in SIDES}
            make = partial(JoinOperator, self.spec, given, "_right", both_keys=False)
            self.results = _pairs(make().joiner.result_names, schemas)
        else:
            make = partial(WindowOperator, self.spec, polars_schema(schemas[""]))
            self.results = result_schema(schemas[""], make().combiner)
        self.stage = Stage(make, slots(shards), {RESULTS: self.results}, identity())

    def chain(self) -> list[Link]:
        """This operator and those before it, as Spark numbers them."""
        before = (link for one in self.fed.values() if one for link in one.chain())
        return [self, *before]

    def take(self, batches: Sequence[list[Message]]) -> list[list[Any]]:
        """What comes out of each batch, in one order."""
        found = []
        for rows in batches:
            blobs = [row.blob for row in self._step(rows) if row.kind == RESULTS]
            emitted = [tuple(row.values()) for blob in blobs for row in _read(blob).to_pylist()]
            found.append(sorted(emitted, key=str))
        return found

    def opened(self, batch: int | None = None) -> MemoryCheckpoint:
        return MemoryCheckpoint(self.images, batch)

    def changed(self, change: Callable[[Spec], Spec], where: int = 0) -> Link:
        """The same chain going on from its state, with one of its operators another one."""
        before, left = {}, where - 1
        for name, one in self.fed.items():
            before[name] = one and one.changed(change, left)
            left -= len(one.chain()) if one else 0
        spec = change(self.spec) if where == 0 else self.spec
        return Link(spec, before, self.stores)

    def moved(self, shards: int) -> Link:
        """The same chain in other shards."""
        before = {name: one and one.moved(shards) for name, one in self.fed.items()}
        stores = rescaled(self.stores, shards)
        return Link(replace(self.spec, shards=shards), before, stores)

    def _step(self, rows: list[Message]) -> list[Any]:
        sent = []
        for name, before in self.fed.items():
            time = self.spec.side(name).time if isinstance(self.spec, JoinSpec) else self.spec.time
            task = ShuffleTask(self.stage, name, read_frames, time, frozenset(), True)
            given = _messages(rows, name) if before is None else before._passed_on(rows, name)
            # Within a query of Spark's, where the suite runs too, batches aren't the chain's.
            with patch(
                "muntin.spark.host.task.load_watermark", lambda *_: TaskWatermark(False, None)
            ):
                sent += [row for batch in task(iter(given)) for row in batch.to_pylist()]
        made: list[Any] = []
        for slot, store in zip(self.stage.slots, self.stores, strict=True):
            mine = ({**row, WALL: None} for row in sent if row["slot"] == slot)
            made += ShardSteps(self.stage, final=False)(store, (slot,), mine)  # type: ignore[arg-type]
        self.images.append(image_of(self.stores))
        return made

    def _passed_on(self, rows: list[Message], side: str) -> list[pa.RecordBatch]:
        made = [row.asDict() for row in self._step(rows)]
        fields = [StructField(f.name, f.dataType) for f in self.results.fields]
        unpack = Unpack(StructType([*fields, *_PASSED_FIELDS]), "inner", side, StructType(), {})
        batches = unpack(iter([pa.RecordBatch.from_pylist(made, schema=_EMITTED)]))
        names = [*_taken(self, side).names, *PASSED]
        return [batch.select(names) for batch in batches]


def _taken(link: Link | None, side: str) -> StructType:
    """The columns that are taken of an operator; a join says itself how pairs came about."""
    if link is None:
        return SOURCE
    own = (columns.EMISSION, columns.REVISION) if side else ()
    return StructType([field for field in link.results.fields if field.name not in own])


def _messages(rows: list[Message], side: str) -> list[pa.RecordBatch]:
    """Messages as Spark sends them; the right side has those with odd values."""
    mine = [row for row in rows if not side or row[2] % 2 == (side == "right")]
    return messages(mine).select(_INPUT).to_arrow().to_batches()


def _read(blob: bytes) -> pa.Table:
    return pa.ipc.open_stream(blob).read_all()


def _pairs(
    names: Mapping[SideName, Mapping[str, str]], schemas: Mapping[str, StructType]
) -> StructType:
    fields = [
        StructField(out, nullable(schemas[side][name].dataType))
        for side in SIDES
        for name, out in names[side].items()
    ]
    return StructType([*fields, StructField(columns.EMISSION, StringType(), False)])


def _windows(kind: str, over: Link | None = None) -> Link:
    """Windows, whose results others take if they are over messages."""
    if over is None:
        return Link(window_spec(kind, early=None, grace=0), {"": None})
    value, time = ("sum", "window_end") if "sum" in over.results.names else ("value", "time")
    counted = {"n": aggregates.count(), "sum": aggregates.sum(value)}
    types = _types(over, "key", value, time)
    return Link(replace(window_spec(kind), time=time, aggregates=counted, types=types), {"": over})


def _join(kind: str, left: Link | None = None, right: Link | None = None) -> Link:
    spec, before = join_spec(kind), {"left": left, "right": right}
    for side in SIDES:
        if (over := before[side]) is not None:
            types = _types(over, *_taken(over, side).names)
            own = replace(spec.side(side), time="window_end", types=types)
            spec = spec.with_side(side, own)
    return Link(spec, before)


def _types(over: Link, *names: str) -> dict[str, str]:
    found = {name: str(kind) for name, kind in polars_schema(over.results).items()}
    return {name: found[name] for name in names}


CHAINS: dict[str, Callable[[], Link]] = {
    "windows over windows": lambda: _windows("hopping", _windows("hopping")),
    "sessions over windows": lambda: _windows("sessions", _windows("cumulating")),
    "sliding windows over sessions": lambda: _windows("sliding", _windows("sessions")),
    "windows over a join": lambda: _windows("hopping", _join("distance")),
    "a join of windows and messages": lambda: _join("distance", _windows("hopping")),
    "three deep": lambda: _windows(
        "hopping", _join("window", _windows("hopping"), _windows("sessions"))
    ),
}
