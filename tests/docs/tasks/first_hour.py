"""Tasks of users of Flink SQL, pandas and Kafka Streams in their first hour."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl
from tests.docs.tasks.task import Namespace, Task, assert_rows, expects_rows, moment, write_lines

ORDERS = [(1, "EUR", 10, "09:00:00"), (2, "EUR", 20, "10:30:00"), (3, "USD", 30, "11:00:00")]
RATES = [("EUR", 1.0, "08:00:00"), ("EUR", 2.0, "10:00:00"), ("USD", 3.0, "08:00:00")]
SHIPMENTS = [(1, "12:59:00"), (2, "15:00:00")]
READINGS = [
    ("hall", 3, "09:01:00"),
    ("hall", 6, "09:02:00"),
    ("attic", 1, "09:03:00"),
    ("hall", 9, "09:11:00"),
    ("hall", 12, "09:12:00"),
    ("attic", 7, "09:25:00"),
]
VIEWS = [("home", "09:01:00"), ("home", "09:02:00"), ("cart", "09:04:00"), ("cart", "09:14:00")]
PURCHASES = [("cart", "09:05:00"), ("home", "09:09:00")]


def to_frame(rows: list[tuple[object, ...]], *names: str) -> pl.DataFrame:
    """Return a frame of rows whose last value is a time of day."""
    timed = [(*row[:-1], moment(str(row[-1]))) for row in rows]
    return pl.DataFrame(timed, schema=[*names], orient="row")


def orders_and_rates(folder: Path) -> Namespace:
    return {
        "orders": to_frame([*ORDERS], "id", "currency", "amount", "placed"),
        "rates": to_frame([*RATES], "currency", "rate", "since"),
    }


def orders_and_shipments(folder: Path) -> Namespace:
    return {
        "orders": to_frame([*ORDERS], "id", "currency", "amount", "placed"),
        "shipments": to_frame([*SHIPMENTS], "id", "shipped"),
    }


def readings(folder: Path) -> Namespace:
    return {"readings": to_frame([*READINGS], "room", "degrees", "at")}


def readings_of_pandas(folder: Path) -> Namespace:
    rows = [(room, degrees, pd.Timestamp(moment(at))) for room, degrees, at in READINGS]
    return {"readings": pd.DataFrame(rows, columns=["room", "degrees", "at"])}


def views_and_purchases(folder: Path) -> Namespace:
    return {
        "views": to_frame([*VIEWS], "page", "at"),
        "purchases": to_frame([*PURCHASES], "page", "at"),
    }


def readings_in_a_file(folder: Path) -> Namespace:
    rows = [{"room": room, "at": f"2026-01-01T{at}Z"} for room, _, at in READINGS]
    write_lines(folder, "readings.jsonl", rows, age=60)
    return {}


def check_moved(namespace: Namespace, folder: Path) -> None:
    assert (folder / "on-spark").is_dir()
    assert namespace["answer"] == 0


def check_pandas(namespace: Namespace, folder: Path) -> None:
    assert isinstance(namespace["answer"], pd.DataFrame)
    expected = [(moment("09:00:00"), 10, None), (moment("09:10:00"), 21, 11),
                (moment("09:20:00"), 7, -14)]  # fmt: skip
    assert_rows(namespace["answer"], "window_start total change", expected)


TASKS = [
    Task(
        "sql_rates_of_a_time",
        "`orders` (id, currency, amount, placed) and `rates` (currency, rate, since) are Polars "
        "frames; a rate holds until the next one of its currency. With SQL compute each order's "
        "amount times the rate at its time. `answer` is a frame with the columns id and worth.",
        expects_rows("id worth", [(1, 10), (2, 40), (3, 90)]),
        orders_and_rates,
    ),
    Task(
        "sql_unshipped_orders",
        "`orders` (id, currency, amount, placed) and `shipments` (id, shipped) are Polars frames. "
        "With SQL list all orders with the shipment of the four hours after each, or NULL. "
        "`answer` is a frame with the columns id and shipped.",
        expects_rows("id shipped", [(1, moment("12:59:00")), (2, None), (3, None)]),
        orders_and_shipments,
    ),
    Task(
        "sql_longest_sessions",
        "`readings` is a Polars frame with room, degrees and at. With SQL count the readings of "
        "each room in sessions with a gap of 10 minutes, none of them longer than 10 minutes. "
        "`answer` is a frame with the columns room and n.",
        expects_rows("room n", [("attic", 1), ("attic", 1), ("hall", 1), ("hall", 3)]),
        readings,
    ),
    Task(
        "change_of_each_window",
        "`readings` is a pandas frame with room, degrees and at. Sum degrees of all rooms in ten "
        "minutes, and the change against the window before. `answer` is a pandas frame with "
        "window_start, total and change, by time.",
        check_pandas,
        readings_of_pandas,
    ),
    Task(
        "moving_average",
        "`readings` is a Polars frame with room, degrees and at. For each reading compute the mean "
        "of it and the one before it of the same room. `answer` is a frame with room, at and mean.",
        expects_rows(
            "room at mean",
            [
                ("hall", moment("09:01:00"), 3),
                ("hall", moment("09:02:00"), 4.5),
                ("hall", moment("09:11:00"), 7.5),
                ("hall", moment("09:12:00"), 10.5),
                ("attic", moment("09:03:00"), 1),
                ("attic", moment("09:25:00"), 4),
            ],
        ),
        readings,
    ),
    Task(
        "two_lengths",
        "`readings` is a Polars frame with room, degrees and at. Count the readings of each room "
        "in windows of 10 minutes and of 30 minutes. `answer` is one frame with room, minutes "
        "(10 or 30), window_start and n.",
        expects_rows(
            "room minutes window_start n",
            [
                ("hall", 10, moment("09:00:00"), 2),
                ("hall", 10, moment("09:10:00"), 2),
                ("attic", 10, moment("09:00:00"), 1),
                ("attic", 10, moment("09:20:00"), 1),
                ("hall", 30, moment("09:00:00"), 4),
                ("attic", 30, moment("09:00:00"), 2),
            ],
        ),
        readings,
    ),
    Task(
        "running_totals",
        "`readings` is a Polars frame with room, degrees and at. For all rooms together show the "
        "sum of degrees since the full hour every ten minutes, up to half past. `answer` is a "
        "frame with window_end and total.",
        lambda namespace, folder: assert_rows(
            namespace["answer"].filter(pl.col("window_end").dt.minute().is_between(1, 30)),
            "window_end total",
            [(moment("09:10:00"), 10), (moment("09:20:00"), 31), (moment("09:30:00"), 38)],
        ),
        readings,
    ),
    Task(
        "correction_in_a_test",
        "Show in a test, without a checkpoint, what a count by room in windows of ten minutes with "
        "an hour's grace emits when readings of hall come at 09:01, 09:12 and then 09:02, each in "
        "a batch of its own, and the stream goes on. `answer` is a list of (batch, n, emission).",
        lambda namespace, folder: assert_rows(
            [dict(zip("bne", row, strict=True)) for row in namespace["answer"]],
            "b n e",
            [(1, 1, "full"), (2, 2, "late")],
        ),
    ),
    Task(
        "moved_to_spark",
        "Count the rows of readings.jsonl (room, at) by room in windows of ten minutes, without "
        "Spark, until all is read. Then write a checkpoint into the folder on-spark with which "
        "the query can go on on Spark. `answer` is the number of the last batch.",
        check_moved,
        readings_in_a_file,
    ),
    Task(
        "conversion",
        "`views` and `purchases` are Polars frames with page and at. For each page and ten minutes "
        "give the purchases per view, 0 without any. `answer` is a frame with page, window_start "
        "and rate.",
        expects_rows(
            "page window_start rate",
            [
                ("home", moment("09:00:00"), 0.5),
                ("cart", moment("09:00:00"), 1),
                ("cart", moment("09:10:00"), 0),
            ],
        ),
        views_and_purchases,
    ),
]
