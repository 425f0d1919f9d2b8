"""Reads pipeline files by their suffix."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from muntin.model.errors import MuntinError, OptionError
from muntin.model.pipeline import Pipeline
from muntin.model.placeholders import placeholder_names

SUFFIXES = (".sql", ".toml")


def read_pipeline(
    path: Path,
    variables: Mapping[str, str],
    *,
    requires_all: bool = True,
    problems: list[MuntinError] | None = None,
) -> Pipeline:
    """Read the pipeline of a file of SQL statements (``.sql``) or of TOML (``.toml``).

    ``variables`` are the values of ``--set``. Without ``requires_all``, placeholders without one
    stay in the texts, which is enough to explain the pipeline. ``problems`` collects the errors of
    statements and entries, which are then left out; ``None`` raises them.
    """
    if not path.is_file():
        hint = f"give the path of a file that ends with {', '.join(SUFFIXES)} or .py"
        raise OptionError("PIPELINE", str(path), "isn't a file", hint)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or "it isn't text in UTF-8"
        hint = "give a file of SQL or TOML that this user can read"
        raise OptionError("PIPELINE", str(path), f"can't be read: {problem}", hint) from error
    placeholders = placeholder_names(text)
    for name in variables:
        if name not in placeholders:
            hint = (
                f"its placeholders are {', '.join(sorted(placeholders))}"
                if placeholders
                else "it has no placeholders"
            )
            raise OptionError("--set", name, f"isn't a placeholder of {path.name}", hint)
    missing = sorted(placeholders - variables.keys())
    if missing and requires_all:
        hint = "give " + " ".join(f"--set {name}=..." for name in missing)
        raise OptionError("--set", None, f"lacks {', '.join(missing)}", hint)
    values = {name: f"${{{name}}}" for name in missing} | dict(variables)
    if path.suffix == ".sql":
        from muntin.sql import api

        return api.compile_pipeline(text, values, problems)
    from muntin.pipelines.toml import parse_pipeline

    return parse_pipeline(text, values, problems)
