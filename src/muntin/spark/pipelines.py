"""A pipeline's queries, started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from muntin.model.errors import MuntinError, OptionError
from muntin.model.pipeline import Flow, Pipeline
from muntin.model.placeholders import filled
from muntin.sinks.sink import Sink
from muntin.spark.join import Joined
from muntin.spark.query import WindowedQuery
from muntin.spark.sources.tables import Surroundings, read, sink
from muntin.spark.statements import bind, first_line
from muntin.spark.windowed import WindowedAggregate


class PipelineError(MuntinError):
    """A query of a pipeline can't be built; the message names it."""


def queries(
    spark: SparkSession,
    pipeline: Pipeline,
    given: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
) -> dict[str, WindowedAggregate | Joined]:
    """The queries of a pipeline by name, not started."""
    around = Surroundings(given, os.environ if environment is None else environment)

    def find(name: str) -> DataFrame:
        table = pipeline.tables.get(name.lower())
        return spark.table(name) if table is None else read(spark, table, around)

    found = {}
    for flow in pipeline.flows:
        try:
            found[flow.name] = bind(flow.query, find)
        except PySparkException as error:
            raise PipelineError(f"{flow.name}: {first_line(error)}") from error
        except OptionError as error:
            raise PipelineError(f"{flow.name}: {error}") from error
    return found


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
        # They would run on, and nobody would have a handle to stop them.
        for query in started:
            with suppress(Exception):
                query.stop()
        raise
    return started


def _sinks(flow: Flow, pipeline: Pipeline, around: Surroundings) -> tuple[Sink | None, Sink | None]:
    def one(name: str | None) -> Sink | None:
        return None if name is None else sink(pipeline.tables[name.lower()], around)

    return one(flow.results), one(flow.rejected)
