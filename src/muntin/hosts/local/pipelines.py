"""Runs pipelines in this process, or tells why they need Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from muntin.engine.dtypes import find_shape
from muntin.hosts.local.definition import LocalDefinition
from muntin.hosts.local.delivery import make_destinations
from muntin.hosts.local.plan import InputRows
from muntin.hosts.local.statements import bind_query
from muntin.hosts.local.tables import make_source, needs_spark
from muntin.hosts.pipelines import PipelineHost, has_unset_values
from muntin.model.errors import MuntinError, OptionError
from muntin.model.pipeline import DeclaredTable, Flow, Pipeline, find_tables
from muntin.model.placeholders import fill_available
from muntin.model.shapes import Shape
from muntin.pipelines.checks import check_declared_columns
from muntin.sinks.declared import Surroundings
from muntin.sinks.sink import Sink


def find_spark_reason(pipeline: Pipeline, settings: Mapping[str, str]) -> str | None:
    """Return the reason why the inputs of a pipeline need Spark, if there is one.

    Args:
        pipeline: The pipeline.
        settings: The values of its placeholders.
    """
    read = frozenset[str]().union(*(find_tables(flow.query) for flow in pipeline.flows))
    for name in sorted(read):
        table = pipeline.tables.get(name)
        if table is None:
            if "." in name:
                return f"table {name}: a catalog needs Spark"
            continue  # the check of the pipeline reports it
        options = {
            option: fill_available(value, settings) for option, value in table.options.items()
        }
        reason = needs_spark(DeclaredTable(name, table.connector, options=options,
                                           stream=table.stream))  # fmt: skip
        if reason is not None:
            return reason
    if "://" in fill_available(pipeline.checkpoint or "", settings):
        return "a checkpoint in an object store needs Spark"
    return None


class LocalPipelines(PipelineHost[LocalDefinition]):
    """Builds the queries of pipelines in this process."""

    def bind(self, flow: Flow, pipeline: Pipeline, around: Surroundings) -> LocalDefinition:
        """Return a query over the tables of its pipeline, whose results fit its sink."""

        def create_source(name: str) -> InputRows:
            table = pipeline.tables.get(name.lower())
            if table is None:
                raise OptionError("FROM", name, "isn't known", "write CREATE TABLE for it")
            return make_source(table, around)

        query = bind_query(flow.query, create_source)
        if flow.results is not None:
            schema = query.plan.output_schema
            types = {name: _find_sql_shape(dtype) for name, dtype in schema.items()}
            check_declared_columns(pipeline.tables[flow.results.lower()], types)
        return query

    def check(
        self,
        query: LocalDefinition,
        flow: Flow,
        sinks: tuple[Sink | None, Sink | None],
        folder: str,
    ) -> None:
        """Refuse sinks that can't take the rows of a query, without starting it."""
        make_destinations(query.plan, sinks, folder)

    def find_all_mistakes(
        self, pipeline: Pipeline, settings: Mapping[str, str]
    ) -> list[MuntinError]:
        """Return the mistakes in all queries whose columns are certain without unset values.

        A query over files that don't exist yet can only be checked if its table declares columns.
        """
        uncertain = {
            name
            for name, table in pipeline.tables.items()
            if table.columns is None and has_unset_values(table, settings)
        }
        flows = [flow for flow in pipeline.flows if not uncertain & find_tables(flow.query)]
        return self.find_mistakes(pipeline, settings, {flow.name for flow in flows})


# The types of SQL that stand for those of Polars, by family.
_SQL_TYPES = {
    "boolean": "BOOLEAN", "integer": "BIGINT", "float": "DOUBLE", "string": "STRING",
    "binary": "BINARY", "date": "DATE", "timestamp": "TIMESTAMP",
}  # fmt: skip


def _find_sql_shape(dtype: pl.DataType) -> Shape:
    """Return a column's type, in the words of SQL if it has one for it."""
    shape = find_shape(dtype)
    return replace(shape, text=_SQL_TYPES.get(shape.family, shape.text))
