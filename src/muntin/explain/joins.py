"""Describes a join in words: its partners, how long messages wait, and how state is sorted."""

from __future__ import annotations

from collections.abc import Mapping

from muntin.explain.windows import describe_input_options, format_shards
from muntin.model.axis import format_length
from muntin.model.bounds import AsOf, ByArrival, SideName
from muntin.model.joins import OTHER, SIDES, JoinSpec


def describe_conditions(spec: JoinSpec) -> str:
    """Describe the equality of keys."""
    pairs = zip(spec.left.keys, spec.right.keys, strict=True)
    return ", ".join(one if one == other else f"{one} = {other}" for one, other in pairs)


def describe_join_head(spec: JoinSpec) -> list[str]:
    """Describe a join's inputs and partners, in two lines."""
    return [f"join      {spec.how}, on {describe_conditions(spec)}", f"partners  {spec.bound}"]


def explain_join(
    spec: JoinSpec, shards: int | None, columnar: Mapping[SideName, bool] | None
) -> str:
    """Describe a join."""
    chosen = "forced" if spec.layout else "chosen by the reach of partners"
    row = "message"
    if isinstance(spec.bound, AsOf):
        chosen = "as versions are looked up"
    if isinstance(spec.bound, ByArrival):
        chosen, row = "as the newest are looked up", "key of the right side"
    if spec.bound.revises:
        chosen, row = "as the newest are looked up", "key, window and side"
    lines = describe_join_head(spec)
    for name in SIDES:
        reads = ""
        if columnar is not None:
            how = "Parquet, in columns, by the workers" if columnar[name] else "rows"
            reads = f"reads {how}; "
        lines += _describe_side(spec, name, reads)
    if spec.shared_time:
        lines.append("time      one watermark for both sides, the later one of theirs")
    if spec.nulls == "unmatched":
        taken = " and ".join(f"the {side}" for side in spec.outer_sides)
        lines.append(f"nulls     NULL in a key of {taken} is emitted unmatched")
    if spec.nulls == "group":
        lines.append("nulls     NULL in a key equals NULL")
    order = "keys, then time" if spec.state_layout == "keys" else "time, then keys"
    lines.append(f"state     {format_shards(shards)}; a row per {row}, by {order} ({chosen})")
    return "\n".join(lines)


def _describe_side(spec: JoinSpec, name: SideName, reads: str) -> list[str]:
    """Describe an input of a join, of which ``reads`` says how it is read."""
    side, axis = spec.side(name), spec.axis
    order = "in order of offsets" if side.time is None else f"on {side.time}"
    late = "taken as well" if isinstance(spec.bound, ByArrival) else "rejected"
    if side.firing.grace:
        late = f"taken for {format_length(side.firing.grace, axis)}, let in {side.firing.late}"
    return [
        f"{name:9} {reads}{order}, watermark {format_length(side.lateness, axis)} behind",
        f"          let in: {side.firing.early}; late: {late}",
        f"          kept {_describe_retention(spec, name)}",
        *(f"          {title}: {text}" for title, text in describe_input_options(side, axis)),
    ]


def _describe_retention(spec: JoinSpec, name: SideName) -> str:
    """Describe how long a side's messages are kept."""
    text, rows = _describe_time_kept(spec, name), spec.side(name).firing.rows
    return text if rows is None else f"{text}; at most {rows:,} messages of closed windows"


def _describe_time_kept(spec: JoinSpec, name: SideName) -> str:
    other = OTHER[name]
    if isinstance(spec.bound, ByArrival):
        return _describe_table(spec, name)
    silent = spec.side(other).idle is None and not spec.shared_time
    if isinstance(spec.bound, AsOf):
        text = "the newest of each key, and all behind which the left side's watermark lies"
        waits = "without end while the left side is silent"
        if name == "left":
            text = "until the right side's watermark has passed it, and its version is certain"
            waits = "while the right side is silent it waits, unless a topic is read to its end"
        return f"{text}; {waits}" if silent else text
    if spec.bound.revises:
        text = "while either side may change the window"
        return f"{text}; without end while the {other} side is silent" if silent else text
    text = f"until the {other} side's watermark leaves no room for a partner"
    limit = spec.side(name).own_retention
    if limit is not None:
        return f"{text}, at most {format_length(limit, spec.axis)} behind its own"
    if not silent:
        return text
    return f"{text}; without end while the {other} side is silent: .keep() bounds it"


def _describe_table(spec: JoinSpec, name: SideName) -> str:
    """Describe how long a side's rows are kept in a join by arrival."""
    if name == "left":
        return "not at all: a message is joined when it arrives, and never waits"
    text = "the newest row of each key, until a row of NULLs deletes it"
    limit = spec.right.own_retention
    if limit is None:
        return f"{text}; .keep() bounds how long"
    return f"{text}, or for {format_length(limit, spec.axis)} by its own watermark"
