"""The command ``muntin``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from muntin.cli.init import fork_below_init
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
    from muntin.cli.flags import PlainCommand, PlainGroup, options

    app = typer.Typer(
        cls=PlainGroup,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_show_locals=False,
    )
    app.callback()(options)
    for name, (command, arguments) in _list_commands().items():
        example = f"Example: muntin {name} {arguments}".rstrip()
        app.command(name, cls=PlainCommand, epilog=example)(command)
    return app


def _list_commands() -> dict[str, tuple[Callable[..., None], str]]:
    """Return the commands by name, each with the arguments of an example."""
    from muntin.cli.doctor import doctor
    from muntin.cli.explain import check_file, explain_pipeline, print_schema
    from muntin.cli.inspect import inspect
    from muntin.cli.move import move_checkpoint
    from muntin.cli.new import create_project
    from muntin.cli.rescale import rescale_checkpoint
    from muntin.cli.reset import set_watermark_back
    from muntin.cli.run import run_pipeline
    from muntin.cli.serve import serve
    from muntin.cli.shell import open_shell
    from muntin.cli.warm import warm
    from muntin.cli.why import why

    return {
        "new": (create_project, "clicks"),
        "run": (run_pipeline, "views.sql --set data=clicks/ --until-quiet"),
        "doctor": (doctor, "--quick"),
        "check": (check_file, "views.sql --set data=clicks/"),
        "explain": (explain_pipeline, "views.sql --rate 1000 --keys 50"),
        "schema": (print_schema, "> pipeline.schema.json"),
        "inspect": (inspect, "checkpoints/views --key home"),
        "move": (move_checkpoint, "checkpoints/views checkpoints/views-spark --to spark"),
        "rescale": (rescale_checkpoint, "checkpoints/views --shards 8"),
        "reset-watermark": (
            set_watermark_back,
            "checkpoints/views --to 2026-01-01T09:10 --dry-run",
        ),
        "serve": (serve, "views.sql --set data=clicks/"),
        "sql": (open_shell, "--format csv < report.sql > report.csv"),
        "warm": (warm, ""),
        "why": (why, 'checkpoints/views --key home --at "2026-01-01 09:04:00"'),
    }


def main() -> None:
    """Run the command line."""
    fork_below_init()
    try:
        app = build()
    except MissingExtraError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    app()
