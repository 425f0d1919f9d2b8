"""Describes plans in words, and collects plans of queries without starting them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from muntin.explain.cautions import explain_never_late
from muntin.explain.joins import explain_join
from muntin.explain.size import Rates
from muntin.explain.story import Circumstances, describe_spec
from muntin.hosts.definition import explain_chain
from muntin.model.joins import SIDES, JoinSpec
from muntin.spark.host.plan import Plan

Noted = list[tuple[str | None, Plan]]
_NOTED: ContextVar[Noted | None] = ContextVar("muntin_noted", default=None)


def explain(plan: Plan, rates: Rates | None = None) -> str:
    """Describe a plan, after the plans of its upstream operators."""

    def describe(one: Plan) -> str:
        if isinstance(one.spec, JoinSpec):
            columnar = {side: s.columnar for side, s in zip(SIDES, one.sources, strict=True)}
            return explain_join(one.spec, one.shards, columnar)
        read = one.sources[0]
        never = explain_never_late(one.spec, read.input.clock)
        nullable = [field.name for field in read.messages.schema.fields if field.nullable]
        known = Circumstances(one.shards, one.columnar, rates, never, nullable=nullable)
        return describe_spec(one.spec, known)

    return explain_chain(plan, describe)


@contextmanager
def only_noted() -> Iterator[Noted]:
    """Collect the names and plans of queries that the context starts, without running them."""
    found: Noted = []
    token = _NOTED.set(found)
    try:
        yield found
    finally:
        _NOTED.reset(token)


def noted(plan: Plan, name: str | None) -> bool:
    """Collect a query within `only_noted`, and return whether it must not start."""
    found = _NOTED.get()
    if found is not None:
        found.append((name, plan))
    return found is not None
