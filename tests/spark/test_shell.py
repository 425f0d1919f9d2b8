"""The SQL shell over batches and streams."""

from __future__ import annotations

import io
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console
from tests.spark.feed import Feed, at

from muntin.cli.shell import Shell


def test_rows_are_shown(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "messages")
    feed.add(("a", at(1), 4), ("b", at(2), 7))
    feed.add(("a", at(3), 5), ("a", at(40), 1))
    feed.add(("b", at(2), 9))
    shell = Shell(Console(file=io.StringIO(), width=160), spark, until_quiet=True)
    for mode in ("batch", "stream"):
        name = f"messages_{mode}"
        shell.run(
            f"""CREATE TABLE {name} (id BIGINT, key STRING, at TIMESTAMP, value BIGINT,
                    WATERMARK FOR at AS at - 5 SECONDS)
                WITH (connector = 'parquet', path = '{feed.folder}', mode = '{mode}'
                      {", maxFilesPerTrigger = 1" if mode == "stream" else ""});
                SELECT key, sum(value) AS total FROM {name} GROUP BY key, TUMBLE(at, 10 SECONDS);"""
        )
    said = " ".join(shell.console.file.getvalue().split())
    batch, stream = said.split("emission")[1:3]
    assert "a │ 2026-01-01 00:00:00 │ 2026-01-01 00:00:10 │ 9 │ full" in batch
    assert "b │ 2026-01-01 00:00:00 │ 2026-01-01 00:00:10 │ 16 │ full" in batch
    assert "b │ 2026-01-01 00:00:00 │ 2026-01-01 00:00:10 │ 7 │ full" in stream
    assert "00:00:40" not in stream
    assert "rejected: 1 late" in stream
