"""Windows over windows: a query out of everything, and another over what it emits in full."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st
from tests.property.streams import Ground, Range, Stream, any_streams, specs
from tests.runners import Batch, Runner

from muntin.model import aggregates
from muntin.model.axis import HOUR
from muntin.model.days import Days
from muntin.model.policies import Each, Every, OnePolicy, Policy, When, parts
from muntin.model.spec import WindowSpec
from muntin.testing.oracle import OracleStep

INNER = Range(("fixed", "cumulating", "days", "sliding", "sessions"), ("time",), replays=True)
OUTER = ("fixed", "cumulating", "sliding", "sessions")
AGGREGATES = {
    "windows": aggregates.count(),
    "messages": aggregates.sum("n"),
    "most": aggregates.max("n"),
    "first": aggregates.min("window_start"),
}


@dataclass(frozen=True)
class Chain:
    """Two queries, of which the second takes what the first emits in full.

    Attributes:
        inner: The first, with its input.
        outer: The second.
    """

    inner: Stream
    outer: WindowSpec


@st.composite
def chains(draw: st.DrawFn, *, by_wall: bool = True) -> Chain:
    """Chains; the policies of both are any.

    Args:
        draw: Draws.
        by_wall: Whether the outer query may go by the wall clock.
    """
    inner = draw(any_streams(INNER))
    firing = inner.spec.firing
    if firing.early is not None:
        # What a full firing adds to an early one isn't the window.
        inner = replace(inner, spec=replace(inner.spec, firing=replace(firing, accumulate=True)))
    unit = max(1, inner.spec.firing.grace, inner.spec.lateness, _length(inner.spec) // 3)
    kind = draw(st.sampled_from(OUTER))
    ground = Ground(kind, "time", unit, 0, "UTC", False, False, False, False, False)
    drawn = draw(specs(ground))
    firing = drawn.firing
    # The aggregates are others than those that conditions are drawn for.
    firing = replace(
        firing,
        early=Each() if _has(firing.early, When) else firing.early,
        late=Each() if _has(firing.late, When) else firing.late,
        fill=firing.fill and replace(firing.fill, values=()),
    )
    if not by_wall:
        firing = replace(
            firing,
            early=None if _has(firing.early, Every) else firing.early,
            late=Each() if _has(firing.late, Every) else firing.late,
        )
    outer = replace(
        drawn,
        keys=("key",) if "key" in inner.spec.keys else (),
        time="window_end",
        aggregates=AGGREGATES,
        firing=firing,
        max_ahead=None,
        types={"key": inner.spec.types["key"], "n": "long", "window_start": "long"},
        offset=None,
    )
    return Chain(inner, outer)


def _has(policy: Policy | None, kind: type[OnePolicy]) -> bool:
    return any(isinstance(part, kind) for part in parts(policy))


def run(
    runner: Runner, chain: Chain, *, follows: bool = True
) -> tuple[list[OracleStep], list[OracleStep]]:
    """What both queries say, step by step.

    Args:
        runner: Runs each of them.
        chain: The queries.
        follows: Whether the second one's time is as far as the first one's watermark.
    """
    below = runner.run(chain.inner.spec, chain.inner.steps)
    return below, runner.run(chain.outer, between(chain, below, follows=follows))


def between(chain: Chain, below: Sequence[OracleStep], *, follows: bool) -> list[Batch]:
    """The steps of the second query: what the first emits in full in each of its own."""
    full = [[f for f in step.firings if f["emission"] == "full"] for step in below]
    # Windows that are full later end behind the watermark, or by as much before it as fills wait.
    lag = chain.inner.spec.lag
    marks = [step.watermark for step in below]
    reached = [
        round(mark) + 1 - lag if follows and mark is not None and abs(mark) < math.inf else None
        for mark in marks
    ]
    return [
        Batch([_message(chain, f) for f in firings], step.wall, step.final, until)
        for firings, step, until in zip(full, chain.inner.steps, reached, strict=True)
    ]


def _message(chain: Chain, firing: dict[str, Any]) -> dict[str, Any]:
    return {name: firing.get(name) for name in (*chain.outer.types, "window_end")}


def _length(spec: WindowSpec) -> int:
    """About how long its windows are."""
    if isinstance(spec.windows, Days):
        return 24 * HOUR
    steps = (getattr(spec.windows, name, None) for name in ("size", "gap"))
    return next((step for step in steps if isinstance(step, int)), 1)
