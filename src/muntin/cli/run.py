"""``muntin run``: starts a pipeline and watches it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from muntin.cli.console import open_session, report_errors
from muntin.cli.metrics import MetricsOption, parse_metrics, serve_metrics
from muntin.cli.pipelines import (
    Conf,
    HostOption,
    Master,
    PipelineFile,
    SetValues,
    open_pipeline,
    parse_settings,
    parse_spark_settings,
)
from muntin.cli.tokens import TokenFile, read_token
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
    master: Master = None,
    conf: Conf = None,
    verbose: Annotated[
        bool, typer.Option(help="Show the log of Spark's Python processes.")
    ] = False,
    metrics: MetricsOption = None,
    token_file: TokenFile = None,
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
        if token_file is not None and metrics is None:
            hint = "add --metrics PORT, or leave it out"
            raise OptionError("--token-file", str(token_file), "is for --metrics", hint)
        figures = parse_metrics(metrics, read_token(None, token_file))
        if opened.host == "local":
            _refuse_sparks_options(master, options, verbose)
            with quit_on_signals():
                queries = opened.start(None)
            serve_metrics(console, queries, figures)
            watch(queries, console, until_quiet=until_quiet, log=log)
            return
        with open_session(
            console, pipeline.stem, master=master, verbose=verbose, **options
        ) as spark:
            queries = opened.start(spark)
            serve_metrics(console, queries, figures)
            watch(queries, console, until_quiet=until_quiet, log=log)


def _refuse_sparks_options(master: str | None, conf: dict[str, str], verbose: bool) -> None:
    """Refuse options of Spark if queries run in this process."""
    options = {"--master": master, "--conf": ", ".join(conf), "--verbose": verbose}
    for option, value in options.items():
        if value not in (None, "", False):
            hint = "leave it out, or add --host spark"
            raise OptionError(option, value, "is for Spark, and this runs without it", hint)
