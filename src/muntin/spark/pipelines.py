"""Runs pipelines on Spark."""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from muntin.hosts.pipelines import PipelineError, PipelineHost
from muntin.model.errors import SqlError
from muntin.model.pipeline import Flow, Pipeline
from muntin.pipelines.checks import check_declared_columns
from muntin.sinks.declared import Surroundings
from muntin.sinks.sink import Sink
from muntin.spark.explain import collect_plans
from muntin.spark.sources.tables import read_table
from muntin.spark.statements import (
    bind,
    describe_spark_error,
    find_refused_expression,
    get_first_line,
)
from muntin.sql.expression_types import parse_shape


class SparkPipelines(PipelineHost[Any]):
    """Builds the queries of pipelines on Spark."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def bind(self, flow: Flow, pipeline: Pipeline, around: Surroundings) -> Any:
        """Return a query over the tables of its pipeline, whose results fit its sink."""

        def find(name: str) -> DataFrame:
            table = pipeline.tables.get(name.lower())
            return (
                self._spark.table(name) if table is None else read_table(self._spark, table, around)
            )

        try:
            query = bind(flow.query, find)
            if flow.results is not None:
                fields = query.results.schema.fields
                types = {one.name: parse_shape(one.dataType.simpleString()) for one in fields}
                check_declared_columns(pipeline.tables[flow.results.lower()], types)
            return query
        except PySparkException as error:
            text = find_refused_expression(flow.query, find)
            if text is not None and text in pipeline.places:
                whole, span = pipeline.places[text]
                problem = f"Spark refuses this: {describe_spark_error(error)}"
                hint = "check the columns of the table and their types"
                raise SqlError(whole, span, problem, hint) from error
            raise PipelineError(f"query {flow.name}: {get_first_line(error)}") from error

    def check(
        self, query: Any, flow: Flow, sinks: tuple[Sink | None, Sink | None], folder: str
    ) -> None:
        """Refuse sinks that can't take the rows of a query, without starting it."""
        results, rejected = sinks
        with collect_plans():
            query.start(checkpoint=folder, name=flow.name, results=results, rejected=rejected)
