"""The command ``muntin``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from muntin.model.errors import MissingExtraError

if TYPE_CHECKING:
    import typer


def build() -> typer.Typer:
    """Build the command line application with all of its commands."""
    try:
        import rich  # noqa: F401
        import typer
    except ImportError as error:
        raise MissingExtraError("the command muntin", "cli") from error
    from muntin.cli.doctor import doctor
    from muntin.cli.explain import check, explain, schema
    from muntin.cli.flags import PlainCommand, PlainGroup
    from muntin.cli.inspect import inspect
    from muntin.cli.move import move
    from muntin.cli.rescale import rescale
    from muntin.cli.run import run
    from muntin.cli.serve import serve
    from muntin.cli.shell import sql
    from muntin.cli.version import options
    from muntin.cli.warm import warm
    from muntin.cli.why import why
    from muntin.cli.windowing import windowing
    from muntin.cli.windowing_delete import delete

    app = typer.Typer(
        cls=PlainGroup,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_show_locals=False,
    )
    app.callback()(options)
    looks = (doctor, check, explain, schema, inspect, move, rescale, serve, sql, warm, why)
    for command in (run, *looks):
        app.command(cls=PlainCommand)(command)
    table = typer.Typer(cls=PlainGroup)
    table.callback(invoke_without_command=True)(windowing)
    table.command(cls=PlainCommand)(delete)
    app.add_typer(table, name="windowing")
    return app


def main() -> None:
    """Run the command line."""
    try:
        app = build()
    except MissingExtraError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    app()
