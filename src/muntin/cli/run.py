"""``muntin run``: starts a pipeline and watches it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from muntin.cli.console import print_text, report_errors, session
from muntin.cli.pipelines import (
    HostOption,
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
from muntin.model.listening import is_loopback

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
        str | None,
        typer.Option(
            metavar="[ADDRESS:]PORT",
            help="Serve figures for Prometheus. Other addresses than the loopback require "
            "--token-file.",
        ),
    ] = None,
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
        figures = _parse_metrics(metrics, token_file)
        if opened.host == "local":
            _refuse_sparks_options(master, options, verbose)
            with quit_on_signals():
                queries = opened.start(None)
            _serve_metrics(console, queries, figures)
            watch(queries, console, until_quiet=until_quiet, log=log)
            return
        with session(console, pipeline.stem, master=master, verbose=verbose, **options) as spark:
            queries = opened.start(spark)
            _serve_metrics(console, queries, figures)
            watch(queries, console, until_quiet=until_quiet, log=log)


def _parse_metrics(metrics: str | None, token_file: Path | None) -> dict[str, Any] | None:
    """Return the address, port and token of the server of figures; ``None`` without a port."""
    if metrics is None:
        if token_file is not None:
            hint = "add --metrics PORT, or leave it out"
            raise OptionError("--token-file", str(token_file), "is for --metrics", hint)
        return None
    address, _, port = metrics.rpartition(":")
    if not port.isdecimal() or int(port) >= 1 << 16:
        hint = "give a port, as 9464, or an address with one, as 0.0.0.0:9464"
        raise OptionError("--metrics", metrics, "has no port", hint)
    address, token = address.strip("[]") or "127.0.0.1", read_token(None, token_file)
    if token is None and not is_loopback(address):
        hint = "add --token-file FILE, or leave the address out"
        raise OptionError("--metrics", metrics, "lets others look without a token", hint)
    return {"port": int(port), "address": address, "token": token}


def _serve_metrics(console: Console, queries: list[Any], figures: dict[str, Any] | None) -> None:
    """Serve the metrics of queries, if a port for them is set."""
    if figures is not None:
        import muntin as mt

        print_text(console, f"Figures at {mt.metrics(*queries, **figures).url}", style="dim")


def _refuse_sparks_options(master: str | None, conf: dict[str, str], verbose: bool) -> None:
    """Refuse options of Spark if queries run in this process."""
    options = {"--master": master, "--conf": ", ".join(conf), "--verbose": verbose}
    for option, value in options.items():
        if value not in (None, "", False):
            hint = "leave it out, or add --host spark"
            raise OptionError(option, value, "is for Spark, and this runs without it", hint)
