"""Explains from a snapshot why windows or messages of a key have emitted, or haven't."""

from __future__ import annotations

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
    explain_sessions,
    explain_windows,
)
from muntin.explain.why_joins import (
    SideSeen,
    describe_join_state,
    explain_null_keys,
    explain_positions,
)
from muntin.hosts.inspect.joins import OpenJoin
from muntin.hosts.inspect.opening import read_spec, refuse_table
from muntin.hosts.inspect.snapshot import StateSnapshot
from muntin.model.axis import Axis, read_position
from muntin.model.errors import OptionError
from muntin.model.joins import SIDES, JoinSpec, SideName
from muntin.model.sessions import Sessions
from muntin.model.spec import WindowSpec
from muntin.state.manifest import Manifest, parse_manifest


def explain_state(
    opened: StateSnapshot, key: Sequence[str], at: str, table: str | None = None
) -> list[str]:
    """Explain why a key's windows or messages around a position have emitted, or haven't.

    Args:
        opened: The state of a query after one batch; the query may be running.
        key: The key's values as text, in the order of its columns.
        at: A time, such as `2026-01-01 09:04:00`, in UTC where it names no zone. On the rows axis
            it is an offset, or where messages are counted by arrival, the number of a message.
        table: The name of a table; refused, since windows and joins have none.

    Returns:
        The lines that `muntin why` prints.

    Raises:
        OptionError: When the state, the key or the position isn't valid.
    """
    spec = read_spec(opened)
    refuse_table(opened, table)
    place = position_of(at, spec.axis)
    if isinstance(spec, JoinSpec):
        return [describe_key(key), *_of_join(opened, spec, key, place)]
    return [describe_key(key), *_of_windows(opened, spec, key, place)]


def describe_key(key: Sequence[str]) -> str:
    """Return the line that names the key."""
    return f"key        {', '.join(key)}"


def position_of(at: str, axis: Axis) -> int:
    """Return the position that `--at` names."""
    position = read_position("--at", at, axis)
    assert position is not None
    return position


def _of_windows(
    opened: StateSnapshot, spec: WindowSpec, key: Sequence[str], at: int
) -> Iterator[str]:
    asked = key_state.parse_key(spec.keys, spec.types, key)
    shard = opened.number_shards(spec.shards or 1)[key_state.find_shard(spec, asked)]
    manifest = opened.read.get(shard)
    if manifest is None:
        raise _no_shard(key)
    if spec.by_arrival:
        yield from explain_arrivals(spec, _count_arrived(opened, shard, manifest, spec, asked), at)
        return
    own, mine = key_state.select_part(spec, manifest, asked)
    if spec.axis == "rows":
        # The partition is the first key; a partition without a manifest has had no message.
        texts = {str(partition): text for partition, text in manifest.parts}
        mine = parse_manifest(texts[key[0]]) if key[0] in texts else Manifest("windows")
    held = InputClocks(manifest.extra.get("clocks", {}).get("", {}))
    # A query without clock policies has no wall clock.
    wall = manifest.wall or None
    holder = held.holder(spec.idle, wall or 0)
    clocks = Clocks(mine.watermark, wall, opened.counts, held.slowest(), holder)
    numbers = key_state.find_blobs(own, mine.tables, at, at)
    blobs = opened.blobs({shard: [n for mine in numbers.values() for n in mine]})[shard]
    yield from describe_query_state(own, clocks)
    ended = ENDED in mine.extra
    if isinstance(spec.windows, Sessions):
        sessions = key_state.read_sessions(spec, numbers, blobs, asked)
        yield from (
            explain_ended_input(spec, sessions)
            if ended
            else explain_sessions(spec, clocks, sessions, at)
        )
    else:
        windows = key_state.read_windows(own, numbers, blobs, asked, at, at)
        yield from (
            explain_ended_input(own, windows)
            if ended
            else explain_windows(own, clocks, windows, at)
        )


def _no_shard(key: Sequence[str]) -> OptionError:
    return OptionError("--key", ", ".join(key), "has no shard yet", "wait for the first batch")


def _count_arrived(
    opened: StateSnapshot, shard: int, manifest: Manifest, spec: WindowSpec, key: pl.DataFrame
) -> int:
    """Return the number of messages of a key so far, for windows that count them."""
    wanted = [blob for run in manifest.tables.get("cells", ()) for blob in run.blobs]
    blobs = opened.blobs({shard: wanted})[shard]
    return key_state.count_arrivals(spec, blobs.values(), key)


def _of_join(opened: StateSnapshot, spec: JoinSpec, key: Sequence[str], at: int) -> Iterator[str]:
    yield from describe_join_state(spec)
    keys = {
        side: key_state.parse_key(spec.side(side).keys, spec.side(side).types, key).row(0)
        for side in SIDES
    }
    if key_state.NULL in key:
        yield from explain_null_keys(spec)
        return
    state = OpenJoin(opened, spec)
    messages = {side: state.read_messages(side, keys[side]) for side in SIDES}
    shard = opened.read.get(state.find_shard(keys["left"]))
    if shard is None:
        raise _no_shard(key)
    if spec.axis == "time":
        yield from explain_positions(spec, _sides(messages, shard), at, dict.fromkeys(SIDES, 0))
        return
    starts = {side: dict(shard.extra.get("starts", {}).get(side, ())) for side in SIDES}
    for partition, manifest in shard.by_part().items():
        yield f"partition  {partition}"
        mine = {}
        for side in SIDES:
            column = (spec.side(side).offset or ("",))[0]
            mine[side] = messages[side].filter(pl.col(column) == partition)
        start: dict[SideName, int] = {side: starts[side].get(partition, 0) for side in SIDES}
        yield from explain_positions(spec, _sides(mine, manifest), at, start)


def _sides(messages: dict[SideName, pl.DataFrame], manifest: Manifest) -> dict[SideName, SideSeen]:
    marks, kept = (manifest.extra.get(name, {}) for name in ("marks", "from"))
    return {
        side: SideSeen(
            marks.get(side),
            kept.get(side),
            mine[columns.TIME].to_list(),
            mine.filter(pl.col(WAITS))[columns.TIME].to_list(),
            mine.filter(pl.col(MATCHED))[columns.TIME].to_list(),
        )
        for side, mine in messages.items()
    }
