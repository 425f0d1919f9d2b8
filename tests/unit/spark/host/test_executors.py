"""Executors that can't run a query are refused by the name of their host."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from muntin.model.errors import SettingError
from muntin.spark.host.executors import NEEDED, Answer, _explain, _look, build, check_answer


def ask(*files: Path, modules: tuple[str, ...] = NEEDED) -> Answer:
    question = json.dumps({"modules": modules, "files": [*map(str, files)]})
    return Answer(**json.loads(_look(question)))


def test_this_python_has_what_a_query_needs(tmp_path: Path) -> None:
    mine = tmp_path / "driver"
    mine.touch()
    answer = ask(mine)
    check_answer(answer)
    assert answer.build == build()
    assert answer.unread == []
    written = Path(answer.written[str(tmp_path)])
    assert written.exists()
    assert written.parent == tmp_path


def test_a_folder_that_isnt_there_is_neither_read_nor_written(tmp_path: Path) -> None:
    answer = ask(tmp_path / "nowhere" / "driver")
    assert answer.unread == [str(tmp_path / "nowhere" / "driver")]
    assert answer.written == {str(tmp_path / "nowhere"): ""}


def test_a_missing_module_is_refused_with_its_host() -> None:
    answer = replace(ask(modules=(*NEEDED, "no_such_module")), host="worker-3", python="/opt/py")
    words = "the executor on worker-3 runs /opt/py, which lacks no_such_module"
    with pytest.raises(SettingError, match=words):
        check_answer(answer)


def test_another_build_is_refused_with_its_host_and_both_builds() -> None:
    answer = replace(ask(), host="worker-3", build="0123456789ab")
    with pytest.raises(SettingError) as refused:
        check_answer(answer)
    assert "worker-3 has muntin " in str(refused.value)
    assert "(build 0123456789ab)" in str(refused.value)
    assert f"(build {build()})" in str(refused.value)


LOST = (
    "Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 times, most recent failure: "
    "Lost task 1.3 in stage 0.0 (TID 7) (10.0.0.5 executor 1): "
)


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (
            'java.io.IOException: Cannot run program "./env/bin/python": error=2, No such file',
            "the executor on 10.0.0.5 can't run ./env/bin/python.",
        ),
        (
            "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python "
            "in worker has different version: 3.9 than that in driver: 3.11, PySpark cannot run",
            "the executor on 10.0.0.5 runs Python 3.9, and the driver runs 3.",
        ),
        (
            "org.apache.spark.SparkException: Error from python worker:\n  ModuleNotFoundError: "
            "No module named 'muntin'\nPYTHONPATH was:",
            "the executor on 10.0.0.5 runs a Python that lacks muntin.",
        ),
    ],
)
def test_a_python_that_doesnt_start_is_named_with_its_host(reason: str, said: str) -> None:
    assert _explain(LOST + reason).startswith(said)
