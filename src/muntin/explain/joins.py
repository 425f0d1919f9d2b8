"""A join in words: who are partners, how long one waits, and how the state lies."""

from __future__ import annotations

from collections.abc import Mapping

from muntin.model.axis import phrase, spell
from muntin.model.joins import OTHER, SIDES, AsOf, JoinSpec, Newest, SideName


def explain_join(
    spec: JoinSpec, buckets: int | None, columnar: Mapping[SideName, bool] | None
) -> str:
    """Say what a join does."""
    left, right = spec.left, spec.right
    pairs = [
        one if one == other else f"{one} = {other}"
        for one, other in zip(left.keys, right.keys, strict=True)
    ]
    chosen = "forced" if spec.layout else "chosen by the reach of partners"
    row = "message"
    if isinstance(spec.bound, AsOf):
        chosen = "as versions are looked up"
    if isinstance(spec.bound, Newest):
        chosen, row = "as the newest are looked up", "key, window and side"
    lines = [f"join      {spec.how}, on {', '.join(pairs)}", f"partners  {spec.bound}"]
    for name in SIDES:
        side = spec.side(name)
        place = "in order of offsets" if side.time is None else f"on {side.time}"
        reads = ""
        if columnar is not None:
            how = "Parquet, in columns, by the workers" if columnar[name] else "rows"
            reads = f"reads {how}; "
        let_in = side.firing.early
        late = "rejected"
        if side.firing.grace:
            late = f"taken for {spell(side.firing.grace, spec.axis)}, let in {side.firing.late}"
        idle = (
            "" if side.idle is None else f"; idle after {phrase(side.idle)}: it follows the clock"
        )
        lines += [
            f"{name:9} {reads}{place}, watermark {spell(side.lateness, spec.axis)} behind{idle}",
            f"          let in: {let_in}; late: {late}",
            f"          kept {_patience(spec, name)}",
        ]
    if spec.shared_time:
        lines.append("time      one watermark for both sides, the later one of theirs")
    if spec.nulls == "unmatched":
        taken = " and ".join(f"the {side}" for side in spec.unmatched)
        lines.append(f"nulls     NULL in a key of {taken} is emitted unmatched")
    order = "keys, then time" if spec.state_layout == "keys" else "time, then keys"
    shards = "a shard a core" if buckets is None else f"{buckets} shards"
    lines.append(f"state     {shards}; a row per {row}, by {order} ({chosen})")
    return "\n".join(lines)


def _patience(spec: JoinSpec, name: SideName) -> str:
    """How long a side's messages are kept, in words."""
    other = OTHER[name]
    if isinstance(spec.bound, AsOf):
        return _patience_of_versions(spec, name)
    if isinstance(spec.bound, Newest):
        text = "while either side may change the window"
        silent = spec.side(other).idle is None and not spec.shared_time
        return f"{text}; without end while the {other} side is silent" if silent else text
    text = f"until the {other} side's watermark leaves no room for a partner"
    kept = spec.side(name).kept
    if kept is not None:
        return f"{text}, at most {spell(kept, spec.axis)} behind its own"
    if spec.side(other).idle is not None or spec.shared_time:
        return text
    return f"{text}; without end while the {other} side is silent: .keep() bounds it"


def _patience_of_versions(spec: JoinSpec, name: SideName) -> str:
    """How long messages and versions are kept where partners are versions, in words."""
    silent = spec.side(OTHER[name]).idle is None and not spec.shared_time
    if name == "left":
        text = "until the right side's watermark has passed it, and its version is certain"
        return f"{text}; while the right side is silent it waits" if silent else text
    text = "the newest of each key, and all behind which the left side's watermark lies"
    return f"{text}; without end while the left side is silent" if silent else text
