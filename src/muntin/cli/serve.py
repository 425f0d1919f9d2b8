"""``muntin serve``: runs a pipeline, and shows it on a live page."""

from __future__ import annotations

from rich.console import Console

from muntin.cli.console import report_errors
from muntin.cli.metrics import MetricsOption, parse_address
from muntin.cli.page import AddressOption, Port
from muntin.cli.pipelines import (
    Conf,
    Master,
    PipelineFile,
    SetValues,
    open_pipeline,
    parse_settings,
    parse_spark_settings,
)
from muntin.cli.run import LogOption, UntilQuiet, Verbose, run_opened
from muntin.cli.tokens import Token, TokenFile, read_token


def serve(
    pipeline: PipelineFile,
    set_: SetValues = None,
    host: AddressOption = "127.0.0.1",
    port: Port = 8765,
    token: Token = None,
    token_file: TokenFile = None,
    master: Master = None,
    conf: Conf = None,
    metrics: MetricsOption = None,
    until_quiet: UntilQuiet = False,
    verbose: Verbose = False,
    log: LogOption = None,
) -> None:
    """Run the queries of a pipeline, and show their progress on a live page.

    Shows windows as they emit, watermark and lag, throughput, rejected
    messages by reason, and the size of the state.
    Runs on Spark, until Ctrl-C or until the queries end.
    """
    console = Console()
    with report_errors():
        token = read_token(token, token_file)
        options, figures = (
            parse_spark_settings(conf or []),
            parse_address("--metrics", metrics, token),
        )
        opened = open_pipeline(pipeline, parse_settings(set_ or []), "spark")
        settings = {"name": pipeline.stem, "master": master, "verbose": verbose, **options}
        page = {"address": host, "port": port, "token": token}
        run_opened(console, opened, settings, page, figures, until_quiet=until_quiet, log=log)
