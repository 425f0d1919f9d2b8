"""Tests that executors which can't run a query are refused with the name of their host."""

from __future__ import annotations

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

import muntin
from muntin.model.errors import SettingError
from muntin.spark.host.executors import (
    NEEDED,
    Answer,
    _fingerprint,
    _look,
    check_answer,
    explain_lost_python,
    explain_lost_tasks,
)


def ask(*files: Path, modules: tuple[str, ...] = NEEDED) -> Answer:
    names = [*map(str, files)]
    question = {"modules": modules, "references": [], "files": names, "holds": 0}
    return Answer(**json.loads(_look(json.dumps(question))))


def test_this_python_has_what_a_query_needs(tmp_path: Path) -> None:
    path = tmp_path / "asks"
    path.touch()
    answer = ask(path)
    check_answer(answer, "here")
    assert answer.unread == []
    assert Path(answer.written[str(tmp_path)]).parent == tmp_path


def test_a_folder_that_isnt_there_is_neither_read_nor_written(tmp_path: Path) -> None:
    answer = ask(tmp_path / "nowhere" / "asks")
    assert answer.unread == [str(tmp_path / "nowhere" / "asks")]
    assert answer.written == {}
    assert answer.refused == {str(tmp_path / "nowhere"): "No such file or directory"}


def test_a_missing_module_is_refused_with_its_host() -> None:
    answer = replace(ask(modules=(*NEEDED, "no_such_module")), python="/opt/py")
    problem = "PYSPARK_PYTHON='/opt/py' on worker-3 lacks no_such_module. Install it there"
    with pytest.raises(SettingError, match=problem):
        check_answer(answer, "worker-3")


def test_another_build_is_refused_with_its_host_and_both_builds() -> None:
    answer = ask()
    with pytest.raises(SettingError) as refused:
        check_answer(replace(answer, build="0123456789ab"), "worker-3")
    assert "on worker-3 is build 0123456789ab, and the driver's " in str(refused.value)
    assert f"is build {answer.build}. Install the same build" in str(refused.value)


def test_a_build_is_the_same_in_a_zip(tmp_path: Path) -> None:
    folder = Path(str(muntin.__file__)).parent
    shutil.copytree(folder / "model", tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as zipped:
        for file in (tmp_path / "model").rglob("*.py"):
            zipped.write(file, file.relative_to(tmp_path))
    inside = _fingerprint(str(tmp_path / "all.zip" / "model" / "__init__.py"))
    assert inside == _fingerprint(str(tmp_path / "model" / "__init__.py"))
    (tmp_path / "model" / "axis.py").write_text("# changed")
    assert inside != _fingerprint(str(tmp_path / "model" / "__init__.py"))


LOST = (
    "Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 times, most recent failure: "
    "Lost task 1.3 in stage 0.0 (TID 7) (10.0.0.5 executor 1): "
)
WORKER = "org.apache.spark.SparkException: Error from python worker:\n  "


@pytest.mark.parametrize(
    ("reason", "problem"),
    [
        (
            'java.io.IOException: Cannot run program "./env/bin/python": error=2, No such file',
            "can't be run. Name a Python that every machine has",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in "
            "driver: 3.11, PySpark cannot run with different minor versions.",
            "is Python 3.9, and the driver has 3.",
        ),
        (
            f"{WORKER}ModuleNotFoundError: No module named 'muntin'\nPYTHONPATH was:",
            "lacks muntin. ",
        ),
    ],
)
def test_a_python_that_doesnt_start_is_named_with_its_host(reason: str, problem: str) -> None:
    explained = explain_lost_python("./env/bin/python", "10.0.0.5", LOST + reason)
    assert explained is not None
    assert explained.startswith(f"PYSPARK_PYTHON='./env/bin/python' on 10.0.0.5 {problem}")
    if WORKER in reason or "Cannot run" in reason:
        error = explain_lost_tasks(LOST + reason, "./env/bin/python")
        assert str(error) == explained


def test_a_module_that_a_function_lacks_is_its_own_affair() -> None:
    assert explain_lost_tasks(f"{LOST}ModuleNotFoundError: No module named 'mine'", "py") is None
