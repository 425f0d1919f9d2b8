"""Commands whose help shows no type for flags, which take no value."""

from __future__ import annotations

from typing import Any

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
