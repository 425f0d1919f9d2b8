"""``muntin windowing``: insert, delete, follow the maximum, and average, all at once."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from muntin.apps.windowing import Monitor, Options, TableProgress
from muntin.apps.windowing.source import source as source_of
from muntin.cli.failure import QueryFailedError, reported, words
from muntin.cli.page import Host, Port, TablePage, Token
from muntin.cli.windowing_view import view
from muntin.model.errors import MissingExtraError, OptionError
from muntin.serve import Feed

_Interval = Annotated[float, typer.Option(help="Seconds between reports.")]
_Duration = Annotated[float, typer.Option(help="Seconds to run for.")]
_Master = Annotated[str | None, typer.Option(help="The Spark cluster.")]
_Rows = Annotated[int, typer.Option(help="Rows to keep in all; 0 is any number.")]
_History = Annotated[float, typer.Option(help="Seconds to keep a row; 0 is indefinite.")]
_Inline = Annotated[
    bool, typer.Option("--inline/--no-inline", help="Delete together with inserts.")
]
_Chunk = Annotated[int, typer.Option(help="Rows that a deletion takes at most.")]
_Yield = Annotated[
    int, typer.Option(help="Milliseconds that the deleter waits when it has caught up.")
]
_Rate = Annotated[int, typer.Option(help="Tuples inserted a second at most.")]
_Averages = Annotated[str, typer.Option(help="Seconds to average over.")]
_Source = Annotated[
    str, typer.Option(help="random, parquet:FOLDER (json:, csv:), or kafka:HOST:PORT/TOPIC.")
]
_Clock = Annotated[
    str | None,
    typer.Option(help="What rows are old by: wall, or event (the default of a source)."),
]
_Seed = Annotated[int, typer.Option(help="What random tuples follow from.")]
_Checkpoint = Annotated[
    Path | None, typer.Option(help="Where to keep the table; a run goes on from there.")
]
_Buckets = Annotated[
    int | None, typer.Option(help="Into how many parts the table is cut; a core has one.")
]
_Page = Annotated[bool, typer.Option(help="Show the run on a live page too.")]
_Json = Annotated[bool, typer.Option("--json", help="Print everything as lines of JSON.")]


def windowing(
    displayinterval: _Interval = 5.0,
    duration: _Duration = 120.0,
    master: _Master = None,
    maxrows: _Rows = 0,
    historyseconds: _History = 30.0,
    inline: _Inline = False,
    deletechunksize: _Chunk = 100,
    deleteyieldtime: _Yield = 100,
    ratelimit: _Rate = 15_000,
    averages: _Averages = "1,5,10,30",
    source: _Source = "random",
    clock: _Clock = None,
    seed: _Seed = 0,
    checkpoint: _Checkpoint = None,
    buckets: _Buckets = None,
    json_: _Json = False,
    page: _Page = True,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    token: Token = None,
) -> None:
    """Insert random tuples, delete old ones, follow the maximum, average over the last seconds.

    VoltDB's windowing application, on Spark.
    """
    with reported():
        table = source_of(source)
        which = clock or ("wall" if table is None else "event")
        options = Options(
            displayinterval=displayinterval,
            duration=duration,
            maxrows=maxrows,
            historyseconds=historyseconds,
            inline=inline,
            deletechunksize=deletechunksize,
            deleteyieldtime=deleteyieldtime,
            ratelimit=ratelimit,
            averages=_spans(averages),
            seed=seed,
            clock=which,  # type: ignore[arg-type]
            buckets=(os.cpu_count() or 1) if buckets is None else buckets,
        )
        reporter = Reporter(Console(), options, as_json=json_)
        with ExitStack() as stack:
            if page:
                reporter.page = _served(stack, options, host, port, token)
            _exit(reporter, finished=_run(options, reporter, master, table, checkpoint))


def _exit(reporter: Reporter, *, finished: bool) -> None:
    """Print the summary, and leave with what the exit code has to say."""
    summary = reporter.monitor.summary(time.monotonic())
    reporter.write(summary)
    if not finished:
        raise typer.Exit(130)
    if not summary.adds_up:
        raise typer.Exit(1)


def _spans(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(span) for span in text.split(",") if span.strip())
    except ValueError:
        hint = "give seconds, for example 1,5,10,30"
        raise OptionError("averages", text, "aren't numbers", hint) from None


def _served(
    stack: ExitStack, options: Options, host: str, port: int, token: str | None
) -> TablePage | None:
    """Serve the page, and say where; without its extra, say what to install and go on."""
    console = Console(stderr=True)
    try:
        from muntin.serve.server import Server
    except MissingExtraError as error:
        console.print(str(error), style="dim", highlight=False, markup=False, soft_wrap=True)
        return None
    feed = Feed()
    server = stack.enter_context(Server(feed, host, port, token))
    console.print(f"page     {server.address}", highlight=False, markup=False, soft_wrap=True)
    return TablePage(feed, options)


class Reporter:
    """Prints a run on a terminal, in plain lines, or in JSON."""

    def __init__(self, console: Console, options: Options, *, as_json: bool = False) -> None:
        self.console = console
        self.as_json = as_json
        self.live = console.is_terminal and not as_json
        self.monitor = Monitor(options)
        self.last: Any = None
        self.page: TablePage | None = None
        self._begun: float | None = None

    def took(self, batch: int, progress: list[TableProgress], written: int) -> None:
        """Take in a batch."""
        if self._begun is None:
            # Spark's start isn't part of the run.
            self._begun = time.monotonic()
            self.monitor.begin(self._begun)
        change = self.monitor.take(batch, progress, written)
        if self.page is not None:
            self.page.show(self.monitor, batch, progress, written, change)
        if change is not None and not self.live:
            self.write(change)

    def write(self, what: Any) -> None:
        """Print a report, a change or the summary."""
        if self.as_json:
            print(json.dumps(what.record()), flush=True)
            return
        lines = what.lines() if hasattr(what, "lines") else [str(what)]
        for line in lines:
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def report(self) -> None:
        """Print what has happened since the last report."""
        self.last = self.monitor.report(time.monotonic())
        if not self.live:
            self.write(self.last)

    @property
    def begun(self) -> bool:
        """Whether there was a batch."""
        return self._begun is not None

    @property
    def elapsed(self) -> float:
        """Seconds since the run began."""
        return 0.0 if self._begun is None else time.monotonic() - self._begun


def _run(
    options: Options, reporter: Reporter, master: str | None, table: Any, checkpoint: Path | None
) -> bool:
    """Run the application; returns whether it wasn't interrupted."""
    import muntin as mt
    from muntin.apps.windowing.query import start
    from muntin.spark.sources.tables import Surroundings, read

    Console(stderr=True).print("Starting Spark …", style="dim")
    spark = mt.session("muntin windowing", master=master)
    with ExitStack() as stack:
        stack.callback(spark.stop)
        folder = checkpoint or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="muntin-windowing-", ignore_cleanup_errors=True)
        )
        rows = None if table is None else read(spark, table, Surroundings({}, os.environ))
        query = start(spark, options, reporter.took, str(folder), rows)
        stack.callback(query.stop)
        try:
            follow(query, options, reporter)
        except KeyboardInterrupt:
            return False
        return True


def follow(query: Any, options: Options, reporter: Reporter) -> None:
    """Report each interval until the duration is over."""
    # Spark has things to say until then, which would tear a view apart.
    while query.is_active and not reporter.begun:
        time.sleep(0.1)
    with ExitStack() as stack:
        show: Callable[[], None] = _nothing
        if reporter.live:
            live = stack.enter_context(Live(console=reporter.console, refresh_per_second=4))
            show = lambda: live.update(view(reporter.monitor, reporter.last, reporter.elapsed))  # noqa: E731
        due = options.displayinterval
        while query.is_active and reporter.elapsed < options.duration:
            if reporter.elapsed >= due:
                reporter.report()
                due += options.displayinterval
            show()
            time.sleep(0.1)
        query.stop()
        reporter.report()
        show()
    failure = query.query.exception()
    if failure is not None:
        raise QueryFailedError(words(failure)) from failure


def _nothing() -> None:
    """Nobody looks."""
