"""muntin: event-time windows for Python, fast and exactly-once, on Spark or in one process.

A stream or a frame goes in, windows come out: early, full and late, on panes that are shared by all
windows, in state that a query can be restarted from.
"""

import ast as _ast
import sys as _sys
from importlib import import_module as _import_module
from pkgutil import get_data as _get_data
from types import ModuleType as _ModuleType
from typing import Any as _Any

from muntin.model.aggregates import NAMES as _AGGREGATES
from muntin.model.aggregates import translate_name as _called_here

# The modules of the public names. A module is imported at the first use of its name, so that each
# can be used where the others' libraries aren't installed: one process needs no pyspark.
_MODULES = dict.fromkeys(_AGGREGATES, "muntin.model.aggregates") | {
    alias.name: str(statement.module)
    for statement in _ast.parse(_get_data(__name__, "__init__.pyi") or b"").body
    if isinstance(statement, _ast.ImportFrom)
    for alias in statement.names
    if alias.name != "*"
}
__all__ = list(_MODULES)
# Sinks and sources by the names that other libraries suggest.
_OTHER_NAMES = {
    **dict.fromkeys(("to_console", "to_stdout", "to_screen"), "to_print"),
    **dict.fromkeys(("to_jdbc", "to_sql", "to_database"), "to_postgres"),
    **dict.fromkeys(("from_kafka", "read_kafka", "kafka_source"), "kafka"),
    **dict.fromkeys(("read_parquet", "read_csv", "read_json", "from_files"), "files"),
    **dict.fromkeys(("merge_asof", "join_asof"), "join(…, as_of=True)"),
    **dict.fromkeys(("from_pandas", "from_polars", "from_arrow"), "windowed(frame, …)"),
    "window": "windowed",
}


def __getattr__(name: str) -> _Any:
    if _MODULES.get(name) == "muntin":
        return _import_module(f"muntin.{name}")
    if name in _MODULES:
        return getattr(_import_module(_MODULES[name]), name)
    here = _called_here(name) or _OTHER_NAMES.get(name)
    hint = f"; it is muntin.{here} here" if here else ""
    raise AttributeError(f"module 'muntin' has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted(__all__)


def load_ipython_extension(shell: _Any) -> None:
    """Register the magic of `%load_ext muntin`."""
    shell.register_magics(_import_module("muntin.dataframe.notebook").MuntinMagics)


class _Package(_ModuleType):
    """The package, in which ``sql`` is a function though there is a package of that name, too."""

    @property
    def sql(self) -> _Any:
        return __getattr__("sql")

    @sql.setter
    def sql(self, package: _ModuleType) -> None:
        """Pass over what the import system sets when it has imported ``muntin.sql``."""


_sys.modules[__name__].__class__ = _Package
