"""The queries of a pipeline file in words, without anything being run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from muntin.explain.cautions import never_late_by
from muntin.explain.joins import explain_join
from muntin.explain.size import Rates
from muntin.explain.story import Circumstances, story
from muntin.model.pipeline import (
    SIDE_COLUMNS,
    DeclaredTable,
    Derived,
    Flow,
    Lookup,
    Pipeline,
    Query,
    Reading,
    Relation,
    Union,
    Values,
    Windowing,
)
from muntin.model.placeholders import partly


def stories(
    pipeline: Pipeline, rates: Rates | None = None, given: Mapping[str, str] | None = None
) -> Iterator[tuple[str, str]]:
    """Every query's name, and what it does."""
    tables = {name: _placed(table, given or {}) for name, table in pipeline.tables.items()}
    for flow in pipeline.flows:
        yield flow.name, summary(flow.query, tables, rates, _targets(flow, tables))


def summary(
    made: Query,
    tables: Mapping[str, DeclaredTable],
    rates: Rates | None = None,
    target: str | None = None,
) -> str:
    """What a query does."""
    return "\n".join(_summary(made, tables, rates, target))


def _summary(
    made: Query, tables: Mapping[str, DeclaredTable], rates: Rates | None, target: str | None
) -> Iterator[str]:
    sources = (made.source,) if isinstance(made, Windowing) else (made.left, made.right)
    for relation in sources:
        before = _before(relation)
        if before is not None:
            yield from (*_summary(before, tables, None, None), "")
    if isinstance(made, Windowing):
        yield story(made.spec, _known(made, tables, rates, target))
        for lookup in made.lookups:
            yield f"shows     windows beside rows of {_origin(lookup.table)}"
        return
    yield explain_join(made.spec, made.buckets, None)
    for side, relation in zip(made.names, (made.left, made.right), strict=True):
        yield f"reads     {_named(_origin(relation), tables)} as {side}"
    if made.where is not None:
        where = made.where
        for called, name in zip(SIDE_COLUMNS, made.names, strict=True):
            where = where.replace(called, name)
        yield f"shows     pairs for which {where}"
    if target is not None:
        yield f"writes    {target}"


def _known(
    made: Windowing, tables: Mapping[str, DeclaredTable], rates: Rates | None, target: str | None
) -> Circumstances:
    name = _origin(made.source)
    source = ", ".join([_named(name, tables), *_steps(made.source)])
    return Circumstances(
        made.buckets,
        None,
        rates,
        never_late_by(made.spec, made.clock, tables.get(name.lower())),
        made.where,
        made.having,
        source,
        target,
        # What a table holds isn't known before it is read.
        made.spec.key_columns,
    )


def _targets(flow: Flow, tables: Mapping[str, DeclaredTable]) -> str | None:
    targets = [f"results to {_named(flow.results, tables)}"] if flow.results else []
    if flow.rejected:
        targets.append(f"rejected messages to {_named(flow.rejected, tables)}")
    return "; ".join(targets) or None


def _before(relation: Relation) -> Query | None:
    """The query whose results a relation's rows are, if they are such."""
    if isinstance(relation, Derived | Lookup):
        return _before(relation.source)
    return None if isinstance(relation, Reading | Values | Union) else relation


def _origin(relation: Relation) -> str:
    if isinstance(relation, Derived | Lookup):
        return _origin(relation.source)
    if isinstance(relation, Reading):
        return relation.name
    if isinstance(relation, Values):
        return "rows of the query itself"
    if isinstance(relation, Union):
        return " and ".join(map(_origin, relation.parts))
    return "the windows above" if isinstance(relation, Windowing) else "the pairs above"


def _steps(relation: Relation) -> Iterator[str]:
    """What is done with rows before the windows."""
    if isinstance(relation, Derived | Lookup):
        yield from _steps(relation.source)
    if isinstance(relation, Derived):
        yield "chosen and computed row by row"
    if isinstance(relation, Lookup):
        yield f"looked up in {_origin(relation.table)}"


def _placed(table: DeclaredTable, given: Mapping[str, str]) -> DeclaredTable:
    """A table with its path as it was given."""
    path = table.options.get("path")
    if path is None:
        return table
    return replace(table, options={**table.options, "path": partly(path, given)})


def _named(name: str, tables: Mapping[str, DeclaredTable]) -> str:
    """A table and where it lies; the rows of a query have no such place."""
    table = tables.get(name.lower())
    if table is None:
        return name
    path = table.options.get("path")
    return f"{name} ({table.connector if path is None else f'{table.connector} at {path}'})"
