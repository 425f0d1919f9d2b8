"""Explains from a snapshot why windows or messages of a key have emitted, or haven't."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import polars as pl

from muntin.engine import columns, key_state
from muntin.engine.clocks import InputClocks
from muntin.engine.retention import ENDED
from muntin.engine.state_reader import MATCHED, WAITS
from muntin.explain.why import (
    Clocks,
    describe_query_state,
    explain_arrivals,
    explain_ended_input,
    explain_look_backs,
    explain_sessions,
    explain_windows,
)
from muntin.explain.why_joins import (
    SideSeen,
    describe_join_state,
    explain_null_keys,
    explain_positions,
)
from muntin.hosts.health import micros_ahead
from muntin.hosts.inspect.joins import OpenJoin
from muntin.hosts.inspect.opening import read_spec, refuse_table
from muntin.hosts.inspect.snapshot import StateSnapshot
from muntin.hosts.progress import Progress
from muntin.model.axis import Axis, read_position
from muntin.model.bounds import SideName
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES, JoinSpec
from muntin.model.spec import WindowSpec
from muntin.state.manifest import Manifest, Reopened, parse_manifest


def explain_state(
    snapshot: StateSnapshot, key: Sequence[str], at: str | None, table: str | None = None
) -> list[str]:
    """Explain why a key's windows or messages around a position have emitted, or haven't.

    Args:
        snapshot: The state of a query after one batch; the query may be running.
        key: The key's values as text, in the order of its columns.
        at: A time, such as `2026-01-01 09:04:00`, in UTC where it names no zone. On the rows axis
            it is an offset, or where messages are counted by arrival, the number of a message.
            ``None`` explains all windows of the key that the state holds; joins, trailing windows
            and the rows axis require a position.
        table: The name of a table; refused, since windows and joins have none.

    Returns:
        The lines that `muntin why` prints.

    Raises:
        OptionError: When the state, the key or the position isn't valid.
    """
    spec = read_spec(snapshot)
    refuse_table(snapshot, table)
    if isinstance(spec, JoinSpec):
        position = parse_position(at, spec.axis)
        return [describe_key(key), *_explain_join(snapshot, spec, key, position)]
    lists_windows = spec.axis == "time" and spec.windows.result_key is None
    around = None if at is None and lists_windows else parse_position(at, spec.axis)
    return [describe_key(key), *_explain_windows(snapshot, spec, key, around)]


def describe_key(key: Sequence[str]) -> str:
    """Return the line that names the key."""
    return f"key        {', '.join(key)}"


def parse_position(at: str | None, axis: Axis) -> int:
    """Return the position that `--at` names, and refuse a missing one."""
    if at is None:
        hint = "give a row number" if axis == "rows" else 'give a time: --at "2026-01-01 09:04:00"'
        raise OptionError("--at", None, "is missing", hint)
    position = read_position("--at", at, axis)
    assert position is not None
    return position


def _explain_windows(
    snapshot: StateSnapshot, spec: WindowSpec, key: Sequence[str], at: int | None
) -> Iterator[str]:
    key_row = key_state.parse_key(spec.state_keys, spec.types, key)
    shard = snapshot.number_shards(spec.shards or 1)[key_state.find_shard(spec, key_row)]
    manifest = snapshot.manifest_by_shard.get(shard)
    if manifest is None:
        raise _make_shard_error(key)
    if spec.by_arrival:
        assert at is not None
        yield from explain_arrivals(
            spec, _count_arrivals(snapshot, shard, manifest, spec, key_row), at
        )
        return
    own, own_manifest = key_state.select_part(spec, manifest, key_row)
    if spec.axis == "rows":
        # The partition is the first key; a partition without a manifest has had no message.
        texts = {str(partition): text for partition, text in manifest.parts}
        own_manifest = parse_manifest(texts[key[0]]) if key[0] in texts else Manifest("windows")
    clocks = _read_clocks(snapshot, spec, manifest, own_manifest.watermark)
    numbers = key_state.find_blobs(own, own_manifest.tables, at, at)
    blobs = snapshot.read_blobs({shard: [n for table in numbers.values() for n in table]})[shard]
    yield from describe_query_state(own, clocks)
    ended = ENDED in own_manifest.extra
    if not spec.windows.is_numbered:
        sessions = key_state.read_sessions(spec, numbers, blobs, key_row)
        yield from (
            explain_ended_input(spec, sessions)
            if ended
            else explain_sessions(spec, clocks, sessions, at)
        )
    elif spec.windows.result_key is not None:
        assert at is not None
        windows = key_state.read_look_backs(spec, numbers, blobs, key_row, own_manifest.watermark)
        yield from explain_look_backs(spec, clocks, windows, at)
    else:
        windows = key_state.read_windows(own, numbers, blobs, key_row, at=at)
        yield from (
            explain_ended_input(own, windows)
            if ended
            else explain_windows(own, clocks, windows, at)
        )


def _read_clocks(
    snapshot: StateSnapshot, spec: WindowSpec, manifest: Manifest, watermark: int | None
) -> Clocks:
    """Return the clocks of a shard, or those of a partition by its watermark."""
    input_clocks = InputClocks(manifest.extra.get("clocks", {}).get("", {}))
    # A query without clock policies has no wall clock.
    wall = manifest.wall or None
    figures = Progress(watermark_micros=watermark if spec.axis == "time" else None)
    return Clocks(
        watermark,
        wall,
        snapshot.counts,
        input_clocks.slowest(),
        input_clocks.holder(spec.idle, wall or 0),
        micros_ahead(figures, time.time_ns() // 1000),
        Reopened.read(manifest.extra),
    )


def _make_shard_error(key: Sequence[str]) -> OptionError:
    return OptionError("--key", ", ".join(key), "has no shard yet", "wait for the first batch")


def _count_arrivals(
    snapshot: StateSnapshot, shard: int, manifest: Manifest, spec: WindowSpec, key: pl.DataFrame
) -> int:
    """Return the number of messages of a key so far, for windows that count them."""
    wanted = [blob for run in manifest.tables.get("cells", ()) for blob in run.blobs]
    blobs = snapshot.read_blobs({shard: wanted})[shard]
    return key_state.count_arrivals(spec, blobs.values(), key)


def _explain_join(
    snapshot: StateSnapshot, spec: JoinSpec, key: Sequence[str], at: int
) -> Iterator[str]:
    yield from describe_join_state(spec)
    keys = {
        side: key_state.parse_key(spec.side(side).keys, spec.side(side).types, key).row(0)
        for side in SIDES
    }
    if key_state.NULL in key and spec.nulls != "group":
        yield from explain_null_keys(spec)
        return
    state = OpenJoin(snapshot, spec)
    messages = {side: state.read_messages(side, keys[side]) for side in SIDES}
    shard = snapshot.manifest_by_shard.get(state.find_shard(keys["left"]))
    if shard is None:
        raise _make_shard_error(key)
    if spec.axis == "time":
        yield from explain_positions(
            spec, _describe_sides(messages, shard), at, dict.fromkeys(SIDES, 0)
        )
        return
    starts = {side: dict(shard.extra.get("starts", {}).get(side, ())) for side in SIDES}
    for partition, manifest in shard.by_part().items():
        yield f"partition  {partition}"
        mine = {}
        for side in SIDES:
            column = (spec.side(side).offset or ("",))[0]
            mine[side] = messages[side].filter(pl.col(column) == partition)
        start: dict[SideName, int] = {side: starts[side].get(partition, 0) for side in SIDES}
        yield from explain_positions(spec, _describe_sides(mine, manifest), at, start)


def _describe_sides(
    messages: dict[SideName, pl.DataFrame], manifest: Manifest
) -> dict[SideName, SideSeen]:
    watermarks, first_positions = (manifest.extra.get(name, {}) for name in ("marks", "from"))
    return {
        side: SideSeen(
            watermarks.get(side),
            first_positions.get(side),
            frame[columns.TIME].to_list(),
            frame.filter(pl.col(WAITS))[columns.TIME].to_list(),
            frame.filter(pl.col(MATCHED))[columns.TIME].to_list(),
        )
        for side, frame in messages.items()
    }
