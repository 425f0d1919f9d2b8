"""A query in words: its panes, its policies, its state."""

from __future__ import annotations

from muntin.model.axis import phrase
from muntin.model.spec import WindowSpec


def explain(spec: WindowSpec, buckets: int, columnar: bool = False) -> str:
    """Say what a query does.

    Args:
        spec: The query.
        buckets: In how many shards its keys are kept.
        columnar: Whether the workers read the input's files themselves.
    """
    windows, firing = spec.windows, spec.firing
    panes = windows.panes_per_window
    late = "rejected" if not firing.grace else f"taken for {phrase(firing.grace)}"
    reads = "Parquet, in columns, by the workers" if columnar else "rows, as Spark hands them over"
    lines = [
        f"reads     {reads}",
        f"windows   {windows}, by {', '.join(spec.keys)} on {spec.time}",
        f"panes     {panes} a window, {windows.panes_per_slide} a slide; "
        "a message is stored once a pane",
        f"computes  {', '.join(f'{name}={agg}' for name, agg in spec.aggregates.items())}",
        f"early     {firing.early or 'never'}",
        f"full      once, when the watermark ({phrase(spec.lateness)} behind) reaches the end",
        f"late      {late}" + (f", told {firing.late}" if firing.grace else ""),
        f"tells     {'the whole result so far' if firing.accumulate else 'what is new'}",
        f"future    {_future(spec)}",
        f"state     {buckets} shards; a row a key and pane, kept until "
        f"{phrase(firing.retention)} after its last window",
    ]
    if firing.on_wall_clock:
        lines.append("clock     a heartbeat wakes the shards when no input arrives")
    return "\n".join(lines)


def _future(spec: WindowSpec) -> str:
    if spec.max_ahead is None:
        return "any time is taken"
    return f"rejected beyond {phrase(spec.max_ahead)} ahead of the wall clock"
