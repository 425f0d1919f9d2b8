"""Checks and starts the queries of a pipeline in this process, or tells why they need Spark."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from tempfile import TemporaryDirectory

from muntin.hosts.local.definition import LocalDefinition
from muntin.hosts.local.delivery import destinations
from muntin.hosts.local.query import LocalQuery
from muntin.hosts.local.statements import TableRows, bind_query
from muntin.hosts.local.tables import needs_spark, source_of
from muntin.model.errors import MuntinError, OptionError, ProblemsError, SqlError
from muntin.model.pipeline import DeclaredTable, Flow, Pipeline, tables_of
from muntin.model.placeholders import filled, partly
from muntin.pipelines.checks import check_declared
from muntin.sinks.declared import Surroundings, sink
from muntin.sinks.sink import Sink


class LocalPipelineError(MuntinError):
    """A query of a pipeline can't run in this process; the message names it."""


def find_spark_reason(pipeline: Pipeline, settings: Mapping[str, str]) -> str | None:
    """Return the reason why the inputs of a pipeline need Spark, if there is one.

    Args:
        pipeline: The pipeline.
        settings: The values of its placeholders.
    """
    read = frozenset[str]().union(*(tables_of(flow.query) for flow in pipeline.flows))
    for name in sorted(read):
        table = pipeline.tables.get(name)
        if table is None:
            if "." in name:
                return f"table {name}: a catalog needs Spark"
            continue  # the check of the pipeline reports it
        options = {option: partly(value, settings) for option, value in table.options.items()}
        reason = needs_spark(DeclaredTable(name, table.connector, options=options,
                                           stream=table.stream))  # fmt: skip
        if reason is not None:
            return reason
    if "://" in partly(pipeline.checkpoint or "", settings):
        return "a checkpoint in an object store needs Spark"
    return None


def bind_flows(
    pipeline: Pipeline,
    settings: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> dict[str, LocalDefinition]:
    """Return the queries of a pipeline by name, without starting them.

    Raises:
        MuntinError: When queries have mistakes; the error lists those of all queries.
    """
    around = Surroundings(settings, os.environ if environment is None else environment)
    bound: dict[str, LocalDefinition] = {}
    problems: list[MuntinError] = []
    for flow in pipeline.flows:
        try:
            bound[flow.name] = _bind(flow, pipeline, around)
        except MuntinError as error:
            problems.append(error)
    ProblemsError.raise_if_any(problems)
    return bound


def _bind(flow: Flow, pipeline: Pipeline, around: Surroundings) -> LocalDefinition:
    """Return a query over the tables of its pipeline, and check that its results fit its sink."""

    def find(name: str) -> TableRows:
        table = pipeline.tables.get(name.lower())
        if table is None:
            raise OptionError("FROM", name, "isn't known", "write CREATE TABLE for it")
        return source_of(table, around)

    try:
        query = bind_query(flow.query, find)
        if flow.results is not None:
            target = pipeline.tables[flow.results.lower()]
            if target.columns is not None:
                check_declared(target, [*query.plan.shown])
        return query
    except OptionError as error:
        if isinstance(error.value, str) and error.value in pipeline.places:
            whole, span = pipeline.places[error.value]
            raise SqlError(whole, span, error.problem, error.hint) from error
        raise LocalPipelineError(f"query {flow.name}: {error}") from error


def find_mistakes(pipeline: Pipeline, settings: Mapping[str, str]) -> list[MuntinError]:
    """Return the mistakes that binding a pipeline's queries reveals, without starting them.

    An unset placeholder is replaced by an empty folder. A query over files that don't exist yet
    can only be checked if its table declares columns.
    """
    problems: list[MuntinError] = []
    with TemporaryDirectory(prefix="muntin-check-") as folder:
        around = Surroundings(
            {**dict.fromkeys(pipeline.names, folder), **settings},
            defaultdict(lambda: "unset", os.environ),
        )
        for flow in pipeline.flows:
            if not _is_describable(flow, pipeline, settings):
                continue
            try:
                query = _bind(flow, pipeline, around)
                destinations(query.plan, _complete_sinks(flow, pipeline, settings, around))
            except MuntinError as error:
                problems.append(error)
    return problems


def _is_describable(flow: Flow, pipeline: Pipeline, settings: Mapping[str, str]) -> bool:
    """Return whether the columns of a query's tables are certain without the unset values."""
    tables = [pipeline.tables[name] for name in tables_of(flow.query) if name in pipeline.tables]
    return not any(
        table.columns is None and any("${" in partly(v, settings) for v in table.options.values())
        for table in tables
    )


def _complete_sinks(
    flow: Flow, pipeline: Pipeline, settings: Mapping[str, str], around: Surroundings
) -> tuple[Sink | None, Sink | None]:
    """Return the sinks of a query, without those whose options have unset placeholders."""

    def one(name: str | None) -> Sink | None:
        table = None if name is None else pipeline.tables[name.lower()]
        if table is None or any("${" in partly(v, settings) for v in table.options.values()):
            return None
        return sink(table, around)

    return one(flow.results), one(flow.rejected)


def start_flows(
    pipeline: Pipeline,
    settings: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> list[LocalQuery]:
    """Start every query of a pipeline in this process.

    Raises:
        MuntinError: When a query can't run; then none runs.
    """
    around = Surroundings(settings, os.environ if environment is None else environment)
    if pipeline.checkpoint is None:
        raise OptionError("checkpoint", None, "isn't set", "write SET checkpoint = 'folder'")
    folder = filled("checkpoint", pipeline.checkpoint, around.given, around.environment)
    bound = bind_flows(pipeline, settings, environment)
    every = None if pipeline.trigger is None else timedelta(microseconds=pipeline.trigger)
    started: list[LocalQuery] = []
    try:
        for flow in pipeline.flows:
            results, rejected = (
                None if name is None else sink(pipeline.tables[name.lower()], around)
                for name in (flow.results, flow.rejected)
            )
            query = bound[flow.name].start(
                checkpoint=f"{folder.rstrip('/')}/{flow.name}",
                results=results,
                rejected=rejected,
                name=flow.name,
                every=every,
                available_now=pipeline.available_now,
            )
            started.append(query)
    except BaseException:
        # Stop the others, which would otherwise run without a handle.
        for query in started:
            with suppress(Exception):
                query.stop()
        raise
    return started
