"""``muntin windowing``: inserts, deletes, follows the maximum, and averages, all at once."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from muntin.apps.windowing import Maximum, Monitor, Options, TableProgress
from muntin.apps.windowing.source import parse_source as source_of
from muntin.cli.console import QueryFailedError, print_text, report_errors, session, summarize_error
from muntin.cli.page import AddressOption, Port, TablePage
from muntin.cli.tokens import Token, TokenFile, read_token
from muntin.cli.windowing_view import render_run
from muntin.model.errors import MissingExtraError, OptionError
from muntin.serve import Feed

_Interval = Annotated[float, typer.Option(help="Interval between reports, in seconds.")]
_Duration = Annotated[float, typer.Option(help="How long to run, in seconds.")]
_Master = Annotated[str | None, typer.Option(help="Spark cluster to run on.")]
_Rows = Annotated[int, typer.Option(help="Number of rows to keep in all (0 = no limit).")]
_ShardRows = Annotated[
    int, typer.Option(help="Number of rows to keep in each shard (0 = no limit).")
]
_History = Annotated[float, typer.Option(help="How long to keep rows, in seconds (0 = forever).")]
_Deletes = Annotated[
    Path | None,
    typer.Option(help="Folder to take delete requests from; see muntin windowing delete."),
]
_Inline = Annotated[
    bool, typer.Option("--inline/--no-inline", help="Delete rows in the same step as inserts.")
]
_Chunk = Annotated[int, typer.Option(help="Maximum number of rows to delete at a time.")]
_Yield = Annotated[
    int, typer.Option(help="Pause of the deleter once it has caught up, in milliseconds.")
]
_Rate = Annotated[int, typer.Option(help="Maximum number of tuples to insert per second.")]
_Averages = Annotated[str, typer.Option(help="Periods to average over, in seconds.")]
_Source = Annotated[
    str,
    typer.Option(
        help="Source to read: random, parquet:FOLDER (json:, csv:) or kafka:HOST:PORT/TOPIC."
    ),
]
_Clock = Annotated[
    str | None,
    typer.Option(help="Clock that ages rows: wall, or event (the default for a source)."),
]
_Seed = Annotated[int, typer.Option(help="Seed of the random tuples.")]
_Checkpoint = Annotated[
    Path | None, typer.Option(help="Folder to keep the table in; a run resumes from it.")
]
_Shards = Annotated[
    int | None,
    typer.Option(help="Number of shards (default: the checkpoint's, or one per core)."),
]
_Json = Annotated[bool, typer.Option("--json", help="Print lines of JSON.")]
_Page = Annotated[bool, typer.Option(help="Also show the run on a live page.")]


def windowing(
    context: typer.Context,
    displayinterval: _Interval = 5.0,
    duration: _Duration = 120.0,
    master: _Master = None,
    maxrows: _Rows = 0,
    shardrows: _ShardRows = 0,
    historyseconds: _History = 30.0,
    deletes: _Deletes = None,
    inline: _Inline = False,
    deletechunksize: _Chunk = 100,
    deleteyieldtime: _Yield = 100,
    ratelimit: _Rate = 15_000,
    averages: _Averages = "1,5,10,30",
    source: _Source = "random",
    clock: _Clock = None,
    seed: _Seed = 0,
    checkpoint: _Checkpoint = None,
    shards: _Shards = None,
    json_: _Json = False,
    page: _Page = True,
    host: AddressOption = "127.0.0.1",
    port: Port = 8765,
    token: Token = None,
    token_file: TokenFile = None,
) -> None:
    """Insert random tuples, delete old ones, follow the maximum, average over the last seconds.

    VoltDB's windowing application, on Spark.
    """
    if context.invoked_subcommand is not None:
        return
    with report_errors(), ExitStack() as stack:
        table = source_of(source)
        options = _options(context.params, table)
        reporter = ProgressReporter(Console(), options, as_json=json_)
        if page:
            reporter.page = _serve_page(stack, options, host, port, read_token(token, token_file))
        _exit(reporter, finished=_run(options, shards, reporter, master, table, checkpoint))


def _options(arguments: Mapping[str, Any], table: Any) -> Options:
    """Return the application's options from the command's options of the same names."""
    values = {option.name: arguments[option.name] for option in fields(Options)}
    values["averages"] = _parse_spans(values["averages"])
    values["clock"] = values["clock"] or ("wall" if table is None else "event")
    if values["deletes"] is not None:
        values["deletes"] = str(values["deletes"])
    if values["shards"] is None:
        values["shards"] = 1  # A placeholder until Spark knows the number of cores.
    return Options(**values)


def _exit(reporter: ProgressReporter, *, finished: bool) -> None:
    """Print the summary, and end the command with its exit code."""
    summary = reporter.monitor.summary(time.monotonic())
    reporter.write(summary)
    if not finished:
        raise typer.Exit(130)
    if not summary.adds_up:
        raise typer.Exit(1)


def _parse_spans(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(span) for span in text.split(",") if span.strip())
    except ValueError:
        hint = "give seconds, for example 1,5,10,30"
        raise OptionError("averages", text, "aren't numbers", hint) from None


def _serve_page(
    stack: ExitStack, options: Options, host: str, port: int, token: str | None
) -> TablePage | None:
    """Serve the page and print its address; without the extra, print how to install it."""
    console = Console(stderr=True)
    try:
        from muntin.serve.server import Server
    except MissingExtraError as error:
        print_text(console, str(error), "dim")
        return None
    feed = Feed()
    print_text(console, f"page     {stack.enter_context(Server(feed, host, port, token)).address}")
    return TablePage(feed, options)


class ProgressReporter:
    """Prints a run on a terminal, in plain lines, or in JSON."""

    def __init__(self, console: Console, options: Options, *, as_json: bool = False) -> None:
        self.console = console
        self.as_json = as_json
        self.live = console.is_terminal and not as_json
        self.monitor = Monitor(options)
        self.last: Any = None
        self.page: TablePage | None = None
        self.begun: float | None = None

    def add_batch(self, batch: int, progress: list[TableProgress], written: int) -> None:
        """Add a batch."""
        if self.begun is None:
            # Spark's start isn't part of the run.
            self.begun = time.monotonic()
            self.monitor.start(self.begun)
        change = self.monitor.add_batch(batch, progress, written)
        if self.page is not None:
            self.page.show(self.monitor, batch, progress, written, change)
        if change is not None and not self.live:
            self.write(change)

    def write(self, item: Any) -> None:
        """Print a report, a change or the summary."""
        if self.as_json:
            print(json.dumps(item.to_dict()), flush=True)
        else:
            lines = [str(item)] if isinstance(item, Maximum) else item.lines()
            print_text(self.console, "\n".join(lines))

    def report(self) -> None:
        """Print the events since the last report."""
        self.last = self.monitor.report(time.monotonic())
        if not self.live:
            self.write(self.last)

    @property
    def elapsed(self) -> float:
        """The seconds since the run began."""
        return 0.0 if self.begun is None else time.monotonic() - self.begun


def _run(
    options: Options,
    shards: int | None,
    reporter: ProgressReporter,
    master: str | None,
    table: Any,
    checkpoint: Path | None,
) -> bool:
    """Run the application; return whether it finished without an interruption."""
    with ExitStack() as stack:
        console = Console(stderr=True)
        spark = stack.enter_context(session(console, "muntin windowing", master=master))
        from muntin.apps.windowing.query import start
        from muntin.sinks.declared import Surroundings
        from muntin.spark.host.shards import count_shards, read_stored_shards
        from muntin.spark.sources.tables import read_table

        folder = checkpoint or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="muntin-windowing-", ignore_cleanup_errors=True)
        )
        if shards is None:
            shards = read_stored_shards(spark, str(folder)) or count_shards(spark, None)
        rows = None if table is None else read_table(spark, table, Surroundings({}, os.environ))
        options = replace(options, shards=shards)
        query = start(spark, options, reporter.add_batch, str(folder), rows)
        stack.callback(query.stop)
        try:
            follow(query, options, reporter)
        except KeyboardInterrupt:
            return False
        return True


def follow(query: Any, options: Options, reporter: ProgressReporter) -> None:
    """Report at each interval until the duration is over."""
    # Until then, Spark may print messages, which would break a live view.
    while query.is_active and reporter.begun is None:
        time.sleep(0.1)
    with ExitStack() as stack:
        live = None
        if reporter.live:
            live = stack.enter_context(Live(console=reporter.console, refresh_per_second=4))
        due = options.displayinterval
        while query.is_active and reporter.elapsed < options.duration:
            if reporter.elapsed >= due:
                reporter.report()
                due += options.displayinterval
            _show(live, reporter)
            time.sleep(0.1)
        query.stop()
        reporter.report()
        _show(live, reporter)
    failure = query.query.exception()
    if failure is not None:
        raise QueryFailedError(summarize_error(failure)) from failure


def _show(live: Live | None, reporter: ProgressReporter) -> None:
    if live is not None:
        live.update(render_run(reporter.monitor, reporter.last, reporter.elapsed))
