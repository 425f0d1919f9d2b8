"""Tasks to solve in SQL."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import polars as pl
from tests.docs.tasks.aggregates import ORDERS, check_dearest, orders
from tests.docs.tasks.sources import check_duckdb, two_files
from tests.docs.tasks.task import Namespace, Task, assert_rows, expects_rows, moment
from tests.docs.tasks.windows import clicks


def check_over(namespace: Namespace, folder: Path) -> None:
    expected = []
    for buyer, shelf, clock, price in ORDERS:
        since = moment(clock) - timedelta(minutes=3)
        spent = sum(
            p for _, s, t, p in ORDERS if s == shelf and since <= moment(t) <= moment(clock)
        )
        expected.append((buyer, shelf, price, spent))
    assert_rows(namespace["answer"], "buyer shelf price spent", expected)


def check_pipeline(namespace: Namespace, folder: Path) -> None:
    """Run the file as its user would."""
    command = [sys.executable, "-c", "from muntin.cli.app import main; raise SystemExit(main())"]
    subprocess.run(
        [*command, "run", "views.sql", "--until-quiet", "--set", "data=in"],
        cwd=folder,
        check=True,
        capture_output=True,
        timeout=60,
    )
    check_duckdb(namespace, folder)


def rooms(folder: Path) -> Namespace:
    rows = [("hall", "09:01:00", 21), ("hall", "09:04:00", 25), ("attic", "09:03:00", 17),
            ("hall", "09:12:00", 20), ("attic", "09:16:00", None)]  # fmt: skip
    frame = [(room, moment(clock), value) for room, clock, value in rows]
    return {"readings": pl.DataFrame(frame, schema=["room", "at", "value"], orient="row")}


TASKS = [
    Task(
        "sql_of_windows",
        "`readings` is a Polars frame with the columns room, at and value. Write in SQL: "
        "the mean value and the number of readings of each room in each ten minutes, of the "
        "readings that have a value. `answer` is a frame with the columns room, "
        "window_start, mean and n.",
        expects_rows(
            "room window_start mean n",
            [
                ("hall", moment("09:00:00"), 23, 2),
                ("attic", moment("09:00:00"), 17, 1),
                ("hall", moment("09:10:00"), 20, 1),
            ],
        ),
        rooms,
    ),
    Task(
        "sql_of_spark",
        "`clicks` is a Polars frame with the columns user, at and page. A colleague's query "
        "for Spark has GROUP BY user, session_window(at, '30 minutes'). Run it in this "
        "process, without Spark, so that it counts the clicks of each visit. `answer` is a "
        "frame with the columns user, window_start and n.",
        expects_rows(
            "user window_start n",
            [
                ("ann", moment("09:00:00"), 2),
                ("ann", moment("10:05:00"), 1),
                ("bob", moment("09:25:00"), 2),
            ],
        ),
        clicks,
    ),
    Task(
        "sql_over_rows",
        "`orders` is a Polars frame with the columns buyer, shelf, at and price. Write in "
        "SQL: each order with the sum `spent` of its shelf's prices in the three minutes up "
        "to it, the order and both ends included. `answer` is a frame with the columns "
        "buyer, shelf, price and spent.",
        check_over,
        orders,
    ),
    Task(
        "sql_of_the_first_rows",
        "`orders` is a Polars frame with the columns buyer, shelf, at and price. Write in "
        "SQL, as Flink's users do, with ROW_NUMBER: the two dearest orders of each shelf in "
        "each hour. `answer` is a frame with the columns window_start, shelf, rank (1 for "
        "the dearest; you may have to rename it), buyer and price.",
        check_dearest,
        orders,
    ),
    Task(
        "pipeline_in_a_file",
        "The folder `in` has files of JSON lines with the fields page (text) and at (ISO "
        "time with Z). Write the file `views.sql`, a pipeline that reads the folder "
        "`${data}`, counts the views `n` of each page in each minute that is complete, and "
        "keeps them in the table `views` of the DuckDB database `views.duckdb`. It is run "
        "by `muntin run views.sql --until-quiet --set data=in`, without Spark; you needn't "
        "run it.",
        check_pipeline,
        two_files,
    ),
]
