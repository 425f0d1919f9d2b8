"""Tests that the recipes of CONTRIBUTING are diffs that apply, and that one of them is complete."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from shutil import copytree

import pytest

ROOT = Path(__file__).parents[2]
_SECTION = re.compile(r"^## (Adding .*?)\n(.*?)(?=^## )", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^```diff\n(.*?)^```", re.MULTILINE | re.DOTALL)
RECIPES = {
    title: "".join(_FENCE.findall(text))
    for title, text in _SECTION.findall((ROOT / "CONTRIBUTING.md").read_text())
}
FILES = {
    "Adding an aggregate": 2,
    "Adding a kind of windows": 4,
    "Adding a sink": 2,
    "Adding a reason": 2,
    "Adding an option of the input": 1,
}
PROGRAM = """
import muntin as mt
from muntin.sql.api import compile_aggregate
from muntin.testing import Oracle

spec = mt.standalone.windowed(key="k", time="t").tumbling("10 us").agg(n=mt.sum_distinct("v"))
messages = [{"k": "a", "t": t, "v": v} for t, v in ((1, 5), (2, 5), (3, 2), (11, 9))]
print(Oracle(spec).step(messages, wall=0).firings[0]["n"], compile_aggregate("SUM(DISTINCT v)"))
"""


def apply_diff(diff: str, tree: Path, *options: str) -> None:
    done = subprocess.run(
        ["git", "apply", *options], input=diff, cwd=tree, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr


def run(code: str, tree: Path) -> str:
    """Run code over another tree, and return its output or the last line of its error."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tree / "src")},
        text=True,
        capture_output=True,
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("title", FILES)
def test_a_recipe_is_in_the_code_as_it_is(title: str) -> None:
    assert len(set(re.findall(r"^\+\+\+ (.*)", RECIPES[title], re.MULTILINE))) == FILES[title]
    apply_diff(RECIPES[title], ROOT, "--reverse", "--check")


def test_an_aggregate_is_one_file_and_one_line(tmp_path: Path) -> None:
    recipe = RECIPES["Adding an aggregate"]
    copytree(ROOT / "src", tmp_path / "src")
    apply_diff(recipe, tmp_path, "--reverse")
    assert "no attribute 'sum_distinct'" in run(PROGRAM, tmp_path)
    apply_diff(recipe, tmp_path)
    assert run(PROGRAM, tmp_path) == "7 sum_distinct(v)"
