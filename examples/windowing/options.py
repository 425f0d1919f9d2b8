"""The options of the application; names and defaults are those of VoltDB's client."""

from __future__ import annotations

from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import muntin as mt


@dataclass(frozen=True)
class About:
    """The meaning of an option, and its least value."""

    text: str
    least: float | None = None


@dataclass(frozen=True)
class Options:
    """The options.

    Raises:
        OptionError: When an option can't work.
    """

    displayinterval: Annotated[float, About("seconds between reports", 0.1)] = 5.0
    duration: Annotated[float, About("seconds to run", 0.1)] = 120.0
    maxrows: Annotated[int, About("rows to keep, of all partitions; 0 for no limit", 0)] = 0
    historyseconds: Annotated[float, About("seconds to keep a row; 0 for forever", 0)] = 30.0
    inline: Annotated[bool, About("delete in the transactions that insert")] = False
    deletechunksize: Annotated[int, About("rows of one deletion", 1)] = 100
    deleteyieldtime: Annotated[int, About("milliseconds that an idle deleter waits", 0)] = 100
    ratelimit: Annotated[int, About("tuples to insert per second", 1)] = 15_000
    averages: Annotated[str, About("seconds to average over")] = "1,5,10,30"
    seed: Annotated[int, About("seed of the random values", 0)] = 0
    partitions: Annotated[int, About("partitions of the table", 1)] = 2
    checkpoint: Annotated[Path | None, About("folder to keep the table in")] = None
    deletes: Annotated[Path | None, About("folder of requests to delete")] = None
    host: Annotated[str, About("local, or spark for averages and maximum alone")] = "local"
    json: Annotated[bool, About("print lines of JSON")] = False

    def __post_init__(self) -> None:
        for name, _, about in list_options():
            value, least = getattr(self, name), about.least
            if least is not None and not value >= least:
                hint = f"give {least} or more"
                raise mt.OptionError(name, value, f"is less than {least}", hint)
        if self.host not in ("local", "spark"):
            raise mt.OptionError("host", self.host, "is no host", "give local or spark")
        if not (self.maxrows or self.historyseconds or self.deletes):
            problem = "and maxrows=0 keep every row forever"
            hint = "give one of them, or deletes=FOLDER"
            raise mt.OptionError("historyseconds", 0, problem, hint)
        if any(seconds <= 0 for seconds in self.spans):
            hint = "give seconds, for example 1,5,10,30"
            raise mt.OptionError("averages", self.averages, "has no length of time", hint)

    @property
    def spans(self) -> tuple[float, ...]:
        """The seconds to average over."""
        try:
            return tuple(float(part) for part in self.averages.split(","))
        except ValueError:
            hint = "give seconds, for example 1,5,10,30"
            raise mt.OptionError("averages", self.averages, "aren't numbers", hint) from None


def list_options() -> list[tuple[str, Any, About]]:
    """Return the name, the type and the meaning of each option."""
    hints = get_type_hints(Options, include_extras=True).items()
    return [(name, hint.__origin__, hint.__metadata__[0]) for name, hint in hints]


def parse_options(arguments: Sequence[str]) -> Options:
    """Parse the command's arguments.

    Raises:
        OptionError: When an option can't work.

    Example:
        >>> parse_options(["--maxrows", "500", "--inline"]).maxrows
        500
    """
    about_all = "Insert tuples, delete the oldest, follow the greatest value, and average."
    parser = ArgumentParser("python -m examples.windowing", description=about_all)
    for name, kind, about in list_options():
        default = getattr(Options, name)
        more: dict[str, Any] = {"type": kind if isinstance(kind, type) else Path}
        if kind is bool:
            more = {"action": BooleanOptionalAction}
        text = about.text if default is None else f"{about.text} ({default})"
        parser.add_argument(f"--{name}", default=default, help=text, **more)
    return Options(**vars(parser.parse_args(arguments)))
