"""Plans in words, and pipelines that are built without being started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from muntin.explain.cautions import never_late_by
from muntin.explain.joins import explain_join
from muntin.explain.size import Rates
from muntin.explain.story import Circumstances, story
from muntin.spark.joining import JoinPlan
from muntin.spark.plan import Plan

Noted = list[tuple[str | None, Plan | JoinPlan]]
_NOTED: ContextVar[Noted | None] = ContextVar("muntin_noted", default=None)


def explain(plan: Plan | JoinPlan, rates: Rates | None = None) -> str:
    """Say what a plan does.

    Args:
        plan: The plan.
        rates: What comes in, if that is known.
    """
    if isinstance(plan, JoinPlan):
        return explain_join(plan.spec, plan.buckets, plan.columnar)
    never = never_late_by(plan.spec, plan.clock)
    told = story(plan.spec, Circumstances(plan.buckets, plan.columnar, rates, never))
    return told if plan.fed is None else f"{explain(plan.fed.plan)}\n\n{told}"


@contextmanager
def only_noted() -> Iterator[Noted]:
    """Note the queries that are started inside, by name and plan, and start none of them."""
    found: Noted = []
    token = _NOTED.set(found)
    try:
        yield found
    finally:
        _NOTED.reset(token)


def noted(plan: Plan | JoinPlan, name: str | None) -> bool:
    """Note a query that is about to start, where queries are only noted."""
    found = _NOTED.get()
    if found is not None:
        found.append((name, plan))
    return found is not None
