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
    whole: bool = True,
    problems: list[MuntinError] | None = None,
) -> Pipeline:
    """Read the pipeline of a file.

    Args:
        path: A file of SQL statements (``.sql``) or of TOML (``.toml``).
        variables: Values of ``--set``.
        whole: Whether all placeholders of the file must have values; otherwise those without one
            stay as they are, which is enough to explain the pipeline.
        problems: Collects the mistakes of statements and entries, which are left out of the
            pipeline; ``None`` raises them.

    Raises:
        OptionError: When the file is missing, or the values don't fit it.
        SqlError: When a statement can't be run.
        PipelineFileError: When an entry is wrong.
        ProblemsError: When several statements or entries are wrong.
        MissingExtraError: When the extra ``sql`` isn't installed.
    """
    if not path.is_file():
        hint = f"give the path of a file that ends with {', '.join(SUFFIXES)} or .py"
        raise OptionError("PIPELINE", str(path), "isn't a file", hint)
    text = path.read_text(encoding="utf-8")
    placeholders = placeholder_names(text)
    for name in variables:
        if name not in placeholders:
            hint = (
                f"it asks for {', '.join(sorted(placeholders))}"
                if placeholders
                else "it asks for nothing"
            )
            raise OptionError("--set", name, f"isn't asked for by {path.name}", hint)
    missing = sorted(placeholders - variables.keys())
    if missing and whole:
        hint = "give " + " ".join(f"--set {name}=..." for name in missing)
        raise OptionError("--set", None, f"lacks {', '.join(missing)}", hint)
    values = {name: f"${{{name}}}" for name in missing} | dict(variables)
    if path.suffix == ".sql":
        from muntin.sql import api

        return api.compile_pipeline(text, values, problems)
    from muntin.pipelines.toml import pipeline

    return pipeline(text, values, problems)
