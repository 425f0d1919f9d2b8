"""Tasks that newcomers set themselves in their first hour."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from tests.docs.tasks.task import Namespace, Task, expects_rows, moment

BIDS = [
    ("a", "x", 4, "08:05:00"),
    ("b", "y", 2, "08:07:00"),
    ("a", "y", 5, "08:09:00"),
    ("b", "x", 3, "08:11:00"),
    ("a", "x", 1, "08:13:00"),
    ("b", "z", 6, "08:17:00"),
]


def frame() -> pl.DataFrame:
    rows = [(*bid[:3], moment(bid[3])) for bid in BIDS]
    return pl.DataFrame(rows, schema=["seller", "item", "price", "at"], orient="row")


def bids(folder: Path) -> Namespace:
    return {"bids": frame()}


def file_of_bids(folder: Path) -> Namespace:
    lines = [f"{seller},{item},{price},2026-01-01 {at}" for seller, item, price, at in BIDS]
    (folder / "bids.csv").write_text("\n".join(["seller,item,price,at", *lines, ""]))
    return {}


def files_with_names(folder: Path) -> Namespace:
    file_of_bids(folder)
    (folder / "items.csv").write_text("item,label\nx,lamp\ny,chair\n")
    return {}


def text_times(folder: Path) -> Namespace:
    rows = [(item, f"2026-01-01T{at}Z") for _, item, _, at in BIDS] + [("x", "soon")]
    return {"bids": pl.DataFrame(rows, schema=["item", "said"], orient="row")}


def two_shops(folder: Path) -> Namespace:
    rows = frame()
    return {
        "north": rows.filter(pl.col("seller") == "a").drop("seller"),
        "south": rows.filter(pl.col("seller") == "b").drop("seller"),
    }


EIGHT, TEN_PAST, TWENTY_PAST = moment("08:00:00"), moment("08:10:00"), moment("08:20:00")
TASKS = [
    Task(
        "sql_of_a_csv_file",
        "bids.csv has seller, item, price and at. With SQL alone, without Spark, sum the prices in "
        "windows of ten minutes; all windows, the last one too, are in `answer` "
        "(window_start, total).",
        expects_rows("window_start total", [(EIGHT, 11), (TEN_PAST, 10)]),
        file_of_bids,
    ),
    Task(
        "items_as_one_text",
        "With SQL: for each ten minutes of `bids` the items in the order of their times as one "
        "text, separated by '-', in `answer` (window_start, items).",
        expects_rows("window_start items", [(EIGHT, "x-y-y"), (TEN_PAST, "x-x-z")]),
        bids,
    ),
    Task(
        "by_minute_of_the_hour",
        "With SQL: for each hour of `bids` and each tenth minute of the hour (0, 10, ...) the "
        "number of bids whose minute is less than 10, and of the others, in `answer` "
        "(early, n), where early is true or false.",
        expects_rows("early n", [(True, 3), (False, 3)]),
        bids,
    ),
    Task(
        "times_in_a_text",
        "The times of `bids` are texts in `said`. With SQL, count bids for each item and hour in "
        "`answer` (item, n), and put the number of rows without a valid time into `wrong`.",
        lambda namespace, folder: (
            expects_rows("item n", [("x", 3), ("y", 2), ("z", 1)])(namespace, folder),
            _assert_equal(namespace["wrong"], 1),
        )[0],
        text_times,
    ),
    Task(
        "labels_of_a_file",
        "items.csv has a label for some items of bids.csv. With SQL alone, without Spark, count "
        "bids for each label and hour, with those that have no label under None: `answer` "
        "(label, n).",
        expects_rows("label n", [("lamp", 3), ("chair", 2), (None, 1)]),
        files_with_names,
    ),
    Task(
        "both_shops",
        "Sum the prices of `north` and `south` together for each item and ten minutes: `answer` "
        "(item, window_start, total).",
        expects_rows(
            "item window_start total",
            [("x", EIGHT, 4), ("y", EIGHT, 7), ("x", TEN_PAST, 4), ("z", TEN_PAST, 6)],
        ),
        two_shops,
    ),
    Task(
        "weeks_from_monday",
        "Count `bids` for each seller in calendar weeks that begin on Monday: `answer` "
        "(seller, window_start, n).",
        expects_rows(
            "seller window_start n",
            [
                ("a", moment("00:00:00", "2025-12-29"), 3),
                ("b", moment("00:00:00", "2025-12-29"), 3),
            ],
        ),
        bids,
    ),
    Task(
        "share_of_each_window",
        "For each seller and ten minutes of `bids`, the share of bids over 3, between 0 and 1: "
        "`answer` (seller, window_start, share).",
        expects_rows(
            "seller window_start share",
            [("a", EIGHT, 1), ("b", EIGHT, 0), ("a", TEN_PAST, 0), ("b", TEN_PAST, 0.5)],
        ),
        bids,
    ),
    Task(
        "best_five_minutes",
        "For each hour the greatest number of bids within any of its windows of five minutes that "
        "begin at 0, 5, 10, ...: `answer` (window_start, most).",
        expects_rows("window_start most", [(EIGHT, 3)]),
        bids,
    ),
    Task(
        "silent_sellers",
        "With a gap of three minutes, the visits of each seller in `bids`: the seller, the times "
        "of the first and last bid and the number of bids, in `answer` (seller, first, last, n).",
        expects_rows(
            "seller first last n",
            [
                ("a", moment("08:05:00"), moment("08:05:00"), 1),
                ("a", moment("08:09:00"), moment("08:09:00"), 1),
                ("a", moment("08:13:00"), moment("08:13:00"), 1),
                ("b", moment("08:07:00"), moment("08:07:00"), 1),
                ("b", moment("08:11:00"), moment("08:11:00"), 1),
                ("b", moment("08:17:00"), moment("08:17:00"), 1),
            ],
        ),
        bids,
    ),
]


def _assert_equal(answer: object, expected: object) -> None:
    assert answer == expected
