"""``muntin doctor``: checks the installation, and shows how to fix what is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import typer
from rich.console import Console

from muntin.cli.console import print_text, summarize_error

_JAVA = 17
_PYTHON = (3, 11)
_NEEDED = ("polars", "pyarrow", "numpy")
_SPARK = ("pyspark", "pandas", "google.protobuf")
# A module of each extra, and the purpose of the extra.
_EXTRAS = {
    "delta": ("deltalake", "the sink to_delta in one process"),
    "duckdb": ("duckdb", "the sink to_duckdb"),
    "kafka": ("confluent_kafka", "topics of Kafka in columns, and to_kafka"),
    "metrics": ("prometheus_client", "figures for Prometheus"),
    "postgres": ("psycopg", "the sink to_postgres"),
    "protobuf": ("google.protobuf", "payloads in Protobuf"),
    "rocks": ("rocksdict", "stores on disk without Spark"),
    "shell": ("prompt_toolkit", "muntin sql"),
    "sketches": ("datasketches", "quantile over many values"),
    "sql": ("sqlglot", "SQL and pipelines"),
    "tables": ("pydantic", "events of typed models"),
    "web": ("starlette", "muntin serve"),
}
_SIGNS = {True: "[green]✓[/]", False: "[bold red]✗[/]", None: "[dim]–[/]"}


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        name: Name of the checked part.
        good: Whether the check passed; ``None`` if an optional part is missing.
        detail: Details, such as a version.
        hint: Advice if the check failed.
    """

    name: str
    good: bool | None
    detail: str
    hint: str = ""


def doctor(
    quick: bool = typer.Option(False, "--quick", help="Don't start Spark."),
) -> None:
    """Check Java, Python, Spark and the extras, and show how to fix what is missing.

    The exit code is 0 if queries can run here, and 1 if they can't.
    """
    console, fit = Console(), True
    for finding in run_checks(quick):
        line = f"{_SIGNS[finding.good]} [bold]{finding.name}[/]  {finding.detail}"
        console.print(line, highlight=False)
        if finding.hint and not finding.good:
            print_text(console, f"    {finding.hint}")
        fit = fit and finding.good is not False
    if not fit:
        raise typer.Exit(1)


def run_checks(quick: bool) -> Iterator[Finding]:
    """Yield all findings, the fast checks first."""
    yield check_python()
    yield from check_libraries(_NEEDED, "--force-reinstall muntin")
    yield check_temporary_files()
    yield from check_spark_parts(quick)
    yield from check_extras()


def check_python() -> Finding:
    """Check the interpreter, which also runs the workers."""
    detail = f"{sys.version.split()[0]} at {sys.executable}"
    hint = f"use Python {_PYTHON[0]}.{_PYTHON[1]} or newer"
    return Finding("Python", sys.version_info >= _PYTHON, detail, hint)


def check_spark_parts(quick: bool) -> Iterator[Finding]:
    """Check Java and Spark, which only queries on Spark need."""
    if find_spec("pyspark") is None:
        hint = "for queries on Spark: pip install 'muntin[spark]'"
        yield Finding("Spark", None, "not installed; queries run in one process", hint)
        return
    yield from check_libraries(_SPARK, "'muntin[spark]'")
    home = check_java()
    yield home
    if not quick and home.good:
        yield run_spark()
    yield find_connector()
    yield describe_network()


def describe_network() -> Finding:
    """Explain who can reach a session; the settings of a cluster can't be checked from here."""
    hint = (
        "on a cluster set spark.authenticate=true and spark.network.crypto.enabled=true: what "
        "driver and executors exchange holds the passwords of sources"
    )
    return Finding("Network", None, "local sessions listen on 127.0.0.1 alone", hint)


def check_java() -> Finding:
    """Check the Java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else shutil.which("java")
    hint = (
        f"install Java {_JAVA} or newer (Debian: apt-get install openjdk-{_JAVA}-jre-headless), "
        "or set JAVA_HOME to one"
    )
    if program is None:
        return Finding("Java", False, "none found", hint)
    command = [program, "-XshowSettings:properties", "-version"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("Java", False, f"{program} can't be started: {error}", hint)
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", output)
    if version is None:
        return Finding("Java", False, f"{program} doesn't say its version", hint)
    good = int(version[1]) >= _JAVA
    return Finding("Java", good, f"{version[1]} at {program}", hint)


def check_libraries(names: Iterable[str], package: str) -> Iterator[Finding]:
    """Check libraries that ``pip install`` installs with a package."""
    for name in names:
        try:
            module = __import__(name, fromlist=["__version__"])
        except ImportError as error:
            yield Finding(name, False, str(error), f"pip install {package}")
        else:
            yield Finding(name, True, str(getattr(module, "__version__", "")))


def check_temporary_files() -> Finding:
    """Check the folder for temporary files, and for the Unix sockets of queries."""
    path = tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(dir=path):
            free = shutil.disk_usage(path).free / 2**30
    except OSError as error:
        return Finding("Temporary files", False, str(error), "set TMPDIR to a folder of yours")
    detail = f"{path}, {free:.0f} GiB free"
    return Finding("Temporary files", free > 1, detail, "free some space, or set TMPDIR to another")


def run_spark() -> Finding:
    """Run a window in a Spark session with a worker."""
    try:
        from muntin.spark.inspect.health import run_test_query

        detail = run_test_query()
    except Exception as error:
        hint = "read the lines above; a port, a proxy or SPARK_HOME of another Spark may be why"
        return Finding("Spark", False, summarize_error(error).partition("\n")[0], hint)
    return Finding("Spark", True, detail)


def check_extras() -> Iterator[Finding]:
    """Check the optional packages, one for each extra."""
    for extra, (module, purpose) in _EXTRAS.items():
        hint = f"pip install 'muntin[{extra}]'"
        yield Finding(f"extra {extra}", _is_installed(module) or None, purpose, hint)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # The package of the module isn't installed either.
        return False


def find_connector() -> Finding:
    """Check where Spark's Kafka connector would be loaded from."""
    jars = os.environ.get("MUNTIN_KAFKA_JARS")
    if jars is not None:
        good = any(Path(jars).glob("*.jar"))
        hint = "put the connector's jars there, or unset MUNTIN_KAFKA_JARS"
        return Finding("Kafka connector", good, f"MUNTIN_KAFKA_JARS is {jars}", hint)
    if shutil.which("mvn"):
        return Finding("Kafka connector", True, "fetched with mvn when it is needed")
    hint = (
        "set MUNTIN_KAFKA_JARS to a folder of its jars, install Maven, or use spark.jars.packages"
    )
    return Finding("Kafka connector", None, "not found; only Kafka needs it", hint)
