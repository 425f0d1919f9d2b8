"""Every Python fence of the README and of docs/ runs, file by file."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE = {page: FENCE.findall(page.read_text()) for page in PAGES}
ON_SPARK = [page for page, code in CODE.items() if any("spark" in fence for fence in code)]
SLOW = {"tutorial.md"}
ALONE = [page for page, code in CODE.items() if code and page not in ON_SPARK]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=[pytest.mark.slow] * (page.name in SLOW))
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
    for fence in CODE[page]:
        # The JVM has a working folder of its own.
        fence = re.sub(r"await_end\(\d+\)", "await_end(3)", fence)
        placed = re.sub(r'"(flights/|clicks/|checkpoints/|rejected/)', rf'"{tmp_path}/\1', fence)
        exec(compile(placed, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", ALONE, ids=lambda page: page.name)
def test_fences_without_spark_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for fence in CODE[page]:
        exec(compile(fence, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []
