"""Tasks about the aggregates of a window's messages."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import polars as pl
from tests.docs.tasks.task import Namespace, Task, assert_rows, expects_rows, moment

ORDERS = [
    ("ann", "books", "09:01:00", 12),
    ("ann", "games", "09:02:00", 60),
    ("bob", "books", "09:03:00", 30),
    ("bob", "books", "09:04:00", 8),
    ("eve", "tools", "09:31:00", 25),
    ("eve", "books", "10:05:00", 9),
]
_SCHEMA = ["buyer", "shelf", "at", "price"]


def orders(folder: Path) -> Namespace:
    rows = [(buyer, shelf, moment(clock), price) for buyer, shelf, clock, price in ORDERS]
    return {"orders": pl.DataFrame(rows, schema=_SCHEMA, orient="row")}


def check_dearest(namespace: Namespace, folder: Path) -> None:
    orders_by_group: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for buyer, shelf, clock, price in ORDERS:
        orders_by_group[clock[:2], shelf].append((price, buyer))
    expected = [
        (moment(f"{hour}:00:00"), shelf, rank, buyer, price)
        for (hour, shelf), prices in orders_by_group.items()
        for rank, (price, buyer) in enumerate(sorted(prices, reverse=True)[:2], start=1)
    ]
    assert_rows(namespace["answer"], "window_start shelf rank buyer price", expected)


def deliveries(folder: Path) -> Namespace:
    rows = [("o1", "09:00:10", 5), ("o2", "09:00:20", 7), ("o1", "09:10:00", 5),
            ("o3", "09:20:00", 1), ("o2", "09:21:00", 8)]  # fmt: skip
    frame = [(key, moment(clock), price) for key, clock, price in rows]
    return {"orders": pl.DataFrame(frame, schema=["id", "at", "price"], orient="row")}


def latencies(folder: Path) -> Namespace:
    values = [float((37 * i) % 101) for i in range(101)]
    return {"requests": pl.DataFrame({"at": [moment("09:00:00")] * 101, "ms": values})}


def interest(folder: Path) -> Namespace:
    rows = [("a", 2.0, "09:00:00"), ("a", 3.0, "09:00:20"), ("b", 5.0, "09:00:30"),
            ("a", 4.0, "09:01:30"), ("a", 0.5, "09:00:40")]  # fmt: skip
    frame = [(fund, factor, moment(clock)) for fund, factor, clock in rows]
    return {"growth": pl.DataFrame(frame, schema=["fund", "factor", "at"], orient="row")}


def visits(folder: Path) -> Namespace:
    rows = [(None, "09:04:00"), ("home", "09:05:00"), (None, "09:06:00"), (None, "09:11:00")]
    frame = [(page, moment(clock)) for page, clock in rows]
    return {"visits": pl.DataFrame(frame, schema=["page", "at"], orient="row")}


def meter(folder: Path) -> Namespace:
    times = [moment("09:04:00"), moment("09:31:00"), moment("09:42:00")]
    return {"readings": pl.DataFrame({"room": ["hall"] * 3, "at": times, "value": [3.0, 9.0, 1.0]})}


_TENS = [moment(f"09:{minute}0:00") for minute in range(5)]


def check_quantiles(namespace: Namespace, folder: Path) -> None:
    (record,) = namespace["answer"].iter_rows(named=True)
    assert record["middle"] == 50
    assert record["p90"] in (90, 91)


TASKS = [
    Task(
        "dearest_orders",
        "`orders` is a Polars frame with the columns buyer, shelf, at and price. Which two "
        "orders of each shelf are the dearest of each hour? `answer` is a frame with the "
        "columns window_start, shelf, rank (1 for the dearest), buyer and price.",
        check_dearest,
        orders,
    ),
    Task(
        "best_shelves",
        "`orders` is a Polars frame with the columns buyer, shelf, at and price. Which two "
        "shelves had the greatest income in each hour? `answer` is a frame with the columns "
        "window_start, rank (1 for the greatest), shelf and income.",
        expects_rows(
            "window_start rank shelf income",
            [
                (moment("09:00:00"), 1, "games", 60),
                (moment("09:00:00"), 2, "books", 50),
                (moment("10:00:00"), 1, "books", 9),
            ],
        ),
        orders,
    ),
    Task(
        "first_of_each_id",
        "`orders` is a Polars frame with the columns id, at and price, in which senders "
        "have repeated orders under the same id within the hour. Keep only the first one of "
        "each id in each hour: `answer` is a frame with the columns id, at and price.",
        expects_rows(
            "id at price",
            [
                ("o1", moment("09:00:10"), 5),
                ("o2", moment("09:00:20"), 7),
                ("o3", moment("09:20:00"), 1),
            ],
        ),
        deliveries,
    ),
    Task(
        "quantiles",
        "`requests` is a Polars frame with the columns at and ms. For each minute compute "
        "the median of ms and its 90th percentile. `answer` is a Polars frame with the "
        "columns middle and p90.",
        check_quantiles,
        latencies,
    ),
    Task(
        "buyer_of_the_dearest",
        "`orders` is a Polars frame with the columns buyer, shelf, at and price. For each "
        "hour say who paid the greatest price, and which were the three greatest prices. "
        "`answer` is a frame with the columns window_start, buyer and prices (a list, the "
        "greatest first).",
        expects_rows(
            "window_start buyer prices",
            [(moment("09:00:00"), "ann", [60, 30, 25]), (moment("10:00:00"), "eve", [9])],
        ),
        orders,
    ),
    Task(
        "distinct_buyers",
        "`orders` is a Polars frame with the columns buyer, shelf, at and price. For each "
        "shelf and hour say exactly how many different buyers it had, and how many of its "
        "orders cost more than 10. `answer` is a frame with the columns shelf, "
        "window_start, buyers and dear.",
        expects_rows(
            "shelf window_start buyers dear",
            [
                ("books", moment("09:00:00"), 2, 2),
                ("games", moment("09:00:00"), 1, 1),
                ("tools", moment("09:00:00"), 1, 1),
                ("books", moment("10:00:00"), 1, 0),
            ],
        ),
        orders,
    ),
    Task(
        "product_of_factors",
        "`growth` is a Polars frame with the columns fund, factor and at. There is no "
        "aggregate that multiplies: write one of your own, and compute the product of a "
        "fund's factors in each minute. `answer` is a frame with the columns fund, "
        "window_start and product.",
        expects_rows(
            "fund window_start product",
            [
                ("a", moment("09:00:00"), 3),
                ("b", moment("09:00:00"), 5),
                ("a", moment("09:01:00"), 4),
            ],
        ),
        interest,
    ),
    Task(
        "unknown_page",
        "`visits` is a Polars frame with the columns page, which may be NULL, and at. Count "
        "the visits of each page in each ten minutes; those without a page are a group of "
        "their own. `answer` is a frame with the columns page, window_start and n.",
        expects_rows(
            "page window_start n",
            [
                (None, moment("09:00:00"), 2),
                ("home", moment("09:00:00"), 1),
                (None, moment("09:10:00"), 1),
            ],
        ),
        visits,
    ),
    Task(
        "empty_windows_as_zero",
        "`readings` is a Polars frame with the columns room, at and value. Count the "
        "readings of a room in each ten minutes. Ten minutes without a reading between two "
        "others, at most an hour of them, have a row with n = 0. `answer` is a frame with "
        "the columns room, window_start and n.",
        expects_rows(
            "room window_start n",
            [("hall", start, n) for start, n in zip(_TENS, (1, 0, 0, 1, 1), strict=True)],
        ),
        meter,
    ),
    Task(
        "empty_windows_as_before",
        "`readings` is a Polars frame with the columns room, at and value. Show the mean "
        "value of a room in each ten minutes. Ten minutes without a reading repeat the mean "
        "before them, for up to an hour. `answer` is a frame with the columns room, "
        "window_start and mean.",
        expects_rows(
            "room window_start mean",
            [("hall", start, mean) for start, mean in zip(_TENS, (3, 3, 3, 9, 1), strict=True)],
        ),
        meter,
    ),
    Task(
        "empty_windows_on_a_line",
        "`readings` is a Polars frame with the columns room, at and value. Show the mean "
        "value of a room in each ten minutes. Ten minutes without a reading lie on a "
        "straight line between the means around them, for up to an hour. `answer` is a "
        "frame with the columns room, window_start and mean.",
        expects_rows(
            "room window_start mean",
            [("hall", start, mean) for start, mean in zip(_TENS, (3, 5, 7, 9, 1), strict=True)],
        ),
        meter,
    ),
    Task(
        "busiest_minutes",
        "`orders` is a Polars frame with the columns buyer, shelf, at and price. Count all "
        "orders in each five minutes, and of these counts find the greatest of each hour. "
        "`answer` is a frame with the columns window_start (the hour) and most.",
        expects_rows("window_start most", [(moment("09:00:00"), 4), (moment("10:00:00"), 1)]),
        orders,
    ),
]
