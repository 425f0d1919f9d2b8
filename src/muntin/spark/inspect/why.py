"""Why something has emitted, or not, out of a checkpoint: windows, joins and tables of a key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl
from pyspark.sql import SparkSession

from muntin.engine import columns, key_state
from muntin.engine.state_reader import MATCHED, WAITS
from muntin.explain.why import (
    Clocks,
    describe_query_state,
    explain_arrivals,
    explain_sessions,
    explain_windows,
)
from muntin.explain.why_joins import (
    SideSeen,
    describe_join_state,
    explain_null_keys,
    explain_positions,
)
from muntin.explain.why_tables import TableSeen, explain_table
from muntin.model.axis import Axis, position
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES, JoinSpec, SideName
from muntin.model.sessions import Sessions
from muntin.model.spec import WindowSpec
from muntin.spark.host.checkpoint import Checkpoint, spec_of
from muntin.spark.host.shards import slots
from muntin.spark.inspect.joins import OpenJoin
from muntin.spark.inspect.tables import OpenTable, one_table
from muntin.state.manifest import Manifest, parse_manifest


def why(
    spark: SparkSession,
    checkpoint: str,
    key: Sequence[str],
    at: str,
    *,
    table: str | None = None,
    operator: int = 0,
) -> list[str]:
    """Say why a key's windows, messages or entries around a place have emitted, or haven't.

    Args:
        spark: The session.
        checkpoint: The folder of a query, as its last committed batch left it; it may be running.
        key: The key's values as text, in the order of its columns.
        at: A time, as ``2026-01-01 09:04:00``, in UTC where it names no zone; on the rows axis an
            offset, or where messages are counted as they arrive the number of one of the key's.
        table: Which of several tables of agents.
        operator: Which operator of a chain, counted from the last one.

    Raises:
        OptionError: When the checkpoint, the key or the place can't be what is asked for.
    """
    return reasons(Checkpoint(spark, checkpoint, operator=operator), key, at, table)


def reasons(opened: Checkpoint, key: Sequence[str], at: str, table: str | None = None) -> list[str]:
    """Return the lines that ``why`` prints, for an open checkpoint."""
    lines = [f"key        {', '.join(key)}"]
    if opened.first.kind == "tables":
        return [*lines, *_of_table(opened, key, _place(at, "time"), table)]
    spec = spec_of(opened)
    place = _place(at, spec.axis)
    if isinstance(spec, JoinSpec):
        return [*lines, *_of_join(opened, spec, key, place)]
    return [*lines, *_of_windows(opened, spec, key, place)]


def _place(at: str, axis: Axis) -> int:
    place = position("--at", at, axis)
    assert place is not None
    return place


def _of_windows(opened: Checkpoint, spec: WindowSpec, key: Sequence[str], at: int) -> Iterator[str]:
    asked = key_state.key_from_text(spec.keys, spec.types, key)
    slot = slots(spec.buckets or 1)[key_state.bucket_of(spec, asked)]
    manifest = opened.read.get(slot)
    if manifest is None:
        raise _no_shard(key)
    if spec.by_arrival:
        yield from explain_arrivals(spec, _arrived(opened, slot, manifest, spec, asked), at)
        return
    mine = manifest
    if spec.axis == "rows":
        # The partition is the first key; one without a manifest has had no message.
        texts = {str(partition): text for partition, text in manifest.parts}
        mine = parse_manifest(texts[key[0]]) if key[0] in texts else Manifest("windows")
    clocks = Clocks(mine.watermark, manifest.wall, opened.counts)
    numbers = key_state.wanted(spec, mine.tables, at, at)
    blobs = opened.blobs({slot: [n for found in numbers.values() for n in found]})[slot]
    yield from describe_query_state(spec, clocks)
    if isinstance(spec.windows, Sessions):
        found = key_state.sessions_seen(spec, numbers, blobs, asked)
        yield from explain_sessions(spec, clocks, found, at)
    else:
        seen = key_state.windows_seen(spec, numbers, blobs, asked, at, at)
        yield from explain_windows(spec, clocks, seen, at)


def _no_shard(key: Sequence[str]) -> OptionError:
    return OptionError("--key", ", ".join(key), "has no shard yet", "wait for the first batch")


def _arrived(
    opened: Checkpoint, slot: int, manifest: Manifest, spec: WindowSpec, key: pl.DataFrame
) -> int:
    """Return the number of messages of a key so far, for windows that count them."""
    wanted = [blob for run in manifest.tables.get("cells", ()) for blob in run.blobs]
    blobs = opened.blobs({slot: wanted})[slot]
    return key_state.arrived(spec, blobs.values(), key)


def _of_join(opened: Checkpoint, spec: JoinSpec, key: Sequence[str], at: int) -> Iterator[str]:
    yield from describe_join_state(spec)
    keys = {
        side: key_state.key_from_text(spec.side(side).keys, spec.side(side).types, key).row(0)
        for side in SIDES
    }
    if key_state.NULL in key:
        yield from explain_null_keys(spec)
        return
    state = OpenJoin(opened, spec)
    held = {side: state.held(side, keys[side]) for side in SIDES}
    shard = opened.read.get(state.slot(keys["left"]))
    if shard is None:
        raise _no_shard(key)
    if spec.axis == "time":
        yield from explain_positions(spec, _sides(held, shard), at, dict.fromkeys(SIDES, 0))
        return
    starts = {side: dict(shard.extra.get("starts", {}).get(side, ())) for side in SIDES}
    for partition, manifest in shard.by_part().items():
        yield f"partition  {partition}"
        mine = {}
        for side in SIDES:
            column = (spec.side(side).offset or ("",))[0]
            mine[side] = held[side].filter(pl.col(column) == partition)
        start: dict[SideName, int] = {side: starts[side].get(partition, 0) for side in SIDES}
        yield from explain_positions(spec, _sides(mine, manifest), at, start)


def _sides(held: dict[SideName, pl.DataFrame], manifest: Manifest) -> dict[SideName, SideSeen]:
    marks, kept = (manifest.extra.get(name, {}) for name in ("marks", "from"))
    return {
        side: SideSeen(
            marks.get(side),
            kept.get(side),
            found[columns.TIME].to_list(),
            found.filter(pl.col(WAITS))[columns.TIME].to_list(),
            found.filter(pl.col(MATCHED))[columns.TIME].to_list(),
        )
        for side, found in held.items()
    }


def _of_table(opened: Checkpoint, key: Sequence[str], at: int, table: str | None) -> Iterator[str]:
    state = OpenTable(opened, one_table(opened, key, table), None, None)
    mark, entries = state.of_text(key)
    words = [(one.window, repr(one.value)) for one in entries]
    spec = state.spec
    yield from explain_table(TableSeen(str(spec), spec.windows, spec.expires, mark, words), at)
