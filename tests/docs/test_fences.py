"""Tests that every Python fence of the README and of docs/ runs and prints the output below it."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A fence of text directly below one of Python is its output.
FENCE = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
CODE = {page: FENCE.findall(page.read_text()) for page in PAGES}
ON_SPARK = [page for page, code in CODE.items() if any("spark" in fence for fence, _ in code)]
SLOW = {"tutorial.md", "sql-joins.md", "state.md"}
WITHOUT_SPARK = [page for page, code in CODE.items() if code and page not in ON_SPARK]


def get_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def run_fence(page: Path, code: str, output: str, namespace: dict[str, object]) -> None:
    """Run a fence in the namespace of its page, and compare what it prints if the page shows it."""
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(code, str(page), "exec"), namespace)
    if output:
        assert printed.getvalue().rstrip().splitlines() == output.rstrip().splitlines()


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=get_name(page), marks=[pytest.mark.slow] * (page.name in SLOW))
        for page in ON_SPARK
    ],
)
def test_fences_run(
    page: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    start = datetime(2026, 1, 1, 9)
    rows = [("AA", start + timedelta(minutes=7 * i), float(i % 50)) for i in range(60)]
    flights = spark.createDataFrame(rows, "carrier string, scheduled timestamp, delay double")
    flights.write.parquet(f"{tmp_path}/flights")
    namespace: dict[str, object] = {}
    for code, output in CODE[page]:
        # The JVM has a working folder of its own.
        code = re.sub(r"await_end\(\d+\)", "await_end(3)", code)
        folders = "flights|clicks|checkpoints|rejected(?:_on_spark)?"
        code = re.sub(rf'"((?:{folders})/)', rf'"{tmp_path}/\1', code)
        run_fence(page, code, output, namespace)


@pytest.mark.parametrize("page", WITHOUT_SPARK, ids=get_name)
def test_fences_without_spark_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for code, output in CODE[page]:
        run_fence(page, code, output, namespace)


@pytest.mark.parametrize("page", PAGES, ids=get_name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []
