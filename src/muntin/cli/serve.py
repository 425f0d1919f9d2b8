"""``muntin serve``: run a pipeline, and show it on a live page."""

from __future__ import annotations

from rich.console import Console

from muntin.cli.failure import reported
from muntin.cli.page import Host, Port, Token, put
from muntin.cli.pipelines import PipelineFile, SetValues, opened, settings
from muntin.cli.watch import watch
from muntin.serve import Feed


def serve(
    pipeline: PipelineFile,
    set_: SetValues = None,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    token: Token = None,
) -> None:
    """Run the queries of a pipeline, and show on a live page what they do.

    Windows as they emit, watermark and lag, throughput, what was rejected and why, the size of
    the state. Until Ctrl-C, or until the queries end.
    """
    console = Console()
    with reported():
        from muntin.serve.server import Server

        begin = opened(pipeline, settings(set_ or []))
        feed = Feed()
        with Server(feed, host, port, token) as server:
            address = f"page     {server.address}"
            console.print(address, highlight=False, markup=False, soft_wrap=True)
            import muntin as mt
            from muntin.spark.starting import showing_rejected

            console.print("Starting Spark …", style="dim")
            spark = mt.session(pipeline.stem)
            try:
                with showing_rejected():
                    queries = begin(spark)
                for query in queries:
                    put(feed, query)
                watch(queries, console)
            finally:
                spark.stop()
