"""A pipeline's queries in this process: which host runs them, their mistakes, and their start."""

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
from muntin.hosts.local.statements import Rows, bind_query
from muntin.hosts.local.tables import needs_spark, source_of
from muntin.model.errors import MuntinError, OptionError, ProblemsError, SqlError
from muntin.model.pipeline import DeclaredTable, Flow, Pipeline, tables_of
from muntin.model.placeholders import filled, partly
from muntin.pipelines.checks import check_declared
from muntin.sinks.declared import Surroundings, sink
from muntin.sinks.sink import Sink


class LocalPipelineError(MuntinError):
    """A query of a pipeline can't run in this process; the message names it."""


def find_spark_reason(pipeline: Pipeline, given: Mapping[str, str]) -> str | None:
    """The reason for which the inputs of a pipeline are read on Spark, if there is one.

    Args:
        pipeline: The pipeline.
        given: The values of its placeholders.
    """
    read = frozenset[str]().union(*(tables_of(flow.query) for flow in pipeline.flows))
    for name in sorted(read):
        table = pipeline.tables.get(name)
        if table is None:
            if "." in name:
                return f"table {name}: a catalog needs Spark"
            continue  # the check of the pipeline reports it
        options = {option: partly(value, given) for option, value in table.options.items()}
        reason = needs_spark(DeclaredTable(name, table.connector, options=options,
                                           stream=table.stream))  # fmt: skip
        if reason is not None:
            return reason
    if "://" in partly(pipeline.checkpoint or "", given):
        return "a checkpoint in an object store needs Spark"
    return None


def bind_flows(
    pipeline: Pipeline,
    given: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> dict[str, LocalDefinition]:
    """The queries of a pipeline by name, not started.

    Raises:
        MuntinError: With the mistakes of all queries.
    """
    around = Surroundings(given, os.environ if environment is None else environment)
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
    """A query over the tables of its pipeline, whose results fit the columns of its sink."""

    def find(name: str) -> Rows:
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


def find_mistakes(pipeline: Pipeline, given: Mapping[str, str]) -> list[MuntinError]:
    """The mistakes of a pipeline's queries that are seen when they are bound; none is started.

    A value that isn't given is taken for an empty folder. A query over files that aren't there yet,
    without columns, can't be checked then.
    """
    problems: list[MuntinError] = []
    with TemporaryDirectory(prefix="muntin-check-") as folder:
        around = Surroundings(
            {**dict.fromkeys(pipeline.names, folder), **given},
            defaultdict(lambda: "unset", os.environ),
        )
        for flow in pipeline.flows:
            if not _is_describable(flow, pipeline, given):
                continue
            try:
                query = _bind(flow, pipeline, around)
                destinations(query.plan, _whole_sinks(flow, pipeline, given, around))
            except MuntinError as error:
                problems.append(error)
    return problems


def _is_describable(flow: Flow, pipeline: Pipeline, given: Mapping[str, str]) -> bool:
    """Whether the columns of all that a query reads are known before all values are given."""
    tables = [pipeline.tables[name] for name in tables_of(flow.query) if name in pipeline.tables]
    return not any(
        table.columns is None and any("${" in partly(v, given) for v in table.options.values())
        for table in tables
    )


def _whole_sinks(
    flow: Flow, pipeline: Pipeline, given: Mapping[str, str], around: Surroundings
) -> tuple[Sink | None, Sink | None]:
    """The sinks of a query all of whose options have their values."""

    def one(name: str | None) -> Sink | None:
        table = None if name is None else pipeline.tables[name.lower()]
        if table is None or any("${" in partly(v, given) for v in table.options.values()):
            return None
        return sink(table, around)

    return one(flow.results), one(flow.rejected)


def start_flows(
    pipeline: Pipeline,
    given: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> list[LocalQuery]:
    """Start every query of a pipeline in this process.

    Raises:
        MuntinError: When a query can't run; none runs then.
    """
    around = Surroundings(given, os.environ if environment is None else environment)
    if pipeline.checkpoint is None:
        raise OptionError("checkpoint", None, "isn't set", "write SET checkpoint = 'folder'")
    folder = filled("checkpoint", pipeline.checkpoint, around.given, around.environment)
    bound = bind_flows(pipeline, given, environment)
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
        # They would run on, and nobody would have a handle to stop them.
        for query in started:
            with suppress(Exception):
                query.stop()
        raise
    return started
