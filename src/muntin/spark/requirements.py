"""Whether this Python has the Spark that queries on Spark need."""

from __future__ import annotations

import re
from importlib.util import find_spec

from muntin.model.errors import MissingExtraError, SettingError

# From the first to before the second; tested are those of scripts/sparks.
_VERSIONS = ((4, 1), (5, 0))
_MODULES = ("pyspark", "pandas", "google.protobuf")


def check_spark() -> None:
    """Refuse a Python without Spark, or with one that is too old or too new.

    A managed platform brings a Spark of its own; it is looked at, and never replaced.

    Raises:
        MissingExtraError: When Spark, or what it needs for state in Python, isn't installed.
        SettingError: When this Spark is another than muntin is made for.
    """
    for name in _MODULES:
        if not _is_installed(name):
            raise MissingExtraError("a query on Spark", "spark")
    from pyspark.version import __version__

    numbers = re.match(r"(\d+)\.(\d+)", __version__)
    if numbers is not None:
        version = (int(numbers[1]), int(numbers[2]))
        if not _VERSIONS[0] <= version < _VERSIONS[1]:
            raise SettingError(
                f"this Python has Spark {__version__}, and muntin runs on Spark 4.1 to 4.3; "
                "install another: pip install 'muntin[spark]'"
            )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # nor is the package that it is in
        return False
