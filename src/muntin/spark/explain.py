"""A query in words: its panes, its policies, its state."""

from __future__ import annotations

from collections.abc import Mapping

from muntin.model.axis import phrase, say
from muntin.model.joins import OTHER, SIDES, JoinSpec, SideName
from muntin.model.kinds import Kind
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.spec import WindowSpec
from muntin.model.windows import Windows


def explain(spec: WindowSpec, buckets: int, columnar: bool = False) -> str:
    """Say what a query does.

    Args:
        spec: The query.
        buckets: In how many shards its keys are kept.
        columnar: Whether the workers read the input's files themselves.
    """
    windows, firing = spec.windows, spec.firing
    late = "rejected" if not firing.grace else f"taken for {say(firing.grace, spec.axis)}"
    reads = "Parquet, in columns, by the workers" if columnar else "rows, as Spark hands them over"
    lines = [
        f"reads     {reads}",
        f"windows   {windows}, {_by(spec)}",
        f"panes     {_panes(windows)}",
        f"computes  {', '.join(f'{name}={agg}' for name, agg in spec.aggregates.items())}",
        f"early     {firing.early or 'never'}",
        f"full      once, when {_reaches(spec)} the end",
        f"late      {late}" + (f", told {firing.late}" if firing.grace else ""),
        f"tells     {'the whole result so far' if firing.accumulate else 'what is new'}",
        f"future    {_future(spec)}",
        f"state     {buckets} shards; {_row(windows)}, kept until "
        f"{say(firing.retention, spec.axis)} after its last window",
    ]
    if firing.rows is not None:
        lines.append(f"limit     {firing.rows} messages in windows that take no more")
    if firing.on_wall_clock:
        lines.append("clock     a heartbeat wakes the shards when no input arrives")
    return "\n".join(lines)


def _by(spec: WindowSpec) -> str:
    whose = f"by {', '.join(spec.keys)}" if spec.keys else "of all messages"
    if spec.axis == "time":
        return f"{whose} on {spec.time}"
    return f"{whose}, {'as they arrive' if spec.offset is None else f'on {spec.offset[1]}'}"


def _reaches(spec: WindowSpec) -> str:
    if spec.axis == "time":
        return f"the watermark ({phrase(spec.lateness)} behind) reaches"
    return "the messages reach" if spec.offset is None else "the partition reaches"


def _panes(windows: Kind) -> str:
    if isinstance(windows, Sessions):
        return "none: stretches of activity are merged, and those that grow together told anew"
    if isinstance(windows, Sliding):
        return "every time is its own; at most two windows begin or end with a message"
    if isinstance(windows, Windows):
        slide = f"{windows.panes_per_window} a window, {windows.panes_per_slide} a slide"
        return f"{slide}; a message is stored once a pane"
    return f"up to {windows.panes_per_window} a window; a message is stored once a pane"


def _row(windows: Kind) -> str:
    if isinstance(windows, Sessions):
        return "a row a session and change"
    return "a row a key and time" if isinstance(windows, Sliding) else "a row a key and pane"


def _future(spec: WindowSpec) -> str:
    if spec.max_ahead is None:
        return "any time is taken"
    return f"rejected beyond {phrase(spec.max_ahead)} ahead of the wall clock"


def explain_join(spec: JoinSpec, buckets: int, columnar: Mapping[SideName, bool]) -> str:
    """Say what a join does.

    Args:
        spec: The join.
        buckets: In how many shards its keys are kept.
        columnar: Whether the workers read an input's files themselves, by side.
    """
    left, right = spec.left, spec.right
    pairs = [
        one if one == other else f"{one} = {other}"
        for one, other in zip(left.keys, right.keys, strict=True)
    ]
    chosen = "forced" if spec.layout else "chosen by the reach of partners"
    lines = [f"join      {spec.how}, on {', '.join(pairs)}", f"partners  {spec.bound}"]
    for name in SIDES:
        side = spec.side(name)
        reads = "Parquet, in columns, by the workers" if columnar[name] else "rows"
        let_in = side.firing.early
        late = "rejected"
        if side.firing.grace:
            late = f"taken for {phrase(side.firing.grace)}, let in {side.firing.late}"
        lines += [
            f"{name:9} reads {reads}; on {side.time}, watermark {phrase(side.lateness)} behind",
            f"          let in: {let_in}; late: {late}",
            f"          kept {_patience(spec, name)}",
        ]
    order = "keys, then time" if spec.state_layout == "keys" else "time, then keys"
    lines.append(f"state     {buckets} shards; a row a message, by {order} ({chosen})")
    return "\n".join(lines)


def _patience(spec: JoinSpec, name: SideName) -> str:
    """How long a side's messages are kept, in words."""
    other = OTHER[name]
    text = f"until the {other} side's watermark leaves no room for a partner"
    kept = spec.side(name).kept
    if kept is not None:
        return f"{text}, at most {phrase(kept)} behind its own"
    return f"{text}; without end while the {other} side is silent: .keep() bounds it"
