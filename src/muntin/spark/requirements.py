"""Checks that this Python has a version of Spark that queries on Spark support."""

from __future__ import annotations

import re
from importlib.util import find_spec

from muntin.model.errors import MissingExtraError, SettingError

# The first supported version, and the first unsupported one; scripts/sparks lists the tested ones.
_VERSIONS = ((4, 1), (5, 0))
_MODULES = ("pyspark", "pandas", "google.protobuf")


def check_spark() -> None:
    """Refuse a Python without Spark, or with one that is too old or too new.

    A managed platform has a Spark of its own, which is checked and never replaced.
    """
    for name in _MODULES:
        if not _is_installed(name):
            raise MissingExtraError(f"a query on Spark ({name} isn't installed)", "spark")
    from pyspark.version import __version__

    numbers = re.match(r"(\d+)\.(\d+)", __version__)
    if numbers is not None:
        version = (int(numbers[1]), int(numbers[2]))
        if not _VERSIONS[0] <= version < _VERSIONS[1]:
            raise SettingError(
                f"Spark {__version__} is installed, but muntin needs Spark 4.1 to 4.3. "
                "Run: pip install 'muntin[spark]'"
            )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the package that contains it isn't installed
        return False
