"""Tests that executors which can't run a query are refused by the names of their hosts."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.services.cluster import Cluster

import muntin

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

BARE = Path(sys.base_prefix) / "bin" / "python3"
# Programs that executors of the second worker run in place of Python, by case.
OTHERS = {
    "good": sys.executable,
    "bare": f"{BARE} -s",
    "sketches": f"env PYTHONPATH={{folder}}/lacking:$PYTHONPATH {sys.executable}",
    "build": f"env PYTHONPATH={{folder}}/other:$PYTHONPATH {sys.executable}",
    "later": f"{BARE} -s",
}
# These differ from the good case by their folders alone.
FOLDERS = ("checkpoint", "table")
SECOND, THIRD = "127.0.0.3", "127.0.0.4"


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Return the line that the driver printed of each query, by case."""
    folder = tmp_path_factory.mktemp("asking")
    source = folder / "source"
    source.mkdir()
    (source / "one.json").write_text('{"k": "a", "at": "2026-01-01T00:00:00Z"}\n')
    shutil.copytree(Path(muntin.__file__).parent, folder / "other" / "muntin")
    with (folder / "other" / "muntin" / "__init__.py").open("a") as file:
        file.write("# another build\n")
    (folder / "lacking").mkdir()
    (folder / "lacking" / "datasketches.py").write_text("raise ImportError\n")
    # Executors have working folders of their own.
    shutil.copytree(source, folder / "unshared-source")
    for case, program in OTHERS.items():
        script = folder / case
        worker = "work-3" if case == "later" else "work-2"
        script.write_text(
            "#!/bin/sh\n"
            f'case "$PWD" in */{worker}/*) exec {program.format(folder=folder)} "$@";; esac\n'
            f'exec {sys.executable} "$@"\n'
        )
        script.chmod(0o755)
    cluster = Cluster(folder)
    try:
        command = [sys.executable, str(Path(__file__).with_name("asking.py"))]
        command += [str(folder), cluster.master, "absent", "unwritable", "source"]
        command += [*FOLDERS, *OTHERS]
        out, err = folder / "out", folder / "err"
        with out.open("w") as stdout, err.open("w") as stderr:
            driver = subprocess.Popen(command, stdout=stdout, stderr=stderr, cwd=folder)
        try:
            while driver.poll() is None and not (folder / "waiting").exists():
                time.sleep(0.1)
            cluster.workers.append(cluster.worker())
            assert driver.wait(timeout=300) == 0, err.read_text()[-3000:]
        finally:
            driver.kill()
        assert [*folder.rglob(".muntin-*")] == []
        yield dict(line.split(": ", 1) for line in out.read_text().splitlines())
    finally:
        cluster.remove()


def test_a_query_has_a_shard_for_each_core_of_the_cluster(answers: dict[str, str]) -> None:
    assert answers["good"] == "{'seen': 1, 'counted': 1}, 2 shards"


@pytest.mark.parametrize("case", FOLDERS)
def test_a_folder_that_executors_dont_share_is_refused(answers: dict[str, str], case: str) -> None:
    assert answers[case].startswith("SettingError: /proc/self/cwd/unshared on 127.0.0.")
    assert "rows would be lost" in answers[case]


def test_a_folder_that_the_driver_cant_write_is_refused(answers: dict[str, str]) -> None:
    assert answers["unwritable"].startswith("SettingError: /proc/table can't be written: ")


def test_a_file_that_executors_dont_have_is_named(answers: dict[str, str]) -> None:
    # Spark's error has the host of the task, or not.
    problem = "SourceError: /proc/self/cwd/unshared-source/one.json isn't on "
    assert answers["source"].startswith(problem)


def test_a_python_without_muntin_is_refused_by_its_host(answers: dict[str, str]) -> None:
    assert f"bare' on {SECOND} lacks muntin. Install it there" in answers["bare"]


def test_a_python_without_the_sketches_of_a_quantile_is_refused(answers: dict[str, str]) -> None:
    assert f" on {SECOND} lacks datasketches. Install it there" in answers["sketches"]


def test_another_build_is_refused_by_its_host(answers: dict[str, str]) -> None:
    assert f" on {SECOND} is build " in answers["build"]
    assert answers["build"].endswith("Install the same build on all machines")


def test_a_python_that_isnt_there_is_refused_by_its_host(answers: dict[str, str]) -> None:
    assert "./env/bin/python' on 127.0.0." in answers["absent"]
    assert "can't be run. Name a Python that every machine has" in answers["absent"]


def test_an_executor_that_joins_later_is_asked_too(answers: dict[str, str]) -> None:
    assert f"later' on {THIRD} lacks muntin. Install it there" in answers["later"]
