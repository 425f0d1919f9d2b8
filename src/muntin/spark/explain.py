"""Describes plans in words, and collects plans of queries without starting them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pyspark.sql import Column

from muntin.explain.cautions import explain_never_late
from muntin.explain.joins import explain_join
from muntin.explain.size import Rates
from muntin.explain.windows import Circumstances, describe_spec
from muntin.hosts.definition import explain_chain
from muntin.model.joins import SIDES, JoinSpec
from muntin.spark.host.plan import Plan
from muntin.spark.sources.inputs import Input

CollectedPlans = list[tuple[str | None, Plan]]
_COLLECTED: ContextVar[CollectedPlans | None] = ContextVar("muntin_noted", default=None)


def explain_spark_plan(plan: Plan, rates: Rates | None = None) -> str:
    """Describe a plan, after the plans of its upstream operators."""

    def describe(one: Plan) -> str:
        if isinstance(one.spec, JoinSpec):
            columnar = {side: s.columnar for side, s in zip(SIDES, one.sources, strict=True)}
            return explain_join(one.spec, one.shards, columnar)
        read = one.sources[0]
        never = explain_never_late(one.spec, read.input.clock)
        nullable = [field.name for field in read.messages.schema.fields if field.nullable]
        circumstances = Circumstances(
            one.shards,
            one.columnar,
            rates,
            never,
            _show_condition(read.input),
            nullable=nullable,
            finite=not read.messages.isStreaming,
        )
        return describe_spec(one.spec, circumstances)

    return explain_chain(plan, describe)


def _show_condition(input_: Input) -> str | None:
    """Return the condition on messages as the user or Spark writes it."""
    if isinstance(input_.where, Column):
        # A column without a name is named by its text in SQL.
        return input_.frame.select(input_.where).columns[0]
    return input_.where


@contextmanager
def collect_plans() -> Iterator[CollectedPlans]:
    """Collect the names and plans of queries that the context starts, without running them."""
    plans: CollectedPlans = []
    token = _COLLECTED.set(plans)
    try:
        yield plans
    finally:
        _COLLECTED.reset(token)


def collect_plan(plan: Plan, name: str | None) -> bool:
    """Collect a query within `collect_plans`, and return whether it must not start."""
    plans = _COLLECTED.get()
    if plans is not None:
        plans.append((name, plan))
    return plans is not None
