"""Plans in words, and pipelines that are built without being started."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from muntin.explain.cautions import explain_never_late
from muntin.explain.joins import explain_join
from muntin.explain.size import Rates
from muntin.explain.story import Circumstances, describe_spec
from muntin.model.joins import SIDES, JoinSpec
from muntin.spark.host.plan import Plan

Noted = list[tuple[str | None, Plan]]
_NOTED: ContextVar[Noted | None] = ContextVar("muntin_noted", default=None)


def explain(plan: Plan, rates: Rates | None = None) -> str:
    """Say what a plan does, behind those whose results it takes."""
    return "\n\n".join([*(explain(fed.plan) for fed in plan.fed), _explained(plan, rates)])


def _explained(plan: Plan, rates: Rates | None) -> str:
    if isinstance(plan.spec, JoinSpec):
        columnar = {side: s.columnar for side, s in zip(SIDES, plan.sources, strict=True)}
        return explain_join(plan.spec, plan.buckets, columnar)
    read = plan.sources[0]
    never = explain_never_late(plan.spec, read.input.clock)
    nullable = [field.name for field in read.messages.schema.fields if field.nullable]
    known = Circumstances(plan.buckets, plan.columnar, rates, never, nullable=nullable)
    return describe_spec(plan.spec, known)


@contextmanager
def only_noted() -> Iterator[Noted]:
    """Note the queries that are started inside, by name and plan, and start none of them."""
    found: Noted = []
    token = _NOTED.set(found)
    try:
        yield found
    finally:
        _NOTED.reset(token)


def noted(plan: Plan, name: str | None) -> bool:
    """Note a query that is about to start, where queries are only noted."""
    found = _NOTED.get()
    if found is not None:
        found.append((name, plan))
    return found is not None
