"""The executors of a cluster, asked before the first batch and whenever others have joined.

Each has to run the driver's build of muntin in the driver's Python, and has to share the folders
that the query writes: rows that an executor writes to a disk of its own are lost to everybody else.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from muntin.model.errors import SettingError
from muntin.spark.host.internals.hadoop_path import HadoopPath
from muntin.spark.host.internals.jvm import executors_of, is_connected, runs_in_driver

NEEDED = ("muntin", "polars", "pyarrow", "pandas", "google.protobuf")
"""The modules that workers' processes import, beside Spark."""
_PACKAGES = {"google.protobuf": "protobuf", "confluent_kafka": "confluent-kafka"}
# Tasks a round for each executor, how long each holds its slot, and how many rounds there are.
_TASKS, _HOLDS, _ROUNDS = 2, 0.2, 5
_WAITS = 30.0
_LOST = re.compile(r"\(TID \d+\) \(([^ )]+) executor")
_VERSIONS = re.compile(r"Python in worker has different version: ([\d.]+)")
_CANNOT_RUN = re.compile(r'Cannot run program "([^"]+)"')


@dataclass(frozen=True)
class Answer:
    """What the Python of an executor says.

    Attributes:
        host: Its machine.
        executor: Distinguishes it from the other executors of its machine.
        python: The interpreter.
        modules: The version of each module; ``None`` where it is missing.
        build: The fingerprint of muntin there; empty where muntin is missing.
        unread: Folders in which it doesn't find the driver's file.
        written: The file that it has written into each folder; empty where it couldn't.
    """

    host: str
    executor: int
    python: str
    modules: dict[str, str | None]
    build: str
    unread: list[str]
    written: dict[str, str]


class Executors:
    """Those that a query may run on.

    Args:
        spark: A session.
        folders: What the query writes: its checkpoint, and the folders of its sinks.
        modules: More modules that tasks import.
    """

    def __init__(
        self, spark: SparkSession, folders: Sequence[str] = (), modules: Sequence[str] = ()
    ) -> None:
        self._spark = spark
        self._modules = (*NEEDED, *modules)
        self._asked: frozenset[str] = frozenset()
        # A session with a local master has none but itself.
        self._exist = not is_connected(spark) and not runs_in_driver(spark)
        local = [HadoopPath(spark, folder).local for folder in folders if self._exist]
        self._folders = sorted({str(folder) for folder in local if folder is not None})

    def check(self) -> None:
        """Refuse executors that can't run the query; those that were asked aren't asked again.

        Raises:
            SettingError: Naming the host, what is wrong there, and what to do.
        """
        if not self._exist or (self._asked and executors_of(self._spark) <= self._asked):
            return
        self._ask()
        self._asked = executors_of(self._spark)

    def _ask(self) -> None:
        """Ask each executor, with a file of the driver's in each folder for it to find."""
        token, written = secrets.token_hex(6), list[Answer]()
        files = [Path(folder) / f".muntin-driver-{token}" for folder in self._folders]
        try:
            for file in files:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(token)
            question = json.dumps({"modules": self._modules, "files": [*map(str, files)]})
            answers: dict[tuple[str, int], Answer] = {}
            for _ in range(_ROUNDS):
                for text in self._run(question):
                    answer = Answer(**json.loads(text))
                    answers.setdefault((answer.host, answer.executor), answer)
                    written.append(answer)
                if len(answers) >= len(executors_of(self._spark)):
                    break
            for answer in answers.values():
                check_answer(answer)
                self._check_folders(answer)
        finally:
            for file in files:
                file.unlink(missing_ok=True)
            for path in (path for answer in written for path in answer.written.values() if path):
                Path(path).unlink(missing_ok=True)

    def _run(self, question: str) -> list[str]:
        context = self._spark.sparkContext
        deadline = time.monotonic() + _WAITS
        while not executors_of(self._spark) and time.monotonic() < deadline:
            time.sleep(0.1)
        tasks = _TASKS * max(context.defaultParallelism, len(executors_of(self._spark)))
        try:
            answers: list[str] = context.parallelize([question] * tasks, tasks).map(_look).collect()
            return answers
        except (PySparkException, Py4JError) as error:
            raise SettingError(_explain(str(error))) from None

    def _check_folders(self, answer: Answer) -> None:
        for folder in self._folders:
            unread = any(Path(file).parent == Path(folder) for file in answer.unread)
            mine = answer.written.get(folder, "")
            seen = bool(mine) and Path(mine).exists()
            if unread or not seen:
                raise SettingError(
                    f"{folder} on {answer.host} isn't the driver's: a file that one of them writes "
                    "there isn't seen by the other. Give a checkpoint and sinks in a folder that "
                    "all machines share, or in an object store (s3a://…)"
                )


def check_answer(answer: Answer) -> None:
    """Refuse an executor whose Python lacks something, or has another build of muntin."""
    missing = [_PACKAGES.get(name, name) for name, have in answer.modules.items() if have is None]
    if missing:
        raise SettingError(
            f"the executor on {answer.host} runs {answer.python}, which lacks "
            f"{', '.join(missing)}. Install it there, or ship the driver's environment with "
            "spark.archives and PYSPARK_PYTHON"
        )
    if answer.build != build():
        theirs = answer.modules.get("muntin")
        raise SettingError(
            f"the executor on {answer.host} has muntin {theirs} (build {answer.build}), and the "
            f"driver has {_version()} (build {build()}). Install the same build on all machines"
        )


def _explain(error: str) -> str:
    """Say where Python couldn't be started, and why."""
    lost = _LOST.search(error)
    where = f"the executor on {lost[1]}" if lost else "an executor"
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    hint = "Set PYSPARK_PYTHON to a Python of this version that every machine has"
    if (cannot := _CANNOT_RUN.search(error)) is not None:
        return f"{where} can't run {cannot[1]}. {hint}"
    if (versions := _VERSIONS.search(error)) is not None:
        return f"{where} runs Python {versions[1]}, and the driver runs {ours}. {hint}"
    if "No module named 'muntin'" in error:
        return f"{where} runs a Python that lacks muntin. {hint}, and install muntin there"
    if "PYTHON_VERSION_MISMATCH" in error:
        return f"{where} runs another Python than the driver's {ours}. {hint}"
    first = next((line for line in error.splitlines() if line.strip()), "no reason given")
    return f"{where} can't run Python for a query: {first[:300]}"


@cache
def build() -> str:
    """Return a fingerprint of this build of muntin: of the text of all of its modules."""
    folder, digest = Path(__file__).parents[2], hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(file.relative_to(folder).as_posix().encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _version() -> str:
    try:
        return version("muntin")
    except PackageNotFoundError:
        return "?"


def _look(question: str) -> str:
    """Answer for an executor; knows nothing of this package, which may be missing there."""
    import hashlib
    import importlib.metadata
    import json
    import os
    import socket
    import sys
    import time
    import uuid
    from pathlib import Path

    time.sleep(0.2)
    asked = json.loads(question)
    packages = {"google.protobuf": "protobuf", "confluent_kafka": "confluent-kafka"}
    modules: dict[str, str | None] = {}
    build = ""
    for name in asked["modules"]:
        try:
            module = importlib.import_module(name)
        except ImportError:
            modules[name] = None
            continue
        try:
            modules[name] = importlib.metadata.version(packages.get(name, name))
        except importlib.metadata.PackageNotFoundError:
            modules[name] = "?"
        if name == "muntin" and module.__file__:
            folder, digest = Path(module.__file__).parent, hashlib.sha256()
            for file in sorted(folder.rglob("*.py")):
                digest.update(file.relative_to(folder).as_posix().encode())
                digest.update(file.read_bytes())
            build = digest.hexdigest()[:12]
    unread, written = [], {}
    for path in asked["files"]:
        if not os.path.exists(path):
            unread.append(path)
        mine = f"{os.path.dirname(path)}/.muntin-executor-{uuid.uuid4().hex[:12]}"
        try:
            with open(mine, "w"):
                written[os.path.dirname(path)] = mine
        except OSError:
            written[os.path.dirname(path)] = ""
    host = os.environ.get("SPARK_LOCAL_HOSTNAME") or socket.gethostname()
    # The daemon that forked this worker belongs to one executor.
    answer = {"host": host, "executor": os.getppid(), "python": sys.executable}
    answer |= {"modules": modules, "build": build, "unread": unread, "written": written}
    return json.dumps(answer)


# So it is sent as it is, and not by the name of its module.
_look.__module__ = "__main__"
