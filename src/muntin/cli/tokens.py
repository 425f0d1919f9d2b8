"""Access tokens of servers, as options of commands."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Annotated

import typer

from muntin.hosts.interrupts import say_on_stderr
from muntin.model.errors import OptionError

Token = Annotated[
    str | None,
    typer.Option(help="Access token required to view the page. Use 'new' to generate one."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(help="File to read the access token from, so that 'ps' doesn't show it."),
]


def read_token(token: str | None, file: Path | None) -> str | None:
    """Return the access token from the option or from a file.

    Raises:
        OptionError: When both are passed, or the file has none.
    """
    if file is None:
        return token
    if token is not None:
        raise OptionError(
            "token-file", str(file), "can't be combined with --token", "leave one out"
        )
    try:
        with file.open() as opened:
            mode = os.fstat(opened.fileno()).st_mode
            text = opened.read().strip()
    except (OSError, ValueError) as error:
        problem = f"can't be read: {getattr(error, 'strerror', None) or error}"
        raise OptionError("token-file", str(file), problem, "name a file") from error
    if not text or len(text.split()) > 1:
        raise OptionError("token-file", str(file), "holds no token", "write one word into it")
    if mode & stat.S_IROTH:
        say_on_stderr(f"--token-file {file} can be read by every user of this machine; chmod 600")
    return text
