"""Tests that the pipeline of docs/declarative-pipelines.md runs as printed there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import polars as pl
import pyspark
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.spark]

PAGE = Path(__file__).parents[2] / "docs" / "declarative-pipelines.md"
SPARK = Path(pyspark.__file__).parent


def test_the_pipeline_of_the_page_fills_its_tables(tmp_path: Path) -> None:
    fences = re.findall(
        r"^```(yaml|py|json)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    files = {
        "yaml": "spark-pipeline.yml",
        "py": "transformations/views.py",
        "json": "clicks/1.json",
    }
    for language, text in fences:
        path = tmp_path / files[language]
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("/tmp/views", str(tmp_path)))
    result = subprocess.run(
        [SPARK / "bin" / "spark-pipelines", "run"],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(SPARK)},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    tables = tmp_path / "spark-warehouse"
    views = pl.read_parquet(f"{tables}/views/*.parquet").sort("window_start")
    assert views.select("page", "n", "emission", "revision").rows() == [
        ("home", 2, "full", 0),
        ("cart", 1, "full", 0),
    ]
    rejected = pl.read_parquet(f"{tables}/rejected_clicks/*.parquet")
    assert rejected.select("page", "reason").rows() == [(None, "null_key")]
