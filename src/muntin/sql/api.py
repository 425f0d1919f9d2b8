"""The functions that other packages call; importing them needs the extra ``sql``.

They are defined in ``muntin.sql.script`` and ``muntin.sql.aggregates``, which import sqlglot.
"""

from __future__ import annotations

from muntin.model.errors import MissingExtraError

try:
    from muntin.sql.aggregates import compile_aggregate
    from muntin.sql.script import (
        Definitions,
        compile_input,
        compile_pipeline,
        compile_query,
        split_statements,
    )
except ModuleNotFoundError as error:
    if error.name is None or not error.name.startswith("sqlglot"):
        raise
    raise MissingExtraError("SQL for windows", "sql") from error

__all__ = [
    "Definitions",
    "compile_aggregate",
    "compile_input",
    "compile_pipeline",
    "compile_query",
    "split_statements",
]
