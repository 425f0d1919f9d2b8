"""The queries of a pipeline file in words, without anything being run."""

from __future__ import annotations

from collections.abc import Iterator

from muntin.explain.cautions import never_late_by
from muntin.explain.size import Rates
from muntin.explain.story import Circumstances, story
from muntin.model.pipeline import Derived, Flow, Pipeline, Relation, Table


def stories(pipeline: Pipeline, rates: Rates | None = None) -> Iterator[tuple[str, str]]:
    """Every query's name, and what it does.

    Args:
        pipeline: The pipeline.
        rates: What comes in, if that is known.
    """
    for flow in pipeline.flows:
        yield flow.name, story(flow.windowing.spec, _known(flow, pipeline, rates))


def _known(flow: Flow, pipeline: Pipeline, rates: Rates | None) -> Circumstances:
    made = flow.windowing
    name = _origin(made.source)
    table = pipeline.tables.get(name.lower())
    source = name if table is None else f"{name} ({_place(table)})"
    chosen = " chosen and computed row by row," if isinstance(made.source, Derived) else ""
    targets = [f"results to {_target(pipeline, flow.results)}"] if flow.results else []
    if flow.rejected:
        targets.append(f"rejected messages to {_target(pipeline, flow.rejected)}")
    return Circumstances(
        made.buckets,
        None,
        rates,
        never_late_by(made.spec, made.clock, table),
        made.where,
        made.having,
        f"{source},{chosen}".rstrip(","),
        "; ".join(targets) or None,
    )


def _origin(relation: Relation) -> str:
    return _origin(relation.source) if isinstance(relation, Derived) else relation.name


def _place(table: Table) -> str:
    path = table.options.get("path")
    return table.connector if path is None else f"{table.connector} at {path}"


def _target(pipeline: Pipeline, name: str) -> str:
    return f"{name} ({_place(pipeline.tables[name.lower()])})"
