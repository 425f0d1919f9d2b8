"""muntin: windows for streams, on Spark, from Python.

A DataFrame goes in, windows come out: early, full and late, on panes that are shared by all
windows, in state that a query can be restarted from.
"""

import ast
from importlib import import_module
from pkgutil import get_data
from typing import Any

from muntin.model.aggregates import NAMES as _AGGREGATES
from muntin.model.aggregates import called_here as _called_here

# Where the public names are. A module is imported at the first use of its name, so that each can be
# used where the others' libraries aren't: the model, the tables and the standalone operators need
# no pyspark.
_FOUND = dict.fromkeys(_AGGREGATES, "muntin.model.aggregates") | {
    alias.name: str(statement.module)
    for statement in ast.parse(get_data(__name__, "__init__.pyi") or b"").body
    if isinstance(statement, ast.ImportFrom)
    for alias in statement.names
    if alias.name != "*"
}
__all__ = list(_FOUND)


def __getattr__(name: str) -> Any:
    # SQL's package is what is called, too.
    if _FOUND.get(name) == "muntin" or name == "sql":
        return import_module(f"muntin.{name}")
    if name in _FOUND:
        return getattr(import_module(_FOUND[name]), name)
    here = _called_here(name)
    hint = f"; it is muntin.{here} here" if here else ""
    raise AttributeError(f"module 'muntin' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted(__all__)
