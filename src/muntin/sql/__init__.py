"""SQL for windows: read with sqlglot, lowered to the same values as the Python sentence.

Nothing here computes anything, and nothing here knows Spark. What can't be run is refused by an
``SqlError`` at its place. ``muntin.sql.door`` is what the rest of the package calls;
``muntin.sql(...)`` is ``muntin.spark.statements.sql``.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """The package, which users know as a function."""

    def __call__(self, source: Any, statement: str = "", /, **tables: Any) -> Any:
        """See ``muntin.spark.statements.sql``."""
        # Spark's door stands above this one, and is opened at the first use.
        return import_module("muntin.spark.statements").sql(source, statement, **tables)


sys.modules[__name__].__class__ = _Callable
