"""Tasks about kinds of windows over finite frames."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import timedelta
from pathlib import Path

import polars as pl
from tests.docs.tasks.task import (
    Namespace,
    Task,
    assert_rows,
    assign_windows,
    expects_rows,
    moment,
)

VIEWS = [
    ("home", moment("09:00:05"), "ann"),
    ("home", moment("09:07:00"), "bob"),
    ("cart", moment("09:09:59"), "ann"),
    ("home", moment("09:10:00"), "ann"),
    ("cart", moment("09:24:30"), "eve"),
    ("home", moment("09:29:00"), "bob"),
]


def views(folder: Path) -> Namespace:
    return {"views": pl.DataFrame(VIEWS, schema=["page", "at", "user"], orient="row")}


def check_tumbling(namespace: Namespace, folder: Path) -> None:
    counts = Counter(assign_windows(((page, at) for page, at, _ in VIEWS), 600, 600))
    assert_rows(
        namespace["answer"],
        "page window_start n",
        [(page, start, n) for (page, start), n in counts.items()],
    )


SALES = [("north", 5, "09:01:00"), ("south", 7, "09:04:00"), ("north", 11, "09:06:00"),
         ("north", 2, "09:14:00"), ("south", 1, "09:15:00")]  # fmt: skip


def sales(folder: Path) -> Namespace:
    rows = [(shop, price, moment(clock)) for shop, price, clock in SALES]
    return {"sales": pl.DataFrame(rows, schema=["shop", "price", "at"], orient="row")}


def check_hopping(namespace: Namespace, folder: Path) -> None:
    totals: dict[tuple[str, object], int] = defaultdict(int)
    rows = (((shop, price), moment(clock)) for shop, price, clock in SALES)
    for (shop, price), start in assign_windows(rows, 600, 300):
        totals[shop, start] += price
    expected = [(shop, start, total) for (shop, start), total in totals.items()]
    assert_rows(namespace["answer"], "shop window_start total", expected)


def nights(folder: Path) -> Namespace:
    times = ["2025-03-29 22:59:59", "2025-03-29 23:00:00", "2025-03-30 21:59:59",
             "2025-03-30 22:00:00", "2025-03-31 10:00:00"]  # fmt: skip
    return {"calls": pl.DataFrame({"at": times}).select(at=pl.col("at").str.to_datetime())}


def clicks(folder: Path) -> Namespace:
    rows = [("ann", "09:00:00", "home"), ("ann", "09:20:00", "cart"), ("bob", "09:25:00", "home"),
            ("ann", "10:05:00", "home"), ("bob", "09:26:00", "sale")]  # fmt: skip
    frame = [(user, moment(clock), page) for user, clock, page in rows]
    return {"clicks": pl.DataFrame(frame, schema=["user", "at", "page"], orient="row")}


def crawler(folder: Path) -> Namespace:
    times = [moment("09:00:00") + timedelta(minutes=5 * i) for i in range(10)]
    return {"hits": pl.DataFrame({"bot": ["b"] * 10, "at": times})}


def events(folder: Path) -> Namespace:
    rows = [
        ("ann", "09:00:00", "open"),
        ("ann", "09:03:00", "click"),
        ("ann", "09:05:00", "close"),
        ("ann", "09:06:00", "open"),
        ("ann", "09:08:00", "close"),
        ("bob", "09:01:00", "open"),
    ]
    frame = [(user, moment(clock), kind) for user, clock, kind in rows]
    return {"events": pl.DataFrame(frame, schema=["user", "at", "kind"], orient="row")}


def machines(folder: Path) -> Namespace:
    states = ["on", "on", "off", "on", "on", "on"]
    times = [moment("09:00:00") + timedelta(minutes=4 * i) for i in range(6)]
    return {"readings": pl.DataFrame({"machine": ["m"] * 6, "at": times, "state": states})}


PAYMENTS = [("c1", 10, "09:00:00"), ("c1", 30, "09:04:00"), ("c2", 7, "09:05:00"),
            ("c1", 5, "09:09:00"), ("c1", 8, "09:14:00"), ("c2", 9, "09:30:00")]  # fmt: skip


def payments(folder: Path) -> Namespace:
    rows = [(card, amount, moment(clock)) for card, amount, clock in PAYMENTS]
    return {"payments": pl.DataFrame(rows, schema=["card", "amount", "at"], orient="row")}


def check_rolling(namespace: Namespace, folder: Path) -> None:
    expected = []
    for card, amount, clock in PAYMENTS:
        since = moment(clock) - timedelta(minutes=10)
        n = sum(c == card and since < moment(t) <= moment(clock) for c, _, t in PAYMENTS)
        expected.append((card, amount, moment(clock), n))
    assert_rows(namespace["answer"], "card amount at n", expected)


def check_history(namespace: Namespace, folder: Path) -> None:
    expected = []
    for card, amount, clock in PAYMENTS:
        since = moment(clock) - timedelta(minutes=10)
        before = [a for c, a, t in PAYMENTS if c == card and since <= moment(t) < moment(clock)]
        expected.append((card, amount, sum(before) if before else None, len(before)))
    assert_rows(namespace["answer"], "card amount spent_before n_before", expected)


def check_densest(namespace: Namespace, folder: Path) -> None:
    most: dict[str, int] = defaultdict(int)
    for card, _, clock in PAYMENTS:
        since = moment(clock) - timedelta(minutes=9)
        n = sum(c == card and since <= moment(t) <= moment(clock) for c, _, t in PAYMENTS)
        most[card] = max(most[card], n)
    assert_rows(namespace["answer"], "card most", list(most.items()))


def laps(folder: Path) -> Namespace:
    rows = [("r1", 61), ("r2", 70), ("r1", 59), ("r1", 63), ("r2", 69), ("r2", 71),
            ("r1", 60), ("r1", 58), ("r1", 65)]  # fmt: skip
    return {"laps": pl.DataFrame(rows, schema=["runner", "seconds"], orient="row")}


TASKS = [
    Task(
        "tumbling_counts",
        "`views` is a Polars frame of page views with the columns page, at (a time) and "
        "user. Count the views of each page in each ten minutes. `answer` is a frame with "
        "the columns page, window_start and n.",
        check_tumbling,
        views,
    ),
    Task(
        "hopping_sums",
        "`sales` is a Polars frame with the columns shop, price and at. Every five minutes "
        "we want each shop's sum of the last ten minutes: `answer` is a frame with the "
        "columns shop, window_start (a multiple of five minutes) and total.",
        check_hopping,
        sales,
    ),
    Task(
        "days_in_berlin",
        "`calls` is a Polars frame with one column, at, a time in UTC without a zone. Count "
        "the calls of each day as people in Berlin have it, over the weekend when clocks go "
        "forward. `answer` is a frame with the columns window_start, window_end (as "
        "instants) and n.",
        expects_rows(
            "window_start window_end n",
            [
                (moment("23:00:00", "2025-03-28"), moment("23:00:00", "2025-03-29"), 1),
                (moment("23:00:00", "2025-03-29"), moment("22:00:00", "2025-03-30"), 2),
                (moment("22:00:00", "2025-03-30"), moment("22:00:00", "2025-03-31"), 2),
            ],
        ),
        nights,
    ),
    Task(
        "visits",
        "`clicks` is a Polars frame with the columns user, at and page. A visit of a user "
        "ends when nothing was clicked for 30 minutes. `answer` is a frame with a row for "
        "each visit: user, window_start (the first click), clicks (their number) and pages "
        "(a list of its pages in the order of their times).",
        expects_rows(
            "user window_start clicks pages",
            [
                ("ann", moment("09:00:00"), 2, ["home", "cart"]),
                ("ann", moment("10:05:00"), 1, ["home"]),
                ("bob", moment("09:25:00"), 2, ["home", "sale"]),
            ],
        ),
        clicks,
    ),
    Task(
        "longest_visit",
        "`hits` is a Polars frame with the columns bot and at. Group the hits of a bot into "
        "visits: one ends after ten minutes without a hit, or 18 minutes after its first "
        "hit, whichever comes first. `answer` is a frame with the columns window_start and "
        "n.",
        expects_rows(
            "window_start n",
            [(moment("09:00:00"), 4), (moment("09:20:00"), 4), (moment("09:40:00"), 2)],
        ),
        crawler,
    ),
    Task(
        "until_closed",
        "`events` is a Polars frame with the columns user, at and kind. A user's visit ends "
        "with an event of the kind close, or after an hour without events. `answer` is a "
        "frame with the columns user, window_start and n, the number of events, that of the "
        "close among them.",
        expects_rows(
            "user window_start n",
            [
                ("ann", moment("09:00:00"), 3),
                ("ann", moment("09:06:00"), 2),
                ("bob", moment("09:01:00"), 1),
            ],
        ),
        events,
    ),
    Task(
        "stretches_of_a_state",
        "`readings` is a Polars frame with the columns machine, at and state. Find the "
        "stretches in which a machine keeps its state; an hour without a reading ends one, "
        "too. `answer` is a frame with the columns machine, window_start, state and n, the "
        "number of readings.",
        expects_rows(
            "machine window_start state n",
            [
                ("m", moment("09:00:00"), "on", 2),
                ("m", moment("09:08:00"), "off", 1),
                ("m", moment("09:12:00"), "on", 3),
            ],
        ),
        machines,
    ),
    Task(
        "rolling_count",
        "`payments` is a Polars frame with the columns card, amount and at. For each "
        "payment count the payments of its card in the ten minutes up to it: after at minus "
        "ten minutes, and itself included. `answer` is a frame with card, amount, at and n.",
        check_rolling,
        payments,
    ),
    Task(
        "features_before_a_payment",
        "`payments` is a Polars frame with the columns card, amount and at. For each "
        "payment compute what its card did in the ten minutes before it, at minus ten "
        "minutes included and the payment itself not: spent_before (the sum, NULL if there "
        "was none) and n_before. `answer` is a frame with card, amount, spent_before and "
        "n_before.",
        check_history,
        payments,
    ),
    Task(
        "densest_stretch",
        "`payments` is a Polars frame with the columns card, amount and at. What is the "
        "greatest number of payments of a card that lie within nine minutes, both ends "
        "included? `answer` is a frame with card and most, a row for each card.",
        check_densest,
        payments,
    ),
    Task(
        "every_three_laps",
        "`laps` is a Polars frame with the columns runner and seconds, in the order of "
        "arrival and without times. For every three laps of a runner, one after the other, "
        "sum the seconds: `answer` is a frame with the columns runner and total.",
        expects_rows("runner total", [("r1", 183), ("r1", 183), ("r2", 210)]),
        laps,
    ),
]
