"""Checks and starts the queries of a pipeline on either host."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import timedelta
from os.path import expanduser
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

from muntin.hosts.definition import Definition
from muntin.model.errors import MuntinError, OptionError, ProblemsError, SqlError
from muntin.model.option_types import parse_folder
from muntin.model.pipeline import DeclaredTable, Flow, Pipeline
from muntin.model.placeholders import fill, fill_available
from muntin.sinks.declared import Surroundings, make_sink
from muntin.sinks.sink import Sink, check_separate_tables, is_within

D = TypeVar("D", bound="Definition[Any, Any]")
Sinks = tuple[Sink | None, Sink | None]
"""The sinks of a query's results and rejected messages."""


class PipelineError(MuntinError):
    """A query of a pipeline can't be built; the message names it."""


class PipelineHost(ABC, Generic[D]):
    """Builds the queries of pipelines on one host."""

    @abstractmethod
    def bind(self, flow: Flow, pipeline: Pipeline, around: Surroundings) -> D:
        """Return a query over the tables of its pipeline, whose results fit its sink.

        Raises:
            MuntinError: When it has a mistake; the error names the option or the place.
        """

    @abstractmethod
    def check(
        self, query: D, flow: Flow, sinks: tuple[Sink | None, Sink | None], folder: str
    ) -> None:
        """Refuse sinks that can't take the rows of a query, without starting it.

        Args:
            query: The query.
            flow: The query as the pipeline describes it.
            sinks: The sinks of results and of rejected messages.
            folder: An empty folder.

        Raises:
            MuntinError: When a sink can't take them.
        """

    def start(
        self,
        pipeline: Pipeline,
        settings: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
    ) -> list[Any]:
        """Start every query of a pipeline.

        Args:
            pipeline: The pipeline.
            settings: The values of its placeholders.
            environment: The environment variables; by default those of this process.

        Raises:
            MuntinError: When a query can't run; then none runs. If queries have mistakes, the error
                lists those of all queries.
        """
        around = (
            Surroundings(settings, os.environ, keeps_secrets=True)
            if environment is None
            else Surroundings(settings, environment)
        )
        if pipeline.checkpoint is None:
            raise OptionError("checkpoint", None, "isn't set", "write SET checkpoint = 'folder'")
        text = fill("checkpoint", pipeline.checkpoint, around.settings, around.environment)
        folder = parse_folder("checkpoint", text)
        queries = self._bind_all(pipeline, around)
        sinks = {flow.name: _make_sinks(flow, pipeline, around) for flow in pipeline.flows}
        _check_folders(sinks)
        every = None if pipeline.trigger is None else timedelta(microseconds=pipeline.trigger)
        running: list[Any] = []
        try:
            for name, query in queries.items():
                results, rejected = sinks[name]
                running.append(
                    query.start(
                        checkpoint=f"{folder.rstrip('/')}/{name}",
                        results=results,
                        rejected=rejected,
                        name=name,
                        every=every,
                        available_now=pipeline.available_now,
                    )
                )
        except BaseException:
            # Stop the others, which would otherwise run without a handle.
            for query in running:
                with suppress(Exception):
                    query.stop()
            raise
        return running

    def find_mistakes(
        self, pipeline: Pipeline, settings: Mapping[str, str], names: Collection[str]
    ) -> list[MuntinError]:
        """Return the mistakes that binding some queries reveals, without starting them.

        An unset placeholder is replaced by an empty folder, so that its table can be described.

        Args:
            pipeline: The pipeline.
            settings: The values of its placeholders that are set.
            names: The names of the queries to check.
        """
        problems: list[MuntinError] = []
        with TemporaryDirectory(prefix="muntin-check-") as folder:
            values = {**dict.fromkeys(pipeline.names, folder), **settings}
            around = Surroundings(values, defaultdict(lambda: "unset", os.environ))
            checkpoint = fill_available(pipeline.checkpoint or folder, settings)
            sinks_by_flow: dict[str, Sinks] = {}
            for flow in pipeline.flows:
                if flow.name not in names:
                    continue
                try:
                    query = self._bind(flow, pipeline, around)
                    sinks = _make_sinks(flow, pipeline, around, set_by=settings)
                    self.check(query, flow, sinks, folder)
                    if "${" not in checkpoint:
                        check_separate_tables(sinks, expanduser(checkpoint))
                    _check_folders(sinks_by_flow | {flow.name: sinks})
                    sinks_by_flow[flow.name] = sinks
                except MuntinError as error:
                    problems.append(error)
        return problems

    def _bind_all(self, pipeline: Pipeline, around: Surroundings) -> dict[str, D]:
        queries: dict[str, D] = {}
        problems: list[MuntinError] = []
        for flow in pipeline.flows:
            try:
                queries[flow.name] = self._bind(flow, pipeline, around)
            except MuntinError as error:
                problems.append(error)
        ProblemsError.raise_if_any(problems)
        return queries

    def _bind(self, flow: Flow, pipeline: Pipeline, around: Surroundings) -> D:
        try:
            return self.bind(flow, pipeline, around)
        except OptionError as error:
            if isinstance(error.value, str) and error.value in pipeline.places:
                whole, span = pipeline.places[error.value]
                raise SqlError(whole, span, error.problem, error.hint) from error
            raise PipelineError(f"query {flow.name}: {error}") from error


def _check_folders(sinks_by_flow: Mapping[str, Sinks]) -> None:
    """Refuse folders of queries of which one is within another's, or that can't take two."""
    folders: dict[str, str] = {}
    for flow, sinks in sinks_by_flow.items():
        own = [(one, folder) for one in sinks for folder in getattr(one, "folders", ())]
        for sink, folder in own:
            for other, name in folders.items():
                if folder == other and getattr(sink, "takes_queries", False):
                    continue
                if is_within(folder, other) or is_within(other, folder):
                    problem = f"of query {flow} overlaps with the folder of query {name}"
                    hint = "give each query a folder of its own"
                    raise OptionError("path", folder, problem, hint)
        folders |= {folder: flow for _, folder in own}


def has_unset_values(table: DeclaredTable, settings: Mapping[str, str]) -> bool:
    """Return whether an option of a table has a placeholder without a value."""
    return any("${" in fill_available(value, settings) for value in table.options.values())


def _make_sinks(
    flow: Flow,
    pipeline: Pipeline,
    around: Surroundings,
    set_by: Mapping[str, str] | None = None,
) -> Sinks:
    """Return the sinks of a query; with settings, without those that have unset placeholders."""

    def build(name: str | None) -> Sink | None:
        table = None if name is None else pipeline.tables[name.lower()]
        if table is None or (set_by is not None and has_unset_values(table, set_by)):
            return None
        return make_sink(table, around)

    return build(flow.results), build(flow.rejected)
