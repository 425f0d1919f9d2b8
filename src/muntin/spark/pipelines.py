"""Checks and starts the queries of a pipeline on Spark."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import timedelta
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from muntin.model.errors import MuntinError, OptionError, ProblemsError, SqlError
from muntin.model.pipeline import DeclaredTable, Flow, Pipeline
from muntin.model.placeholders import filled, partly
from muntin.pipelines.checks import check_declared
from muntin.sinks.declared import Surroundings, sink
from muntin.sinks.sink import Sink
from muntin.spark.explain import only_noted
from muntin.spark.join import Joined
from muntin.spark.query import WindowedQuery
from muntin.spark.sources.tables import read
from muntin.spark.statements import bind, first_line, plainly, refused
from muntin.spark.windowed import WindowedAggregate
from muntin.sql.references import columns_of_ddl, shape_of_type


class PipelineError(MuntinError):
    """A query of a pipeline can't be built; the message names it."""


def queries(
    spark: SparkSession,
    pipeline: Pipeline,
    given: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> dict[str, WindowedAggregate | Joined]:
    """Return the queries of a pipeline by name, without starting them.

    Raises:
        MuntinError: When queries have mistakes; the error lists those of all queries.
    """
    around = Surroundings(given, os.environ if environment is None else environment)
    built: dict[str, WindowedAggregate | Joined] = {}
    problems: list[MuntinError] = []
    for flow in pipeline.flows:
        try:
            built[flow.name] = _bound(spark, flow, pipeline, around)
        except MuntinError as error:
            problems.append(error)
    ProblemsError.raise_if_any(problems)
    return built


def _bound(
    spark: SparkSession, flow: Flow, pipeline: Pipeline, around: Surroundings
) -> WindowedAggregate | Joined:
    """Return a query over the tables of its pipeline, and check that its results fit its sink."""

    def find(name: str) -> DataFrame:
        table = pipeline.tables.get(name.lower())
        return spark.table(name) if table is None else read(spark, table, around)

    try:
        query = bind(flow.query, find)
        if flow.results is not None:
            check_columns(pipeline.tables[flow.results.lower()], query.results.schema)
        return query
    except PySparkException as error:
        text = refused(flow.query, find)
        if text is not None and text in pipeline.places:
            whole, span = pipeline.places[text]
            problem = f"Spark doesn't take this: {plainly(error)}"
            hint = "see what columns the table has, and of what types"
            raise SqlError(whole, span, problem, hint) from error
        raise PipelineError(f"{flow.name}: {first_line(error)}") from error
    except OptionError as error:
        raise PipelineError(f"{flow.name}: {error}") from error


def check_columns(table: DeclaredTable, schema: StructType) -> None:
    """Refuse results whose names or types don't match the declared columns of their sink.

    Raises:
        OptionError: When they differ; the error says how.
    """
    if table.columns is None:
        return
    check_declared(table, schema.names)
    inserted = {field.name.lower(): field.dataType.simpleString() for field in schema.fields}
    for name, kind in columns_of_ddl(table.columns).items():
        declared, made = shape_of_type(kind), shape_of_type(inserted[name.lower()])
        if declared is not None and made is not None and declared.family != made.family:
            hint = f"write CAST(… AS {kind.upper()}) AS {name}, or declare {made.text.upper()}"
            problem = f"isn't what the query inserts, which is {made.text.upper()}"
            raise OptionError(name, kind.upper(), problem, hint)


def mistakes(
    spark: SparkSession, pipeline: Pipeline, given: Mapping[str, str], names: Collection[str]
) -> list[MuntinError]:
    """Return the mistakes in some of a pipeline's queries that only Spark finds; start none.

    An unset placeholder is replaced by an empty folder, so that its table can be described.
    """
    problems: list[MuntinError] = []
    with TemporaryDirectory(prefix="muntin-check-") as folder:
        values = {**dict.fromkeys(pipeline.names, folder), **given}
        environment = defaultdict(lambda: "unset", os.environ)
        for flow in pipeline.flows:
            if flow.name not in names:
                continue
            try:
                around = Surroundings(values, environment)
                with only_noted():
                    query = _bound(spark, flow, pipeline, around)
                    targets = _whole_sinks(flow, pipeline, given, around)
                    query.start(checkpoint=folder, name=flow.name, **targets)
            except MuntinError as error:
                problems.append(error)
    return problems


def _whole_sinks(
    flow: Flow, pipeline: Pipeline, given: Mapping[str, str], around: Surroundings
) -> dict[str, Any]:
    """Return the sinks of a query, without those whose options have unset placeholders."""
    sinks = {}
    for part, name in (("results", flow.results), ("rejected", flow.rejected)):
        table = None if name is None else pipeline.tables[name.lower()]
        if table is not None and not any(
            "${" in partly(value, given) for value in table.options.values()
        ):
            sinks[part] = sink(table, around)
    return sinks


def start(
    spark: SparkSession,
    pipeline: Pipeline,
    given: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> list[WindowedQuery]:
    """Start every query of a pipeline."""
    around = Surroundings(given, os.environ if environment is None else environment)
    if pipeline.checkpoint is None:
        hint = "write SET checkpoint = 'folder'"
        raise OptionError("checkpoint", None, "isn't set", hint)
    folder = filled("checkpoint", pipeline.checkpoint, around.given, around.environment)
    built = queries(spark, pipeline, given, environment)
    sinks = {flow.name: _sinks(flow, pipeline, around) for flow in pipeline.flows}
    every = None if pipeline.trigger is None else timedelta(microseconds=pipeline.trigger)
    started: list[WindowedQuery] = []
    try:
        for name, aggregate in built.items():
            results, rejected = sinks[name]
            query = aggregate.start(
                results=results,
                rejected=rejected,
                name=name,
                checkpoint=f"{folder.rstrip('/')}/{name}",
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


def _sinks(flow: Flow, pipeline: Pipeline, around: Surroundings) -> tuple[Sink | None, Sink | None]:
    def one(name: str | None) -> Sink | None:
        return None if name is None else sink(pipeline.tables[name.lower()], around)

    return one(flow.results), one(flow.rejected)
