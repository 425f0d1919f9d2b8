"""``muntin run``: starts a pipeline and watches it."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from muntin.cli.console import report_errors, session
from muntin.cli.pipelines import (
    HostOption,
    PipelineFile,
    SetValues,
    open_pipeline,
    parse_settings,
    parse_spark_settings,
)
from muntin.cli.watch import LogFormat, watch
from muntin.hosts.interrupts import quit_on_signals
from muntin.model.errors import OptionError

LogOption = Annotated[
    LogFormat | None,
    typer.Option(help="Print progress in lines of this format, also on a terminal."),
]


def run_pipeline(
    pipeline: PipelineFile,
    set_: SetValues = None,
    host: HostOption = None,
    until_quiet: Annotated[
        bool,
        typer.Option(
            help="Stop once all available input is read and every changed window has emitted."
        ),
    ] = False,
    master: Annotated[
        str | None,
        typer.Option(help="Spark cluster to run on, as spark://host:7077 (default: local[*])."),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="NAME=VALUE", help="Setting of Spark, as in spark-submit."),
    ] = None,
    verbose: Annotated[
        bool, typer.Option(help="Show the log of Spark's Python processes.")
    ] = False,
    metrics: Annotated[
        int | None,
        typer.Option(metavar="PORT", help="Serve figures for Prometheus on the loopback."),
    ] = None,
    log: LogOption = None,
) -> None:
    """Run the queries of a pipeline until they end, or until Ctrl-C.

    A file of SQL (.sql) or TOML (.toml) declares inputs, queries and outputs.
    If it reads Kafka, files or ticks, its queries run here, without Spark.
    A file of Python (.py) has a function pipeline(spark, **settings) that
    starts one or several queries and returns them.
    """
    console = Console()
    with report_errors():
        values = parse_settings(set_ or [])
        opened = open_pipeline(pipeline, values, host)
        options = parse_spark_settings(conf or [])
        if opened.host == "local":
            _refuse_sparks_options(master, options, verbose)
            with quit_on_signals():
                queries = opened.start(None)
            _serve_metrics(console, queries, metrics)
            watch(queries, console, until_quiet=until_quiet, log=log)
            return
        with session(console, pipeline.stem, master=master, verbose=verbose, **options) as spark:
            queries = opened.start(spark)
            _serve_metrics(console, queries, metrics)
            watch(queries, console, until_quiet=until_quiet, log=log)


def _serve_metrics(console: Console, queries: list[Any], port: int | None) -> None:
    """Serve the metrics of queries, if a port for them is set."""
    if port is not None:
        import muntin as mt

        console.print(f"Figures at {mt.metrics(*queries, port=port).url}", style="dim")


def _refuse_sparks_options(master: str | None, conf: dict[str, str], verbose: bool) -> None:
    """Refuse options of Spark if queries run in this process."""
    options = {"--master": master, "--conf": ", ".join(conf), "--verbose": verbose}
    for option, value in options.items():
        if value not in (None, "", False):
            hint = "leave it out, or add --host spark"
            raise OptionError(option, value, "is for Spark, and this runs without it", hint)
