"""Describes the queries of a pipeline file in words, without running anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from muntin.explain.cautions import explain_never_late
from muntin.explain.joins import explain_join
from muntin.explain.size import Rates
from muntin.explain.windows import Circumstances, describe_spec, format_part
from muntin.model.pipeline import (
    SIDE_COLUMNS,
    DeclaredTable,
    Derived,
    Flow,
    Lookup,
    Pipeline,
    QueryRelation,
    Relation,
    TableRelation,
    Union,
    Values,
    WindowRelation,
    count_tables,
)
from muntin.model.placeholders import fill_available


def describe_flows(
    pipeline: Pipeline,
    rates: Rates | None = None,
    variables: Mapping[str, str] | None = None,
    *,
    local: bool = False,
) -> Iterator[tuple[str, str]]:
    """Yield every query's name and description, for Spark or, with ``local``, for one process."""
    tables = {
        name: _resolve_path(table, variables or {}) for name, table in pipeline.tables.items()
    }
    for flow in pipeline.flows:
        target = _describe_targets(flow, tables)
        yield flow.name, describe_query(flow.query, tables, rates, target, local=local)


def describe_query(
    query: QueryRelation,
    tables: Mapping[str, DeclaredTable],
    rates: Rates | None = None,
    target: str | None = None,
    *,
    local: bool = False,
) -> str:
    """Describe a query."""
    lines = [*_describe_lines(query, tables, rates, target, local)]
    if not local:
        for name, count in sorted(count_tables(query).items()):
            if count > 1:
                text = f"Spark reads {name} {count} times, as the query does; a local host once"
                lines += format_part("careful", text)
    return "\n".join(lines)


def _describe_lines(
    query: QueryRelation,
    tables: Mapping[str, DeclaredTable],
    rates: Rates | None,
    target: str | None,
    local: bool,
) -> Iterator[str]:
    sources = (query.source,) if isinstance(query, WindowRelation) else (query.left, query.right)
    for relation in sources:
        before = _find_upstream_query(relation)
        if before is not None:
            yield from (*_describe_lines(before, tables, None, None, local), "")
    if isinstance(query, WindowRelation):
        circumstances = _collect_circumstances(query, tables, rates, target)
        if local:
            circumstances = replace(circumstances, local=True, shards=query.shards or 1)
        yield describe_spec(query.spec, circumstances)
        for lookup in query.lookups:
            yield f"shows     windows beside rows of {_describe_origin(lookup.table)}"
        return
    yield explain_join(query.spec, (query.shards or 1) if local else query.shards, None)
    for side, relation in zip(query.names, (query.left, query.right), strict=True):
        yield f"reads     {_describe_table(_describe_origin(relation), tables)} as {side}"
    if query.where is not None:
        where = query.where
        for called, name in zip(SIDE_COLUMNS, query.names, strict=True):
            where = where.replace(called, name)
        yield f"shows     pairs for which {where}"
    if target is not None:
        yield f"writes    {target}"


def _collect_circumstances(
    query: WindowRelation,
    tables: Mapping[str, DeclaredTable],
    rates: Rates | None,
    target: str | None,
) -> Circumstances:
    name = _describe_origin(query.source)
    source = ", ".join([_describe_table(name, tables), *_describe_steps(query.source)])
    return Circumstances(
        query.shards,
        None,
        rates,
        explain_never_late(query.spec, query.clock, tables.get(name.lower())),
        query.where,
        query.having,
        source,
        target,
        # Whether a table has NULLs isn't known before it is read.
        query.spec.key_columns,
    )


def _describe_targets(flow: Flow, tables: Mapping[str, DeclaredTable]) -> str | None:
    targets = [f"results to {_describe_table(flow.results, tables)}"] if flow.results else []
    if flow.rejected:
        targets.append(f"rejected messages to {_describe_table(flow.rejected, tables)}")
    return "; ".join(targets) or None


def _find_upstream_query(relation: Relation) -> QueryRelation | None:
    """Return the query that produces a relation's rows, or ``None``."""
    if isinstance(relation, Derived | Lookup):
        return _find_upstream_query(relation.source)
    return None if isinstance(relation, TableRelation | Values | Union) else relation


def _describe_origin(relation: Relation) -> str:
    if isinstance(relation, Derived | Lookup):
        return _describe_origin(relation.source)
    if isinstance(relation, TableRelation):
        return relation.name
    if isinstance(relation, Values):
        return "rows of the query itself"
    if isinstance(relation, Union):
        return " and ".join(map(_describe_origin, relation.parts))
    return "the windows above" if isinstance(relation, WindowRelation) else "the pairs above"


def _describe_steps(relation: Relation) -> Iterator[str]:
    """Describe the steps between a table and the windows."""
    if isinstance(relation, Derived | Lookup):
        yield from _describe_steps(relation.source)
    if isinstance(relation, Derived):
        yield "chosen and computed row by row"
    if isinstance(relation, Lookup):
        yield f"looked up in {_describe_origin(relation.table)}"


def _resolve_path(table: DeclaredTable, variables: Mapping[str, str]) -> DeclaredTable:
    """Return a table with the placeholders in its path replaced."""
    path = table.options.get("path")
    if path is None:
        return table
    return replace(table, options={**table.options, "path": fill_available(path, variables)})


def _describe_table(name: str, tables: Mapping[str, DeclaredTable]) -> str:
    table = tables.get(name.lower())
    if table is None:
        return name
    path = table.options.get("path")
    return f"{name} ({table.connector if path is None else f'{table.connector} at {path}'})"
