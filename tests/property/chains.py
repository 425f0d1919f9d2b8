"""Draws chains: any query, and another one over its full results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st
from tests.property.streams import Range, Setup, Stream, any_streams, specs
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
    """Two queries: the second reads the full results of the first.

    Attributes:
        inner: The first, with its input.
        outer: The second.
    """

    inner: Stream
    outer: WindowSpec


@st.composite
def chains(draw: st.DrawFn, *, by_wall: bool = True) -> Chain:
    """Draw a chain, with any policies in both queries.

    Args:
        draw: Hypothesis' drawing function.
        by_wall: Whether the policies of the outer query may depend on the wall clock.
    """
    inner = draw(any_streams(INNER))
    firing = inner.spec.firing
    if firing.early is not None:
        # Without accumulation, a full firing after an early one isn't the window's whole result.
        inner = replace(inner, spec=replace(inner.spec, firing=replace(firing, accumulate=True)))
    unit = max(1, inner.spec.firing.grace, inner.spec.lateness, _estimate_length(inner.spec) // 3)
    kind = draw(st.sampled_from(OUTER))
    setup = Setup(kind, "time", unit, 0, "UTC", False, False, False, False, False)
    drawn = draw(specs(setup))
    firing = drawn.firing
    # Conditions are drawn for other aggregates than those of the outer query.
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
    """Return the output of both queries, step by step.

    Args:
        runner: Runner of both queries.
        chain: The queries.
        follows: Whether the second query's time advances with the first query's watermark.
    """
    inner_output = runner.run(chain.inner.spec, chain.inner.steps)
    return inner_output, runner.run(
        chain.outer, make_outer_steps(chain, inner_output, follows=follows)
    )


def make_outer_steps(
    chain: Chain, inner_output: Sequence[OracleStep], *, follows: bool
) -> list[Batch]:
    """Return the steps of the second query: the full results of each step of the first."""
    full_firings = [[f for f in step.firings if f["emission"] == "full"] for step in inner_output]
    # Later full windows end after the watermark, or before it by as much as fills wait.
    lag = chain.inner.spec.lag
    watermarks = [step.watermark for step in inner_output]
    reached = [
        round(watermark) + 1 - lag
        if follows and watermark is not None and abs(watermark) < math.inf
        else None
        for watermark in watermarks
    ]
    return [
        Batch([_message(chain, f) for f in firings], step.wall, step.final, until)
        for firings, step, until in zip(full_firings, chain.inner.steps, reached, strict=True)
    ]


def _message(chain: Chain, firing: dict[str, Any]) -> dict[str, Any]:
    return {name: firing.get(name) for name in (*chain.outer.types, "window_end")}


def _estimate_length(spec: WindowSpec) -> int:
    """Return the approximate length of a query's windows."""
    if isinstance(spec.windows, Days):
        return 24 * HOUR
    steps = (getattr(spec.windows, name, None) for name in ("size", "gap"))
    return next((step for step in steps if isinstance(step, int)), 1)
