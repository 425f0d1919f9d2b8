"""Runs chains of operators without Spark: the host's tasks and steps, over stores in memory."""

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
        inputs: The operator whose results each input takes; ``None`` for messages.
        stores: The store of each shard.
        images: The contents of the stores after each batch.
    """

    spec: Spec
    inputs: Mapping[str, Link | None]
    stores: list[MemoryBlobs] = field(default_factory=list)
    images: list[Image_] = field(default_factory=list)

    def __post_init__(self) -> None:
        shards = self.spec.shards or 1
        self.stores = self.stores or [MemoryBlobs() for _ in range(shards)]
        schemas = {name: _select_columns(link, name) for name, link in self.inputs.items()}
        make: Callable[[], Any]
        if isinstance(self.spec, JoinSpec):
            side_schemas = {side: polars_schema(schemas[side]) for side in SIDES}
            make = partial(JoinOperator, self.spec, side_schemas, "_right", both_keys=False)
            self.results = _pairs(make().joiner.result_names, schemas)
        else:
            make = partial(WindowOperator, self.spec, polars_schema(schemas[""]))
            self.results = result_schema(schemas[""], make().combiner)
        self.stage = Stage(make, slots(shards), {RESULTS: self.results}, identity())

    def chain(self) -> list[Link]:
        """Return this operator and those before it, in the order of Spark's numbers."""
        upstream = (link for source in self.inputs.values() if source for link in source.chain())
        return [self, *upstream]

    def take(self, batches: Sequence[list[Message]]) -> list[list[Any]]:
        """Process batches, and return the sorted results of each."""
        outputs = []
        for rows in batches:
            blobs = [row.blob for row in self._step(rows) if row.kind == RESULTS]
            emitted = [tuple(row.values()) for blob in blobs for row in _read(blob).to_pylist()]
            outputs.append(sorted(emitted, key=str))
        return outputs

    def open_checkpoint(self, batch: int | None = None) -> MemoryCheckpoint:
        return MemoryCheckpoint(self.images, batch)

    def change_operator(self, change: Callable[[Spec], Spec], number: int = 0) -> Link:
        """Return the chain with one operator changed; it continues from this chain's state."""
        inputs, remaining = {}, number - 1
        for name, link in self.inputs.items():
            inputs[name] = link and link.change_operator(change, remaining)
            remaining -= len(link.chain()) if link else 0
        spec = change(self.spec) if number == 0 else self.spec
        return Link(spec, inputs, self.stores)

    def moved(self, shards: int) -> Link:
        """Return the chain with another number of shards; it continues from this chain's state."""
        inputs = {name: link and link.moved(shards) for name, link in self.inputs.items()}
        stores = rescaled(self.stores, shards)
        return Link(replace(self.spec, shards=shards), inputs, stores)

    def _step(self, rows: list[Message]) -> list[Any]:
        shuffled_rows = []
        for name, upstream in self.inputs.items():
            time = self.spec.side(name).time if isinstance(self.spec, JoinSpec) else self.spec.time
            task = ShuffleTask(self.stage, name, read_frames, time, frozenset(), True)
            arriving = _messages(rows, name) if upstream is None else upstream._pass_on(rows, name)
            # The suite also runs within a query of Spark's, whose batches aren't the chain's.
            with patch(
                "muntin.spark.host.task.load_watermark", lambda *_: TaskWatermark(False, None)
            ):
                shuffled_rows += [
                    row for batch in task(iter(arriving)) for row in batch.to_pylist()
                ]
        emitted: list[Any] = []
        for slot, store in zip(self.stage.slots, self.stores, strict=True):
            slot_rows = ({**row, WALL: None} for row in shuffled_rows if row["slot"] == slot)
            emitted += ShardSteps(self.stage, final=False)(store, (slot,), slot_rows)  # type: ignore[arg-type]
        self.images.append(image_of(self.stores))
        return emitted

    def _pass_on(self, rows: list[Message], side: str) -> list[pa.RecordBatch]:
        emitted = [row.asDict() for row in self._step(rows)]
        fields = [StructField(f.name, f.dataType) for f in self.results.fields]
        unpack = Unpack(StructType([*fields, *_PASSED_FIELDS]), "inner", side, StructType(), {})
        batches = unpack(iter([pa.RecordBatch.from_pylist(emitted, schema=_EMITTED)]))
        names = [*_select_columns(self, side).names, *PASSED]
        return [batch.select(names) for batch in batches]


def _select_columns(link: Link | None, side: str) -> StructType:
    """Return the columns that an input takes of an operator; a join adds its own emission."""
    if link is None:
        return SOURCE
    own = (columns.EMISSION, columns.REVISION) if side else ()
    return StructType([field for field in link.results.fields if field.name not in own])


def _messages(rows: list[Message], side: str) -> list[pa.RecordBatch]:
    """Return messages as Spark sends them; the right side gets those with odd values."""
    side_rows = [row for row in rows if not side or row[2] % 2 == (side == "right")]
    return messages(side_rows).select(_INPUT).to_arrow().to_batches()


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


def _windows(kind: str, upstream: Link | None = None) -> Link:
    """Return windows over messages, or over the results of another operator."""
    if upstream is None:
        return Link(window_spec(kind, early=None, grace=0), {"": None})
    value, time = ("sum", "window_end") if "sum" in upstream.results.names else ("value", "time")
    aggregations = {"n": aggregates.count(), "sum": aggregates.sum(value)}
    types = _types(upstream, "key", value, time)
    return Link(
        replace(window_spec(kind), time=time, aggregates=aggregations, types=types), {"": upstream}
    )


def _join(kind: str, left: Link | None = None, right: Link | None = None) -> Link:
    spec, inputs = join_spec(kind), {"left": left, "right": right}
    for side in SIDES:
        if (upstream := inputs[side]) is not None:
            types = _types(upstream, *_select_columns(upstream, side).names)
            changed_side = replace(spec.side(side), time="window_end", types=types)
            spec = spec.with_side(side, changed_side)
    return Link(spec, inputs)


def _types(link: Link, *names: str) -> dict[str, str]:
    types = {name: str(kind) for name, kind in polars_schema(link.results).items()}
    return {name: types[name] for name in names}


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
