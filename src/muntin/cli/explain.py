"""``muntin explain``: describes a pipeline's queries without starting any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from muntin.cli.console import open_session, print_text, report_errors
from muntin.cli.pipelines import (
    HostOption,
    PipelineFile,
    SetValues,
    check_settings,
    choose_pipeline_host,
    load_function,
    parse_settings,
    read_checked_pipeline,
)
from muntin.dataframe.host import Host
from muntin.explain.flows import describe_flows
from muntin.explain.size import Rates, make_rates
from muntin.model.errors import ProblemsError
from muntin.model.pipeline import Pipeline
from muntin.pipelines.files import SUFFIXES


def explain_pipeline(
    pipeline: PipelineFile,
    set_: SetValues = None,
    host: HostOption = None,
    rate: Annotated[
        float | None,
        typer.Option(min=0.0, help="Messages per second, to estimate the size of the state."),
    ] = None,
    keys: Annotated[
        int | None,
        typer.Option(min=1, help="Number of keys that are active within a window (default: 1000)."),
    ] = None,
) -> None:
    """Describe the queries of a pipeline: windows, triggers, state, and possible problems.

    If muntin run would refuse the pipeline, all of its mistakes are printed.
    No query is started. Spark is started only to check expressions that need it.
    """
    console = Console()
    with report_errors():
        rates = make_rates(rate, keys)
        values = parse_settings(set_ or [])
        if pipeline.suffix in SUFFIXES:
            parsed, chosen, reason = _check_pipeline(pipeline, values, host)
            described = list(describe_flows(parsed, rates, values, local=chosen == "local"))
            print_text(console, f"runs      {_describe_location(chosen, reason)}")
            console.print()
        else:
            described = _describe_python_pipeline(pipeline, values, rates)
    for name, text in described:
        print_text(console, name, style="bold")
        print_text(console, text)
        console.print()


def check_file(pipeline: PipelineFile, set_: SetValues = None, host: HostOption = None) -> None:
    """Check a pipeline: print all mistakes for which muntin run would refuse it.

    The exit code is 1 if there are any.
    No query is started. Spark is started only to check expressions that need it.
    """
    with report_errors():
        values = parse_settings(set_ or [])
        if pipeline.suffix in SUFFIXES:
            parsed, chosen, reason = _check_pipeline(pipeline, values, host)
            count, location = len(parsed.flows), _describe_location(chosen, reason)
        else:
            count, location = len(_describe_python_pipeline(pipeline, values, None)), "on Spark"
    queries = "1 query" if count == 1 else f"{count} queries"
    print_text(Console(), f"{pipeline.name}: no mistakes in {queries}; runs {location}")


def _describe_location(host: Host, reason: str) -> str:
    return f"{'in this process' if host == 'local' else 'on Spark'} ({reason})"


def _check_pipeline(
    path: Path, values: dict[str, str], requested_host: Host | None
) -> tuple[Pipeline, Host, str]:
    """Return the pipeline of a file without mistakes, its host, and the reason for that host."""
    pipeline, checked = read_checked_pipeline(path, values, whole=False)
    problems = checked.problems
    host, reason = choose_pipeline_host(pipeline, values, requested_host)
    if host == "local" and not problems:
        from muntin.hosts.local.pipelines import LocalPipelines

        problems += LocalPipelines().find_all_mistakes(pipeline, values)
    elif host == "spark" and checked.flows:
        with open_session(Console(stderr=True), path.stem) as spark:
            from muntin.spark.pipelines import SparkPipelines

            problems += SparkPipelines(spark).find_mistakes(pipeline, values, checked.flows)
    ProblemsError.raise_if_any(problems)
    for caution in checked.cautions:
        print_text(Console(stderr=True), f"careful: {caution}")
    return pipeline, host, reason


def _describe_python_pipeline(
    path: Path, values: dict[str, str], rates: Rates | None
) -> list[tuple[str, str]]:
    """Run the function of a pipeline in Python, and describe the queries that it would start."""
    function = load_function(path)
    check_settings(function, values)
    with open_session(Console(stderr=True), path.stem) as spark:
        from muntin.spark.explain import collect_plans, explain_spark_plan

        with collect_plans() as plans:
            function(spark, **values)
        return [
            (name or f"query {number}", explain_spark_plan(plan, rates))
            for number, (name, plan) in enumerate(plans)
        ]


def print_schema() -> None:
    """Print the JSON Schema of a pipeline in TOML, for editors."""
    with report_errors():
        from muntin.pipelines.form import form_schema

        print(json.dumps(form_schema(), indent=2))
