"""A user's pipeline: SQL, TOML, or Python with a function ``pipeline(spark, **settings)``."""

from __future__ import annotations

import inspect
import runpy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from muntin.cli.console import name_code_errors, print_text
from muntin.dataframe.host import Host
from muntin.model.errors import MuntinError, OptionError, ProblemsError
from muntin.model.pipeline import Pipeline
from muntin.pipelines.files import SUFFIXES, read_pipeline

if TYPE_CHECKING:
    from muntin.pipelines.checks import Checked

PipelineFile = Annotated[Path, typer.Argument(help="Pipeline file: SQL, TOML or Python.")]
SetValues = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Set a parameter of the pipeline."),
]
Master = Annotated[
    str | None,
    typer.Option(help="Spark cluster to run on, such as spark://host:7077 (default: local[*])."),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="Setting of Spark, as in spark-submit."),
]
HostOption = Annotated[
    Host | None,
    typer.Option("--host", help="Where queries run: spark or local. By default the inputs decide."),
]
_NAME = "pipeline"


@dataclass(frozen=True)
class OpenedPipeline:
    """A checked pipeline, ready to start.

    Attributes:
        host: Host that runs its queries.
        start: Starts the queries; takes the session on Spark.
    """

    host: Host
    start: Callable[[Any], list[Any]]


def open_pipeline(
    path: Path, values: dict[str, str], requested_host: Host | None
) -> OpenedPipeline:
    """Check a pipeline, and choose the host that runs it.

    Raises:
        MuntinError: When the pipeline can't be run; no session is started before.
    """
    if path.suffix not in SUFFIXES:
        if requested_host == "local":
            hint = "start the queries in a script of your own, without Spark"
            raise OptionError("--host", requested_host, "isn't for a pipeline in Python", hint)
        function = load_function(path)
        check_settings(function, values)

        def start_code(spark: Any) -> list[Any]:
            with name_code_errors(path):
                return list_queries(function(spark, **values))

        return OpenedPipeline("spark", start_code)
    pipeline, checked = read_checked_pipeline(path, values)
    ProblemsError.raise_if_any(checked.problems)
    for caution in checked.cautions:
        print_text(Console(stderr=True), f"careful: {caution}")
    host, _ = choose_pipeline_host(pipeline, values, requested_host)

    def start(spark: Any) -> list[Any]:
        if host == "local":
            from muntin.hosts.local.pipelines import LocalPipelines

            return LocalPipelines().start(pipeline, values)
        from muntin.spark.pipelines import SparkPipelines

        return SparkPipelines(spark).start(pipeline, values)

    return OpenedPipeline(host, start)


def choose_pipeline_host(
    pipeline: Pipeline, values: dict[str, str], requested_host: Host | None
) -> tuple[Host, str]:
    """Return the host that runs a pipeline, and the reason.

    Raises:
        OptionError: When the requested host can't read an input.
    """
    from muntin.hosts.local.pipelines import find_spark_reason

    if requested_host == "spark":
        return "spark", "--host spark"
    reason = find_spark_reason(pipeline, values)
    if reason is None:
        return "local", "--host local" if requested_host else "its inputs need no Spark"
    if requested_host == "local":
        raise OptionError("--host", requested_host, f"can't run this: {reason}", "leave it out")
    return "spark", reason


def read_checked_pipeline(
    path: Path, values: dict[str, str], *, whole: bool = True
) -> tuple[Pipeline, Checked]:
    """Read the pipeline of a file, and collect all mistakes that can be found without Spark.

    Args:
        path: A file in SQL or TOML.
        values: Values of ``--set``.
        whole: Whether all placeholders of the file must have values.
    """
    problems: list[MuntinError] = []
    # A missing extra is reported here, before the imports that need it.
    pipeline = read_pipeline(path, values, requires_all=whole, problems=problems)
    from muntin.pipelines.checks import check_pipeline

    # Sinks are slow to import.
    from muntin.sinks.declared import check_declared_sink

    checked = check_pipeline(pipeline, partial(check_declared_sink, settings=values))
    checked.problems[:0] = problems
    return pipeline, checked


def load_function(path: Path) -> Callable[..., Any]:
    """Return the function ``pipeline`` of a file."""
    if not path.is_file():
        hint = "give the path of a file in SQL or TOML, or in Python with pipeline(spark)"
        raise OptionError("PIPELINE", str(path), "isn't a file", hint)
    # Modules beside the file can be imported, as when Python runs the file itself.
    sys.path.insert(0, str(path.resolve().parent))
    with name_code_errors(path):
        function = runpy.run_path(str(path), run_name="muntin_pipeline").get(_NAME)
    if not callable(function):
        hint = "write def pipeline(spark): ... that returns the queries of .start()"
        raise OptionError("PIPELINE", str(path), "has no function pipeline", hint)
    return function


def parse_settings(pairs: Sequence[str]) -> dict[str, str]:
    """Parse ``name=value`` pairs as keyword arguments."""
    hint = "write for example --set out=/data"
    return _parse_pairs("--set", pairs, str.isidentifier, "isn't name=value", hint)


def parse_spark_settings(pairs: Sequence[str]) -> dict[str, str]:
    """Parse ``spark.name=value`` pairs."""
    hint = "write for example --conf spark.executor.memory=4g"
    problem = "isn't spark.name=value"
    return _parse_pairs("--conf", pairs, lambda name: name.startswith("spark."), problem, hint)


def _parse_pairs(
    option: str, pairs: Sequence[str], fits: Callable[[str], bool], problem: str, hint: str
) -> dict[str, str]:
    values = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not fits(name):
            # The value may be a secret, and so may be a text without a name.
            name_shown = f"{name}=…" if equals else name if fits(name) else "(hidden)"
            raise OptionError(option, name_shown, problem, hint)
        values[name] = value
    return values


def check_settings(function: Callable[..., Any], values: dict[str, str]) -> None:
    """Refuse settings that the function doesn't accept, or that are missing."""
    signature = inspect.signature(function)
    try:
        signature.bind(None, **values)
    except TypeError as error:
        takes = f"{_NAME}({', '.join(signature.parameters)})"
        hint = f"it is {takes}; set each parameter after spark with --set name=value"
        raise OptionError("--set", ", ".join(values), f"doesn't fit: {error}", hint) from error


def list_queries(returned: Any) -> list[Any]:
    """Return the queries that a pipeline returned, as a list."""
    queries = list(returned) if isinstance(returned, list | tuple) else [returned]
    if not queries or not all(hasattr(q, "progress") and hasattr(q, "await_idle") for q in queries):
        hint = "return the query that .start(...) returned, or a list of them"
        raise OptionError("pipeline()", returned, "isn't a started query", hint)
    return queries
