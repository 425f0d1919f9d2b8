"""How an error is shown on the command line: in its own words where it is one of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from muntin.model.errors import MuntinError
from muntin.model.secrets import redacted

# An error raised in a worker comes back as text, at the end of a line of the worker's traceback.
_FROM_WORKER = re.compile(r"^\s*muntin\.[\w.]*Error: (.+)$", re.MULTILINE)


class QueryFailedError(MuntinError):
    """A query ended by an error; the message is that error's."""


def words(error: BaseException) -> str:
    """An error in as few words as say what to do."""
    text = redacted(str(error).strip())
    if isinstance(error, MuntinError):
        return text
    found = _FROM_WORKER.findall(text)
    return found[-1].strip() if found else text.partition("=== Streaming Query ===")[0].strip()


@contextmanager
def reported() -> Iterator[None]:
    """Print errors of muntin without a traceback and end with exit code 1."""
    try:
        yield
    except MuntinError as error:
        console = Console(stderr=True)
        console.print(
            f"[bold red]error[/] {_escaped(words(error))}", highlight=False, soft_wrap=True
        )
        raise typer.Exit(1) from error


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)
