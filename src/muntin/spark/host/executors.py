"""Checks the workers of a session before the first batch and when executors have joined.

Each worker must run the driver's build of muntin in the driver's version of Python, and have all
modules that the query imports. It must also share the folders that the query writes, since rows on
an executor's own disk are lost to everybody else. Spark doesn't check the folders, and reports a
missing module under a hundred lines of Java.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import distributions
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from muntin.model.errors import SettingError
from muntin.spark.host.internals.executors import (
    Attempt,
    Executor,
    await_executors,
    list_executors,
    run_observed,
)
from muntin.spark.host.internals.hadoop_path import HadoopPath
from muntin.spark.host.internals.jvm import is_connected, runs_in_driver, shares_python, workers_of

_LOG = logging.getLogger(__name__)
NEEDED = ("muntin", "polars", "pyarrow", "pandas", "google.protobuf")
"""The modules that workers import for any query, in addition to Spark."""
_PACKAGES = {
    "google.protobuf": "protobuf",
    "confluent_kafka": "confluent-kafka",
    "google_crc32c": "google-crc32c",
}
# Sessions whose workers were asked, where one answers for all, or that were warned.
_ASKED: set[str] = set()
# Number of rounds in which executors are asked that got no task in the round before.
_ROUNDS = 3
_CANNOT_RUN = re.compile(r'Cannot run program "[^"]+"')
_VERSION = re.compile(r"PYTHON_VERSION_MISMATCH\] Python in worker has different version: (\S+)")
_TOO_SLOW = "Python worker failed to connect back"
_SYMPTOMS = ("Error from python worker", "Cannot run program", _TOO_SLOW)
_NO_MODULE = re.compile(r"No module named '?([\w.]+)'?")
LOST_TASK = re.compile(r"\(TID \d+\) \(([^ )]+) executor")


@dataclass(frozen=True)
class Answer:
    """The answer of an executor's Python.

    Attributes:
        task: The task that asked it.
        modules: The version of each module; ``None`` where it is missing.
        build: A fingerprint of muntin's modules there; empty where muntin is missing.
        unresolved: The references that mean nothing there.
        unread: The driver's files that it can't see.
        written: The file that it wrote to each folder.
        refused: The reason for each folder that it couldn't write to.
    """

    task: int
    python: str
    modules: dict[str, str | None]
    build: str
    unresolved: list[str]
    unread: list[str]
    written: dict[str, str]
    refused: dict[str, str]


class Executors:
    """The workers that a query may run on.

    Args:
        folders: Folders that the query writes: its checkpoint, and those of its sinks.
        modules: More modules that its tasks import.
        references: References to secrets that its tasks look up.
    """

    def __init__(
        self,
        spark: SparkSession,
        folders: Sequence[str] = (),
        modules: Sequence[str] = (),
        references: Collection[str] = (),
    ) -> None:
        self._spark = spark
        self._references = sorted(references)
        self._modules = (*NEEDED, *modules)
        self._asked: frozenset[str] = frozenset()
        self._has_asked_unseen = False
        # Spark Connect doesn't list executors, and a local master is its only executor.
        self._are_seen = not is_connected(spark) and not runs_in_driver(spark)
        local = [HadoopPath(spark, folder).local for folder in folders if self._are_seen]
        self._folders = sorted({str(folder) for folder in local if folder is not None})

    def check(self) -> None:
        """Refuse workers that can't run the query; each worker is asked once."""
        if not self._are_seen:
            # This is called twice a batch, and asking takes a Spark job.
            if not self._has_asked_unseen:
                self._check_unseen()
                self._has_asked_unseen = True
        elif not self._asked or not _names(list_executors(self._spark)) <= self._asked:
            if not self._asked:
                self._warn_of_plain_text()
            with self._driver_files() as files:
                self._check_seen(files)

    def _warn_of_plain_text(self) -> None:
        """Warn, once for each session, if anybody on the network can read the driver's secrets."""
        name = workers_of(self._spark)
        if self._spark.sparkContext.getConf().get("spark.authenticate", "false") != "true":
            if name not in _ASKED:
                _LOG.warning(
                    "spark.authenticate='false': whoever reaches the driver over the network can "
                    "read the options of sources and sinks, passwords among them. Set it, and "
                    "spark.network.crypto.enabled"
                )
            _ASKED.add(name)

    def _check_unseen(self) -> None:
        """Ask one worker, once for each session, since the others are started in the same way."""
        name = workers_of(self._spark)
        is_checked = name in _ASKED or (shares_python(self._spark) and _is_installed())
        if is_checked and not self._references:
            return
        answers, error, attempts = self._run(1, [], held=0.0)
        if error is not None:
            raise self._error_of(None, error, attempts) or error
        for answer in answers:
            check_answer(answer, None)
        _ASKED.add(name)

    def _check_seen(self, files: Sequence[Path]) -> None:
        """Ask all executors, in several rounds if some are too busy to get a task."""
        answered: set[str] = set()
        for attempt in range(_ROUNDS):
            tasks = sum(executor.cores for executor in await_executors(self._spark))
            answers, error, attempts = self._run(tasks * (1 + attempt), files, held=0.2)
            ran = {one.task: one for one in attempts}
            for answer in answers:
                where = ran.get(answer.task)
                check_answer(answer, where.host if where else None)
                for folder in self._folders:
                    check_folder(folder, answer, where.host if where else "an executor")
                answered |= {where.executor} if where else set()
            alive = list_executors(self._spark)
            missing = {one.name: one.host for one in alive if one.name not in answered}
            failed = [one for one in attempts if one.error and one.executor in missing]
            if error is not None or failed:
                failed = failed or [one for one in attempts if one.error]
                refusal = self._error_of(failed[-1].host if failed else None, error, failed)
                if refusal is not None or error is not None:
                    raise refusal or error  # type: ignore[misc]
            if not missing:
                break
        self._asked |= answered

    def _run(
        self, tasks: int, files: Sequence[Path], held: float
    ) -> tuple[list[Answer], Exception | None, list[Attempt]]:
        """Run tasks that answer; each occupies its core for a while, so that all cores get one."""
        question = {
            "modules": self._modules,
            "references": self._references,
            "files": [*map(str, files)],
            "holds": held,
        }
        asked = F.udf(_look, "string", useArrow=False)
        frame = self._spark.range(0, tasks, 1, tasks).select(asked(F.lit(json.dumps(question))))
        if is_connected(self._spark):
            returned, error, attempts = frame.collect(), None, list[Attempt]()
        else:
            returned, error, attempts = run_observed(self._spark, frame.collect)
        return [Answer(**json.loads(row[0])) for row in returned or ()], error, attempts

    @contextmanager
    def _driver_files(self) -> Iterator[list[Path]]:
        """Write a file to each folder for executors to find; delete it and theirs at the end."""
        name = f".muntin-asks-{secrets.token_hex(6)}"
        files = [Path(folder) / name for folder in self._folders]
        try:
            for file in files:
                _touch(file)
            yield files
        finally:
            for file in files:
                for one in file.parent.glob(f"{name}*"):
                    one.unlink(missing_ok=True)

    def _error_of(
        self, host: str | None, error: Exception | None, attempts: Sequence[Attempt]
    ) -> SettingError | None:
        """Return the error for a Python that couldn't be started, or that raised."""
        texts = [one.error for one in attempts if one.error] or [str(error)]
        connected = is_connected(self._spark)
        python = "python3" if connected else str(self._spark.sparkContext.pythonExec)
        problem = explain_lost_python(python, host, texts[-1])
        return None if problem is None else SettingError(problem)


def check_answer(answer: Answer, host: str | None) -> None:
    """Refuse workers that lack a module or a secret, or have another build of muntin."""
    missing = [_PACKAGES.get(name, name) for name, have in answer.modules.items() if have is None]
    if missing:
        raise SettingError(
            f"{_setting(answer.python, host)} lacks {', '.join(missing)}. {_INSTALL}"
        )
    ours = _own_answer((*answer.modules,))
    where = f"on {host}" if host else "of the workers"
    if answer.build != ours.build:
        raise SettingError(
            f"muntin {answer.modules['muntin']} {where} is build {answer.build}, and the driver's "
            f"{ours.modules['muntin']} is build {ours.build}. "
            "Install the same build on all machines"
        )
    if answer.unresolved:
        raise SettingError(
            f"{', '.join(answer.unresolved)} {where} has no value. Set the variable there before "
            "the session starts (spark.executorEnv shows it to others), or name a file there that "
            "its user can read: ${file:PATH}"
        )
    for name, version in answer.modules.items():
        if version not in ("?", ours.modules[name]):
            package = _PACKAGES.get(name, name)
            _LOG.warning(
                "%s %s %s, and the driver has %s", package, version, where, ours.modules[name]
            )


def check_folder(folder: str, answer: Answer, host: str) -> None:
    """Refuse workers that don't share a folder with the driver, or can't write to it."""
    unread = any(Path(file).parent == Path(folder) for file in answer.unread)
    if not unread and (reason := answer.refused.get(folder)):
        raise SettingError(
            f"{folder} on {host} can't be written: {reason}. Let the user of the executors write "
            "there: the best is that of the driver"
        )
    written = answer.written.get(folder)
    if unread or written is None or not Path(written).exists():
        raise SettingError(
            f"{folder} on {host} isn't the driver's folder: a file that one of them writes "
            "isn't seen by the other, and rows would be lost. Give a folder that all "
            "machines share, or one in an object store (s3a://…)"
        )


def _touch(file: Path) -> None:
    """Write a file of the driver, and create its folder."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    except OSError as error:
        raise SettingError(
            f"{file.parent} can't be written: {error.strerror}. Correct the path or the rights"
        ) from error


_INSTALL = (
    "Install it there, or name a Python that has it: before the session starts, set "
    f"os.environ['PYSPARK_PYTHON'] = {sys.executable!r}, or on a cluster the path of one there"
)


def explain_lost_python(python: str, host: str | None, error: str) -> str | None:
    """Explain an error of Spark that means that Python couldn't be started, or couldn't answer.

    ``python`` is the value of ``PYSPARK_PYTHON``. ``None`` for errors of another kind.
    """
    setting = _setting(python, host)
    if _CANNOT_RUN.search(error) is not None:
        hint = "Name a Python that every machine has, or ship one with spark.archives"
        return f"{setting} can't be run. {hint}"
    if (theirs := _VERSION.search(error)) is not None:
        ours = f"{sys.version_info.major}.{sys.version_info.minor}"
        hint = f"Name a Python {ours} that every machine has"
        return f"{setting} is Python {theirs[1]}, and the driver has {ours}. {hint}"
    if (module := _NO_MODULE.search(error)) is not None:
        return f"{setting} lacks {module[1].partition('.')[0]}. {_INSTALL}"
    if "Error from python worker" in error:
        first = next((line for line in error.splitlines() if line.strip()), "")
        return f"{setting} can't be used: {first.strip()[:200]}. {_INSTALL}"
    if _TOO_SLOW in error:
        return (
            f"{setting} didn't start in time: the machine is overloaded, or that Python fails at "
            "its start. Start the query again, which resumes from its checkpoint"
        )
    return None


def explain_lost_tasks(error: str, python: str) -> SettingError | None:
    """Return the error of a query whose tasks an executor's Python couldn't run, else ``None``."""
    if not any(symptom in error for symptom in _SYMPTOMS):
        return None
    lost = LOST_TASK.search(error)
    problem = explain_lost_python(python, lost[1] if lost else None, error)
    return None if problem is None else SettingError(problem)


def _setting(python: str, host: str | None) -> str:
    return f"PYSPARK_PYTHON={python!r}" + (f" on {host}" if host else "")


def _names(executors: Sequence[Executor]) -> frozenset[str]:
    return frozenset(executor.name for executor in executors)


def _is_installed() -> bool:
    """Return whether muntin is installed in this Python, so that all its processes have it."""
    return bool(list(distributions(name="muntin")))


@lru_cache(maxsize=8)
def _own_answer(modules: tuple[str, ...]) -> Answer:
    question = {"modules": modules, "references": [], "files": [], "holds": 0}
    return Answer(**json.loads(_look(json.dumps(question))))


def _look(question: str) -> str:
    """Answer for an executor, without importing this package, which may be missing there."""
    import importlib.metadata
    import json
    import os
    import sys
    import time

    from pyspark import TaskContext

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
            build = _fingerprint(module.__file__)
    unresolved = []
    for reference in asked["references"]:
        kind, name = reference[2:-1].split(":", 1)
        if not (name in os.environ if kind == "env" else os.access(name, os.R_OK)):
            unresolved.append(reference)
    unread, written, refused = _look_at_folders(asked["files"])
    context = TaskContext.get()
    answer = {"task": context.taskAttemptId() if context else -1, "python": sys.executable}
    answer |= {"modules": modules, "build": build, "unresolved": unresolved}
    answer |= {"unread": unread, "written": written, "refused": refused}
    time.sleep(asked["holds"])
    return json.dumps(answer)


def _fingerprint(file: str) -> str:
    """Return a digest of all modules of a package, by its `__init__` in a folder or a zip."""
    import hashlib
    import os
    import zipfile

    folder, texts = os.path.dirname(file), {}
    if os.path.isdir(folder):
        for top, _, names in os.walk(folder):
            for path in (os.path.join(top, name) for name in names if name.endswith(".py")):
                with open(path, "rb") as opened:
                    texts[os.path.relpath(path, folder).replace(os.sep, "/")] = opened.read()
    else:
        archive, _, inside = folder.partition(".zip" + os.sep)
        with zipfile.ZipFile(archive + ".zip") as zipped:
            names = [n for n in zipped.namelist() if n.startswith(inside) and n.endswith(".py")]
            texts = {name[len(inside) + 1 :]: zipped.read(name) for name in names}
    digest = hashlib.sha256()
    for path, text in sorted(texts.items()):
        digest.update(path.encode() + b"\0" + text + b"\0")
    return digest.hexdigest()[:12]


def _look_at_folders(files: list[str]) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """Return the driver's files that can't be seen, files written beside them, and refusals."""
    import os
    import uuid

    unread, written, refused = [], {}, {}
    for path in files:
        if not os.path.exists(path):
            unread.append(path)
        folder = os.path.dirname(path)
        mine = f"{path}-{uuid.uuid4().hex[:12]}"
        try:
            with open(mine, "w"):
                written[folder] = mine
        except OSError as error:
            refused[folder] = str(error.strerror)
    return unread, written, refused


# Functions of `__main__` are pickled by value, so workers don't need to import this module.
_look.__module__ = _fingerprint.__module__ = _look_at_folders.__module__ = "__main__"
