"""The command ``muntin``."""

from __future__ import annotations

import sys
from collections.abc import Callable
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
    from muntin.cli.explain import check_file, explain_pipeline, schema
    from muntin.cli.flags import PlainCommand, PlainGroup
    from muntin.cli.inspect import inspect
    from muntin.cli.move import move_checkpoint
    from muntin.cli.rescale import rescale_checkpoint
    from muntin.cli.reset import set_watermark_back
    from muntin.cli.run import run_pipeline
    from muntin.cli.serve import serve
    from muntin.cli.shell import open_shell
    from muntin.cli.version import options
    from muntin.cli.warm import warm
    from muntin.cli.why import why

    app = typer.Typer(
        cls=PlainGroup,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_show_locals=False,
    )
    commands: dict[str, Callable[..., None]] = {
        "run": run_pipeline,
        "doctor": doctor,
        "check": check_file,
        "explain": explain_pipeline,
        "schema": schema,
        "inspect": inspect,
        "move": move_checkpoint,
        "rescale": rescale_checkpoint,
        "reset-watermark": set_watermark_back,
        "serve": serve,
        "sql": open_shell,
        "warm": warm,
        "why": why,
    }
    app.callback()(options)
    for name, command in commands.items():
        app.command(name, cls=PlainCommand)(command)
    return app


def main() -> None:
    """Run the command line."""
    try:
        app = build()
    except MissingExtraError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    app()
