"""``muntin sql``: a shell for SQL statements that shows rows as they are emitted."""

from __future__ import annotations

import re
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from muntin.cli.console import (
    open_session,
    print_text,
    report_errors,
    show_error,
    write_details,
)
from muntin.cli.lines import Lines, RowFormat
from muntin.cli.pipelines import HostOption
from muntin.cli.rows import ROW_LIMIT, LiveRows
from muntin.dataframe.host import Host
from muntin.engine.columns import REASON
from muntin.explain.flows import describe_query
from muntin.hosts.interrupts import Interruption, watch_signals
from muntin.hosts.local.definition import LocalDefinition
from muntin.model.axis import format_duration
from muntin.model.counts import format_rejections
from muntin.model.errors import OptionError
from muntin.model.pipeline import DeclaredTable
from muntin.sinks.plain import list_plain_rows

if TYPE_CHECKING:
    from muntin.sql.script import CompiledQuery

_HELP = """Statements end with a semicolon: CREATE TABLE, CREATE VIEW, SET, SELECT, EXPLAIN SELECT.
A SELECT over streams runs until Ctrl-C. Also: tables, describe TABLE, help, exit."""
# Wider than any row: output that isn't read on a terminal isn't cut.
_WHOLE = 1_000_000
_LEAVE = {"exit", "quit", "\\q"}


def open_shell(
    execute: Annotated[
        list[str] | None,
        typer.Option("--execute", "-e", metavar="SQL", help="Run these statements, then exit."),
    ] = None,
    host: HostOption = None,
    until_quiet: Annotated[
        bool, typer.Option(help="Stop each SELECT once it has read all available input.")
    ] = False,
    format_: Annotated[
        RowFormat,
        typer.Option(
            "--format", help="Print a table of the newest rows, or a line for each emitted row."
        ),
    ] = RowFormat.TABLE,
) -> None:
    """Open an interactive SQL shell for streams.

    A SELECT over Kafka, files and ticks runs in this process, without Spark.
    Without a terminal, the shell reads statements from the standard input and
    prints values in full.
    """
    console = Console(stderr=format_ is not RowFormat.TABLE)
    quiet = until_quiet or not (console.is_terminal and sys.stdout.isatty())
    if not console.is_terminal:
        console.width = _WHOLE
    with (
        report_errors(),
        closing(Shell(console, host=host, until_quiet=quiet, form=format_)) as shell,
    ):
        if execute:
            for text in execute:
                shell.run(text)
        elif sys.stdin.isatty():
            converse(shell)
        else:
            shell.run(sys.stdin.read())


class Shell:
    """The definitions of a shell so far, and the session that runs its queries.

    Args:
        console: Console for rows and errors.
        spark: Session; started at the first query that needs one by default.
        host: Host of all queries; by default their inputs decide.
        until_quiet: Whether a query stops once it has read all available input.
        form: Format of rows: a table on the console, or lines on the standard output.
    """

    def __init__(
        self,
        console: Console,
        spark: Any = None,
        *,
        host: Host | None = None,
        until_quiet: bool = False,
        form: RowFormat = RowFormat.TABLE,
    ) -> None:
        from muntin.sql import api

        self.console = console
        self.until_quiet = until_quiet
        self.form = form
        self._spark = spark
        self._host = host or (None if spark is None else "spark")
        self._stack = ExitStack()
        self.definitions = api.Definitions()

    @property
    def names(self) -> list[str]:
        """The names of tables and views."""
        catalog = self.definitions.catalog
        return [table.name for table in catalog.tables.values()] + list(catalog.views)

    @property
    def columns(self) -> list[str]:
        """The names of all tables' columns."""
        tables = self.definitions.catalog.tables.values()
        return list(dict.fromkeys(name for table in tables for name in _list_columns(table)))

    def run(self, text: str) -> None:
        """Run some statements.

        Raises:
            MuntinError: When a statement can't be run; those before it were run.
        """
        from muntin.sql import api

        for statement in api.split_statements(text):
            command = statement.strip().rstrip(";").strip().lower()
            verb, _, name = command.partition(" ")
            if command in ("tables", "show tables"):
                print_text(self.console, "\n".join(self.names) or "no tables yet")
            elif verb in ("describe", "desc"):
                print_text(self.console, self._describe_table(name.strip("` ")))
            elif command == "help":
                print_text(self.console, _HELP)
            else:
                self._answer(api.compile_input(statement, self.definitions))

    def _describe_table(self, name: str) -> str:
        """Return the declared columns of a table, one a line."""
        table = self.definitions.catalog.tables.get(name)
        if table is None:
            hint = f"the tables are {', '.join(self.names) or 'none yet'}"
            raise OptionError("DESCRIBE", name, "isn't a table of CREATE TABLE", hint)
        from muntin.sql.expression_types import parse_ddl_columns

        declared = parse_ddl_columns(table.columns) if table.columns else {}
        lines = [f"{column} {kind}" for column, kind in declared.items()]
        lines += [f"{column.name} AS {column.text}" for column in table.computed]
        if (time := table.marks.time) is not None:
            lines.append(f"WATERMARK {format_duration(table.marks.lateness)} behind {time}")
        return "\n".join(lines) or "no declared columns"

    def _answer(self, question: CompiledQuery | None) -> None:
        from muntin.dataframe.sql import choose_statement_host

        if question is None:
            return
        if question.explain:
            local = choose_statement_host(question, None, {}, self._host) == "local"
            text = describe_query(question.lowered.query, question.tables, local=local)
            print_text(self.console, text)
        else:
            self._run_select(question)

    def _run_select(self, question: CompiledQuery) -> None:
        definition, columns, is_stream = self._bind(question)
        rows = None
        if self.form is RowFormat.TABLE:
            rows = LiveRows(columns, 30 if self.console.is_terminal else ROW_LIMIT)
        lines = Lines(sys.stdout, self.form, columns)
        if is_stream:
            with tempfile.TemporaryDirectory(prefix="muntin-sql-") as folder:
                self._watch(definition.start(checkpoint=folder, results=rows or lines.take), rows)
            return
        results = definition.results
        if rows is None:
            lines.take(results)
        else:
            # Each row of a whole input is emitted once.
            table = results.toArrow() if hasattr(results, "toArrow") else results.to_arrow()
            rows.take(list_plain_rows(table), None)
            self.console.print(rows.table())
        if isinstance(definition, LocalDefinition):
            self._show_rejected(Counter(definition.rejected[REASON]))

    def _bind(self, question: CompiledQuery) -> tuple[Any, list[str], bool]:
        """Return a query, the columns of its results, and whether it reads a stream."""
        from muntin.dataframe.sql import bind_locally, choose_statement_host

        if choose_statement_host(question, None, {}, self._host) == "local":
            local = bind_locally(question, {})
            return local, [*local.plan.output_schema], local.plan.reads_streams
        if self._spark is None:
            self._spark = self._stack.enter_context(
                open_session(self.console, "muntin sql", quits=False)
            )
        from muntin.spark.statements import bind_statement

        on_spark = bind_statement(self._spark, question, {})
        return on_spark, on_spark.results.columns, on_spark.plan.output.isStreaming

    def _watch(self, query: Any, rows: LiveRows | None) -> None:
        """Show a streaming query's rows until it ends, or Ctrl-C."""
        try:
            with watch_signals() as interruption:
                self._follow(query, rows, interruption)
            if interruption.signal == signal.SIGTERM:
                raise typer.Exit(interruption.exit_code)
            if interruption.signal is not None:
                self.console.print("Stopped", style="dim")
        finally:
            query.stop()
        self._show_rejected(query.progress.counts)

    def _show_rejected(self, counts: Mapping[str, int]) -> None:
        if rejected := format_rejections(counts):
            self.console.print(f"rejected: {rejected}", highlight=False)

    def _follow(self, query: Any, rows: LiveRows | None, interruption: Interruption) -> None:
        if self.console.is_terminal and rows is not None:
            with Live(console=self.console, refresh_per_second=4) as live:
                while query.is_active and interruption.signal is None:
                    if self.until_quiet and query.await_idle(0.2):
                        break
                    live.update(rows.table())
                    query.await_end(0.2)
                live.update(rows.table())
            return
        while query.is_active and interruption.signal is None:
            if not self.until_quiet:
                query.await_end(0.5)
            elif query.await_idle(0.5):
                break
        if rows is not None:
            self.console.print(rows.table())

    def close(self) -> None:
        """Stop the session, if the shell started it."""
        self._stack.close()


def _list_columns(table: DeclaredTable) -> list[str]:
    declared = re.findall(r"(?:^|, )`((?:[^`]|``)+)` ", table.columns or "")
    return [*declared, *(column.name for column in table.computed)]


def converse(shell: Shell) -> None:
    """Read statements from a person at a terminal."""
    from muntin.cli.prompt import make_prompt

    ask = make_prompt(shell)
    print_text(shell.console, _HELP, "dim")
    while True:
        try:
            text = ask()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text.strip().rstrip(";").strip().lower() in _LEAVE:
            return
        try:
            shell.run(text)
        except Exception as error:  # one mistake of Spark, too, doesn't end the shell
            show_error(shell.console, error, write_details(error))
