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
    "Adding a limit of times": 2,
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

# What declares another limit of times: the lines that come after others, by file.
LIMIT = {
    "model/inputs.py": {
        "    max_ahead: Duration | None\n": "    max_far: Duration | None\n",
        "    MAX_AHEAD,\n": """\
    DurationOption(
        "max_far",
        "How far ahead of the wall clock a time may be.",
        title="How far ahead.",
        sql="MAX FAR",
        line=("far", "rejected beyond {}"),
        reason="far",
    ),
""",
        "    lateness: int = 0\n": "    max_far: int | None = None\n",
    },
    "testing/oracle/stepping.py": {
        '        return "future"\n': """\
    if spec.max_far is not None and time > wall + spec.max_far:
        return "far"
""",
        'REASONS = ("late", ': '"far", ',
    },
}
LIMIT_PROGRAM = """
import muntin as mt
import polars as pl
from muntin.testing import Oracle

MINUTE = 60_000_000
clock = 30_000_000 * MINUTE
options = {"key": "k", "time": "t", "max_far": "1 hour", "max_ahead": "2 hours"}
messages = [{"k": "a", "t": clock + t * MINUTE, "now": clock} for t in (0, 90, 150)]
spec = mt.standalone.windowed(**options).tumbling("1 minute").agg(n=mt.count())
single = mt.standalone.WindowedAggregator(spec, clock=lambda: clock)
for one in messages:
    single.add_message(key=one["k"], value={}, time=one["t"])
several = mt.standalone.WindowedAggregator(spec, clock=lambda: clock)
several.add_messages(pl.DataFrame(messages).drop("now"))
oracle = Oracle(spec).step(messages, wall=clock)
for counts in (single.counts, several.counts, oracle.counts):
    print(*(counts[name] for name in ("counted", "far", "future")), end="; ")
frame = pl.DataFrame(messages).cast({"t": pl.Datetime("us"), "now": pl.Datetime("us")})
query = mt.windowed(frame, clock="now", **options).tumbling("1 minute").agg(n=mt.count())
print(*query.rejected["reason"], "beyond 1 hour" in query.explain())
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


def test_a_limit_of_times_is_declared_once_and_judged_everywhere(tmp_path: Path) -> None:
    copytree(ROOT / "src", tmp_path / "src")
    for name, lines in LIMIT.items():
        file = tmp_path / "src" / "muntin" / name
        text = file.read_text()
        for anchor, added in lines.items():
            assert anchor in text
            text = text.replace(anchor, f"{anchor}{added}", 1)
        file.write_text(text)
    assert run(LIMIT_PROGRAM, tmp_path) == "1 1 1; 1 1 1; 1 1 1; future far True"
