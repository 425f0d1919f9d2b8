"""``muntin explain``: what a pipeline's queries do, without starting any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from muntin.cli.console import reported, say, session
from muntin.cli.pipelines import PipelineFile, SetValues, check_fits, load, settings
from muntin.explain.flows import stories
from muntin.explain.size import Rates
from muntin.pipelines.files import SUFFIXES, read


def explain(
    pipeline: PipelineFile,
    set_: SetValues = None,
    rate: Annotated[
        float | None,
        typer.Option(min=0.0, help="Messages per second, to estimate the size of the state."),
    ] = None,
    keys: Annotated[
        int, typer.Option(min=1, help="Number of keys that are active within a window.")
    ] = 1000,
) -> None:
    """Describe the queries of a pipeline: windows, triggers, state, and possible problems.

    SQL and TOML are explained as they stand. A pipeline in Python is built to see its queries,
    but none is started.
    """
    console = Console()
    rates = None if rate is None else Rates(rate, keys)
    with reported():
        given = settings(set_ or [])
        if pipeline.suffix in SUFFIXES:
            found = list(stories(read(pipeline, given, whole=False), rates, given))
        else:
            found = _built(pipeline, given, rates)
    for name, text in found:
        console.print(f"[bold]{name}[/]", highlight=False)
        say(console, text)
        console.print()


def _built(path: Path, given: dict[str, str], rates: Rates | None) -> list[tuple[str, str]]:
    """Build a pipeline in Python, and note what it would start."""
    function = load(path)
    check_fits(function, given)
    with session(Console(stderr=True), path.stem) as spark:
        from muntin.spark.explain import explain as words
        from muntin.spark.explain import only_noted

        with only_noted() as noted:
            function(spark, **given)
        return [(name or f"query {i}", words(plan, rates)) for i, (name, plan) in enumerate(noted)]


def schema() -> None:
    """Print the JSON Schema of a pipeline in TOML, for editors."""
    with reported():
        from muntin.pipelines.form import schema as made

        print(json.dumps(made(), indent=2))
