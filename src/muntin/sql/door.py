"""The functions that the rest of the package calls; importing them needs the extra ``sql``.

They are defined in ``muntin.sql.script``, and ``alone`` in ``muntin.sql.aggregates``.
"""

from __future__ import annotations

from muntin.model.errors import MissingExtraError

try:
    from muntin.sql.aggregates import alone as aggregate
    from muntin.sql.script import Definitions, pipeline, question, split, step
except ModuleNotFoundError as error:
    if error.name is None or not error.name.startswith("sqlglot"):
        raise
    raise MissingExtraError("SQL for windows", "sql") from error

__all__ = ["Definitions", "aggregate", "pipeline", "question", "split", "step"]
