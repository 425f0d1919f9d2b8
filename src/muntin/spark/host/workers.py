"""Whether the workers' Python has what a query needs, asked before its first batch.

Spark itself would say that a module isn't there under a hundred lines of Java.
"""

from __future__ import annotations

import json
import logging
import sys
from importlib.metadata import PackageNotFoundError, distributions, version
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from muntin.model.errors import SettingError
from muntin.spark.host.internals.jvm import JvmError, shares_python, workers_of

_LOG = logging.getLogger(__name__)
# What the workers' processes import, beside Spark.
_NEEDED = ("muntin", "polars", "pyarrow", "pandas", "google.protobuf")
_PACKAGES = {"google.protobuf": "protobuf"}
# What Spark says where the workers' Python is another one, or none.
_OTHERS = (
    "No module named",
    "ModuleNotFoundError",
    "PYTHON_VERSION_MISMATCH",
    "Cannot run program",
)
_ASKED: set[str] = set()


def check_workers(spark: SparkSession) -> None:
    """Refuse workers that lack what a query needs; they are asked once a session.

    Raises:
        SettingError: Naming what is missing, in which Python, and what to do.
    """
    known = workers_of(spark)
    if known in _ASKED or (shares_python(spark) and _is_installed()):
        return
    asked = F.udf(_look, "string", useArrow=False)
    try:
        row = spark.range(1).select(asked(F.lit(json.dumps(_NEEDED)))).first()
    except (PySparkException, JvmError) as error:
        if any(words in str(error) for words in _OTHERS):
            raise SettingError(_refusal("another Python", "what a query needs")) from error
        raise
    assert row is not None
    found = json.loads(row[0])
    missing = [_PACKAGES.get(name, name) for name, there in found["modules"].items() if not there]
    if missing:
        raise SettingError(_refusal(found["python"], ", ".join(missing)))
    _warn(found)
    _ASKED.add(known)


def _is_installed() -> bool:
    """Whether every process of this Python finds muntin: then there is nothing to ask."""
    return bool(list(distributions(name="muntin")))


def _refusal(python: str, missing: str) -> str:
    return (
        f"the workers run {python}, which lacks {missing}; before the session starts, set "
        f"os.environ['PYSPARK_PYTHON'] = {sys.executable!r} (on a cluster, the Python there that "
        "has muntin), or start the session with muntin.session()"
    )


def _warn(found: dict[str, Any]) -> None:
    """Say where the workers have other versions than this process."""
    for name, theirs in found["modules"].items():
        package = _PACKAGES.get(name, name)
        try:
            ours = version(package)
        except PackageNotFoundError:
            continue
        if theirs not in (ours, "?"):
            _LOG.warning("The workers have %s %s, this process has %s", package, theirs, ours)


def _look(names: str) -> str:
    """Which modules a worker can import; knows nothing of this package, which may be missing."""
    import json
    import sys
    from importlib import import_module, metadata

    found: dict[str, str | None] = {}
    for name in json.loads(names):
        try:
            import_module(name)
        except ImportError:
            found[name] = None
            continue
        try:
            found[name] = metadata.version("protobuf" if name == "google.protobuf" else name)
        except metadata.PackageNotFoundError:
            found[name] = "?"
    return json.dumps({"python": sys.executable, "modules": found})


# So it is sent as it is, and not by the name of its module.
_look.__module__ = "__main__"
