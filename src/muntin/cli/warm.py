"""``muntin warm``: prepares a machine, once, so that sessions start faster."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from muntin.cli.console import open_session, report_errors


def warm() -> None:
    """Cache Spark's classes for Java, so that sessions start some seconds faster.

    Runs a small query, and stores the classes that it uses in a file of
    200 MB in your cache folder. Run it again after an update of Java or
    Spark. This is optional.
    """
    console = Console()
    with report_errors():
        from muntin.spark.host.internals import archive
        from muntin.spark.session import JVM_OPTIONS, LOCAL

        path = archive.scratch_path()
        if path is None:
            console.print(
                f"{archive.archive_folder()} has spaces in its name, which Spark can't take."
            )
            raise typer.Exit(1)
        path.parent.mkdir(parents=True, exist_ok=True)
        options = f"{LOCAL[JVM_OPTIONS]} {archive.record_options(path)}"
        settings = {"master": "local[2]", "spark__driver__extraJavaOptions": options}
        doing = "Starting Spark, and running a small query"
        with (
            open_session(console, "warm", doing, **settings) as spark,
            tempfile.TemporaryDirectory() as folder,
        ):
            run_small_query(spark, Path(folder))
        console.print("Storing the classes that it used …", style="dim")
        stored = archive.store_archive(path)
        if stored is None:
            console.print("The JVM has stored none, so sessions start as before.")
            raise typer.Exit(1)
        console.print(
            f"{stored.stat().st_size >> 20} MB in {stored}", soft_wrap=True, highlight=False
        )


def run_small_query(spark: Any, folder: Path) -> None:
    """Run the parts that most queries begin with: a stream in windows, results, and SQL."""
    import muntin as mt

    schema = "page string, at timestamp, n long"
    rows = spark.sql(
        "SELECT CAST(id % 7 AS string) AS page, timestamp_seconds(1767225600 + id) AS at, id AS n "
        "FROM range(1000)"
    )
    rows.write.parquet(str(folder / "source"))
    rows.selectExpr("to_json(struct(*)) AS value").write.text(str(folder / "lines"))
    views = {"views": mt.count(), "n": mt.sum("n")}
    for form in ("parquet", "json"):
        read = spark.readStream.schema(schema)
        stream = getattr(read, form)(str(folder / ("source" if form == "parquet" else "lines")))
        windows = mt.windowed(stream, key="page", time="at", lateness="1 second")
        query = windows.tumbling("10 seconds").early(each=True).agg(**views).start(
            checkpoint=str(folder / form), results=lambda frame, batch: frame.collect(),
            available_now=True,
        )  # fmt: skip
        query.await_end(120)
    mt.windowed(rows, key="page", time="at").tumbling("10 seconds").agg(**views).results.collect()
