"""``muntin serve``: runs a pipeline, and shows it on a live page."""

from __future__ import annotations

from rich.console import Console

from muntin.cli.console import open_session, print_text, report_errors
from muntin.cli.metrics import MetricsOption, parse_metrics, serve_metrics
from muntin.cli.page import AddressOption, Port, add_query
from muntin.cli.pipelines import (
    Conf,
    Master,
    PipelineFile,
    SetValues,
    open_pipeline,
    parse_settings,
    parse_spark_settings,
)
from muntin.cli.tokens import Token, TokenFile, read_token
from muntin.cli.watch import watch
from muntin.serve import Feed


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
) -> None:
    """Run the queries of a pipeline, and show their progress on a live page.

    Shows windows as they emit, watermark and lag, throughput, rejected
    messages by reason, and the size of the state.
    Runs on Spark, until Ctrl-C or until the queries end.
    """
    console = Console()
    with report_errors():
        from muntin.serve.app import Server

        token = read_token(token, token_file)
        settings, figures = parse_spark_settings(conf or []), parse_metrics(metrics, token)
        begin = open_pipeline(pipeline, parse_settings(set_ or []), "spark").start
        feed = Feed()
        with Server(feed, host, port, token) as server:
            print_text(console, f"page     {server.address}")
            with open_session(console, pipeline.stem, master=master, **settings) as spark:
                from muntin.spark.starting import showing_rejected

                with showing_rejected():
                    queries = begin(spark)
                for query in queries:
                    add_query(feed, query)
                # A token that the page has made up is for both.
                serve_metrics(console, queries, figures and {**figures, "token": server.token})
                watch(queries, console)
