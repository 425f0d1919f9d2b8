"""Tests that solutions of small tasks, written with only the docs at hand, give right answers.

A solution is ``tests/docs/solutions/NAME.py``. It has the inputs of its task as variables and
files, in a working folder of its own, and leaves the answer in variables or files.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from tests.docs.tasks.listing import TASKS
from tests.docs.tasks.task import Task

SOLUTIONS = Path(__file__).parent / "solutions"
# This program runs a solution, and stores its answer, a Polars frame.
_PROGRAM = """
import sys
from pathlib import Path
variables = {}
exec(Path(sys.argv[1]).read_text(), variables)
variables["answer"].write_parquet("answer.parquet")
"""


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(task, id=task.name, marks=[pytest.mark.slow, pytest.mark.spark] * task.spark)
        for task in TASKS
    ],
)
def test_solution_gives_the_answer(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solution = SOLUTIONS / f"{task.name}.py"
    inputs = task.setup(tmp_path)
    if task.spark:
        # Spark reads relative paths from the folder in which its session was started.
        subprocess.run([sys.executable, "-c", _PROGRAM, str(solution)], cwd=tmp_path, check=True)
        namespace = {"answer": pl.read_parquet(tmp_path / "answer.parquet")}
    else:
        monkeypatch.chdir(tmp_path)
        namespace = {"__name__": task.name, **inputs}
        exec(compile(solution.read_text(), str(solution), "exec"), namespace)
    task.check(namespace, tmp_path)


def test_names_and_texts_are_the_tasks_own() -> None:
    assert len({task.name for task in TASKS}) == len({task.text for task in TASKS}) == len(TASKS)
    assert len(TASKS) == 70


def test_each_task_has_a_solution() -> None:
    assert sorted(path.stem for path in SOLUTIONS.glob("*.py")) == sorted(
        task.name for task in TASKS
    )
