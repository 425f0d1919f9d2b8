"""``muntin run``: start a pipeline of one's own and watch it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from muntin.cli.failure import told
from muntin.cli.pipelines import opened, settings
from muntin.cli.watch import watch


def run(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline in SQL, TOML or Python.")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A value that it asks for, as text."),
    ] = None,
    until_quiet: Annotated[
        bool,
        typer.Option(
            help="Stop when all input there is was read and every changed window has spoken."
        ),
    ] = False,
) -> None:
    """Run the queries of a pipeline until they end, or until Ctrl-C.

    A file of SQL statements (.sql) or of TOML (.toml) says what to read, to compute and to write.
    One of Python (.py) has a function pipeline(spark, **settings) that starts one or several
    queries and returns what .start() gave.
    """
    console = Console()
    with told():
        given = settings(set_ or [])
        begin = opened(pipeline, given)
        import muntin as mt

        console.print("Starting Spark …", style="dim")
        spark = mt.session(pipeline.stem)
        try:
            watch(begin(spark), console, until_quiet=until_quiet)
        finally:
            spark.stop()
