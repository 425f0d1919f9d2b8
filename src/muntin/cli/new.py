"""``muntin new``: writes a small project: a query, its input, a test, a Dockerfile and a README."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from muntin.cli.console import print_text, report_errors
from muntin.model.errors import OptionError

# Python of the project isn't a part of this package.
_SUFFIX = ".txt"


def create_project(
    folder: Annotated[Path, typer.Argument(help="Folder of the project; it must not exist.")],
) -> None:
    """Write a small project: a query over files, a test, a Dockerfile, and a README.

    It runs as it is, without Spark.
    """
    with report_errors():
        if folder.exists():
            hint = "give the name of a new folder"
            raise OptionError("FOLDER", str(folder), "exists already", hint)
        words = {"PROJECT": folder.name, "VERSION": version("muntin")}
        _copy(files("muntin.cli") / "project", folder, words)
    written = sorted(str(path) for path in folder.rglob("*") if path.is_file())
    print_text(Console(), "\n".join(f"wrote {path}" for path in written))
    print_text(Console(), f"Run it: cd {folder} && python views.py")


def _copy(source: Traversable, target: Path, words: Mapping[str, str]) -> None:
    """Copy a folder of the package, with the words in its texts replaced."""
    target.mkdir(parents=True)
    for entry in source.iterdir():
        path = target / entry.name.removesuffix(_SUFFIX)
        if entry.is_dir():
            _copy(entry, path, words)
        else:
            text = entry.read_text(encoding="utf-8")
            for word, value in words.items():
                text = text.replace(word, value)
            path.write_text(text, encoding="utf-8")
