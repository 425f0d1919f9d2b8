"""Tasks about streams of files, rejected messages, and sinks."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
from tests.docs.tasks.task import (
    Namespace,
    Task,
    assert_rows,
    expects_rows,
    moment,
    write_lines,
)

Views = list[tuple[str | None, str]]


def write_views(folder: Path, name: str, views: Views, age: int) -> None:
    """Write a file of page views, all on one day."""
    records = [{"page": page, "at": f"2026-01-01T{clock}Z"} for page, clock in views]
    write_lines(folder, f"in/{name}.jsonl", records, age)


def two_files(folder: Path) -> Namespace:
    write_views(folder, "1", [("home", "09:00:01"), ("cart", "09:00:20"), ("home", "09:00:50")], 60)
    write_views(folder, "2", [("home", "09:01:10"), ("home", "09:02:05")], 50)
    return {}


def files_and_more(folder: Path) -> Namespace:
    def add_files() -> None:
        write_views(folder, "3", [("home", "09:02:40"), ("cart", "09:03:01")], 30)

    return two_files(folder) | {"add_files": add_files}


def check_restart(namespace: Namespace, folder: Path) -> None:
    assert (folder / "in" / "3.jsonl").exists()
    expected = [
        ("home", moment("09:00:00"), 2),
        ("cart", moment("09:00:00"), 1),
        ("home", moment("09:01:00"), 1),
        ("home", moment("09:02:00"), 2),
    ]
    written = pl.read_parquet(folder / "out" / "**" / "*.parquet")
    assert_rows(written, "page window_start n", expected)


def spoilt_file(folder: Path) -> Namespace:
    write_views(folder, "1", [("home", "09:00:01"), (None, "09:00:02"), ("home", "nine")], 60)
    with (folder / "in" / "1.jsonl").open("a") as file:
        file.write("this is no JSON\n")
        file.write('{"page": "home", "at": "2999-01-01T09:00:00Z"}\n')
        file.write('{"page": "home", "at": null}\n')
    return {}


def check_reasons(namespace: Namespace, folder: Path) -> None:
    expected = {"null_key": 1, "malformed": 2, "future": 1, "null_time": 1}
    assert dict(namespace["answer"]) == expected


def three_files(folder: Path) -> Namespace:
    write_views(folder, "1", [("home", "09:00:10"), ("home", "09:00:50"), ("home", "09:01:30")], 60)
    write_views(folder, "2", [("home", "09:00:40"), ("home", "09:03:00")], 50)
    write_views(folder, "3", [("home", "09:00:20"), ("home", "09:11:30"), ("home", "09:02:30")], 40)
    write_views(folder, "4", [("home", "09:00:30"), ("home", "09:11:40")], 30)
    return {}


def check_corrections(namespace: Namespace, folder: Path) -> None:
    results = [
        (moment("09:00:00"), 2, "full", 0),
        (moment("09:00:00"), 3, "late", 1),
        (moment("09:00:00"), 4, "late", 2),
        (moment("09:01:00"), 1, "full", 0),
        (moment("09:02:00"), 1, "late", 0),
        (moment("09:03:00"), 1, "full", 0),
    ]
    assert_rows(namespace["answer"], "window_start n emission revision", results)
    assert_rows(namespace["rejected"], "at reason", [(moment("09:00:30"), "late")])


def one_window(folder: Path) -> Namespace:
    write_views(folder, "1", [("home", "09:00:10"), ("home", "09:20:00")], 60)
    write_views(folder, "2", [("cart", "09:01:00")], 50)
    write_views(folder, "3", [("home", "09:30:00")], 40)
    return {}


def check_parquet(namespace: Namespace, folder: Path) -> None:
    paths = list((folder / "out").rglob("*.parquet"))
    assert {part for path in paths for part in path.parts if part.startswith("page=")} == {
        "page=home",
        "page=cart",
    }
    written = pl.concat(
        pl.read_parquet(path, hive_partitioning=False).with_columns(
            page=pl.lit(next(p[5:] for p in path.parts if p.startswith("page=")))
        )
        for path in paths
    )
    assert_rows(
        written,
        "page window_start n",
        [
            ("home", moment("09:00:00"), 2),
            ("cart", moment("09:00:00"), 1),
            ("home", moment("09:01:00"), 1),
        ],
    )


def check_duckdb(namespace: Namespace, folder: Path) -> None:
    with duckdb.connect(str(folder / "views.duckdb")) as database:
        database.sql("SET timezone = 'UTC'")
        rows = database.sql(
            "SELECT page, strftime(window_start, '%H:%M'), n FROM views ORDER BY ALL"
        )
        assert rows.fetchall() == [("cart", "09:00", 1), ("home", "09:00", 2), ("home", "09:01", 1)]


def pandas_and_arrow(folder: Path) -> Namespace:
    times = [moment(clock) for clock in ("09:00:05", "09:00:20", "09:01:40")]
    columns = {"sensor": ["a", "b", "a"], "at": times, "value": [1.5, 2.0, 4.0]}
    return {"readings": pd.DataFrame(columns), "table": pa.table(columns)}


def check_pandas_and_arrow(namespace: Namespace, folder: Path) -> None:
    expected = [
        ("a", moment("09:00:00"), 1.5),
        ("b", moment("09:00:00"), 2.0),
        ("a", moment("09:01:00"), 4.0),
    ]
    assert isinstance(namespace["of_pandas"], pd.DataFrame)
    assert isinstance(namespace["of_arrow"], pa.Table)
    for name in ("of_pandas", "of_arrow"):
        assert_rows(namespace[name], "sensor window_start greatest", expected)


_FILES = (
    "The folder `in` has files of JSON lines with the fields page (text) and at (ISO time with Z). "
)

TASKS = [
    Task(
        "count_files_once",
        _FILES
        + (
            "Read what is in it as a stream that ends when all is read, with its progress kept "
            "in the folder `checkpoint`, and count the views of each page in each minute. Show "
            "the minutes that are complete: by the newest time seen, without waiting longer. "
            "`answer` is a frame with the columns page, window_start and n."
        ),
        expects_rows(
            "page window_start n",
            [
                ("home", moment("09:00:00"), 2),
                ("cart", moment("09:00:00"), 1),
                ("home", moment("09:01:00"), 1),
            ],
        ),
        two_files,
    ),
    Task(
        "go_on_after_a_restart",
        _FILES
        + (
            "Count the views of each page in each minute, once a minute is complete, into "
            "Parquet files in the folder `out`. Read what is there and end; then call "
            "`add_files()`, which writes another file into `in`, and run the same query again: "
            "it must read only what is new, and go on with minutes that were open."
        ),
        check_restart,
        files_and_more,
    ),
    Task(
        "reasons_of_rejection",
        _FILES
        + (
            "Some lines are spoilt: no page, no time, a time that can't be read or of the year "
            "2999, no JSON at all. Count the views of each page in each minute. `answer` is a "
            "dictionary with the number of messages that no window took, by the reason."
        ),
        check_reasons,
        spoilt_file,
    ),
    Task(
        "corrections",
        _FILES
        + (
            "Read one file after the other, each as a batch of its own, and count the views of "
            "each minute (of all pages). A minute is complete when a newer time than its end is "
            "seen. Views that come up to ten minutes behind that correct it at once, later ones "
            "are rejected. `answer` is a frame of every result in the order of their emission, "
            "not only the newest, with the columns window_start, n, emission and revision; "
            "`rejected` is a frame with the columns at and reason."
        ),
        check_corrections,
        three_files,
    ),
    Task(
        "results_before_the_end",
        _FILES
        + (
            "Read one file after the other, each as a batch of its own, and count all views of "
            "each hour. We don't want to wait for the end of the hour: every batch that changes "
            "an hour shows it. `answer` is a frame of every result, with the columns "
            "window_start and n."
        ),
        expects_rows(
            "window_start n",
            [(moment("09:00:00"), 2), (moment("09:00:00"), 3), (moment("09:00:00"), 4)],
        ),
        one_window,
    ),
    Task(
        "parquet_by_page",
        _FILES
        + (
            "Count the views of each page in each minute and write the complete minutes, with "
            "the columns window_start and n, as Parquet files below the folder `out`, in which "
            "each page has folders of its own (`page=home`)."
        ),
        check_parquet,
        two_files,
    ),
    Task(
        "table_of_duckdb",
        _FILES
        + (
            "Keep the table `views` of the DuckDB database `views.duckdb` up to date with the "
            "number of views `n` of each page in each minute that is complete. Read what is "
            "there, and end."
        ),
        check_duckdb,
        two_files,
    ),
    Task(
        "pandas_and_arrow",
        "`readings` is a pandas frame and `table` an Arrow table, both with the columns "
        "sensor, at and value. Find the greatest value of each sensor in each minute of "
        "both. `of_pandas` is a pandas frame and `of_arrow` an Arrow table, both with the "
        "columns sensor, window_start and greatest.",
        check_pandas_and_arrow,
        pandas_and_arrow,
    ),
]
