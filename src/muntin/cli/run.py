"""``muntin run``: starts a pipeline and watches it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any

import typer
from rich.console import Console

from muntin.cli.console import open_session, report_errors
from muntin.cli.metrics import MetricsOption, parse_address, serve_metrics
from muntin.cli.page import PageOption, add_query, open_page
from muntin.cli.pipelines import (
    Conf,
    HostOption,
    Master,
    OpenedPipeline,
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
UntilQuiet = Annotated[
    bool,
    typer.Option(
        help="Stop once all available input is read and every changed window has emitted."
    ),
]
Verbose = Annotated[bool, typer.Option(help="Show the log of Spark's Python processes.")]


def run_pipeline(
    pipeline: PipelineFile,
    set_: SetValues = None,
    host: HostOption = None,
    until_quiet: UntilQuiet = False,
    master: Master = None,
    conf: Conf = None,
    verbose: Verbose = False,
    page: PageOption = None,
    metrics: MetricsOption = None,
    token_file: TokenFile = None,
    log: LogOption = None,
) -> None:
    """Run the queries of a pipeline until they end, or until Ctrl-C.

    A file of SQL (.sql) or TOML (.toml) declares inputs, queries and outputs.
    If it reads Kafka, files or ticks, it runs in this process, without Spark.
    A file of Python (.py) has a function pipeline(spark, **settings) that
    starts one or several queries and returns them.
    """
    console = Console()
    with report_errors():
        values = parse_settings(set_ or [])
        opened = open_pipeline(pipeline, values, host)
        options = parse_spark_settings(conf or [])
        if token_file is not None and metrics is None and page is None:
            hint = "add --metrics PORT, or leave it out"
            raise OptionError("--token-file", str(token_file), "is for --metrics and --page", hint)
        token = read_token(None, token_file)
        servers = [parse_address("--page", page, token), parse_address("--metrics", metrics, token)]
        if opened.host == "local":
            _refuse_sparks_options(master, options, verbose)
        settings = {"name": pipeline.stem, "master": master, "verbose": verbose, **options}
        run_opened(console, opened, settings, *servers, until_quiet=until_quiet, log=log)


def run_opened(
    console: Console,
    opened: OpenedPipeline,
    settings: Mapping[str, Any],
    page: Mapping[str, Any] | None,
    figures: dict[str, Any] | None,
    *,
    until_quiet: bool,
    log: LogFormat | None,
) -> None:
    """Run a pipeline, and watch it.

    Args:
        console: Console to print on.
        opened: The pipeline.
        settings: The name and settings of the session on Spark.
        page: Address, port and token of the live page, if it is wanted.
        figures: Those of the figures for Prometheus; a token that the page made up is for both.
        until_quiet: Stop once all input is read and everything has emitted.
        log: Format of progress lines.
    """
    is_local = opened.host == "local"
    run = quit_on_signals() if is_local else open_session(console, **settings)
    with open_page(console, page) as shown, nullcontext() if is_local else run as spark:
        with run if is_local else _show_rejected(shown is not None):
            queries = opened.start(spark)
        if shown is not None:
            feed, server = shown
            for query in queries:
                add_query(feed, query)
            figures = figures and {**figures, "token": server.token}
        serve_metrics(console, queries, figures)
        watch(queries, console, until_quiet=until_quiet, log=log)


def _show_rejected(is_shown: bool) -> AbstractContextManager[None]:
    """Return a context in which queries of Spark emit rejected messages for the page."""
    if not is_shown:
        return nullcontext()
    from muntin.spark.starting import showing_rejected

    return showing_rejected()


def _refuse_sparks_options(master: str | None, conf: dict[str, str], verbose: bool) -> None:
    """Refuse options of Spark if queries run in this process."""
    options = {"--master": master, "--conf": ", ".join(conf), "--verbose": verbose}
    for option, value in options.items():
        if value not in (None, "", False):
            hint = "leave it out, or add --host spark"
            raise OptionError(option, value, "is for Spark, and this runs without it", hint)
