"""Flags of the command line: their types in the help, and ``--version``."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup


def hide_flag_types(params: list[Any]) -> list[Any]:
    """Leave the type of each flag out of the help: ``--json``, not ``--json <bool>``."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return params


class PlainCommand(TyperCommand):
    """A command whose help shows no type for flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments, with the option for help."""
        return hide_flag_types(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group of commands whose help shows no type for flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments, with the option for help."""
        return hide_flag_types(super().get_params(ctx))


def _print(wanted: bool) -> None:
    if wanted:
        print(f"muntin {version('muntin')}")
        raise typer.Exit


def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Event-time windows for streams, in one process or on Spark."""
