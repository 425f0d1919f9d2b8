"""Tasks about agents, operators, tests of a query, and running one."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from tests.docs.tasks.sources import files_and_more, two_files
from tests.docs.tasks.task import (
    Namespace,
    Task,
    assert_rows,
    expects_rows,
    list_records,
    moment,
)

import muntin as mt


def payments(folder: Path) -> Namespace:
    states = ["failed", "failed", "paid", "failed", "failed", "failed", "failed", "paid"]
    rows = [
        {"buyer": buyer, "state": state, "at": f"2026-01-01T09:{minute:02}:00Z"}
        for minute, state in enumerate(states)
        for buyer in ("ann", "bob")
        if buyer == "ann" or minute not in (3, 4)
    ]
    return {"payments": rows}


def flights(folder: Path) -> Namespace:
    rows = [("AA", "09:00:00", 20), ("AA", "09:40:00", 35), ("UA", "09:50:00", 5),
            ("AA", "10:10:00", 60)]  # fmt: skip
    return {
        "flights": [
            {"carrier": carrier, "at": f"2026-01-01T{clock}Z", "delay": delay}
            for carrier, clock, delay in rows
        ]
    }


def messages(folder: Path) -> Namespace:
    rows = [("north", 1, 5), ("north", 9, 7), ("south", 12, 1), ("north", 22, 2), ("north", 3, 9)]
    return {"messages": [{"shop": shop, "second": at, "price": price} for shop, at, price in rows]}


def check_operator(namespace: Namespace, folder: Path) -> None:
    full_rows = [
        {**row, "start": row["window_start"]}
        for row in list_records(namespace["answer"])
        if row["emission"] == "full"
    ]
    assert_rows(full_rows, "shop best emission", [("north", 7, "full"), ("south", 1, "full")])
    assert namespace["late"] == 1


def check_test(namespace: Namespace, folder: Path) -> None:
    assert_rows(namespace["answer"], "n emission", [(2, "full"), (1, "full"), (1, "full")])
    assert list(namespace["reasons"]) == ["late"]


def check_metrics(namespace: Namespace, folder: Path) -> None:
    text = namespace["answer"]
    lines = [line for line in text.splitlines() if line.startswith("muntin_messages_total{")]
    values = {
        line.split('fate="')[1].split('"')[0]: float(line.rsplit(" ", 1)[1]) for line in lines
    }
    assert values["seen"] == 5
    assert values["counted"] == 5


def check_rescale(namespace: Namespace, folder: Path) -> None:
    state = mt.open_state(str(folder / "checkpoint"))
    assert (folder / "in" / "3.jsonl").exists()
    assert state.counts["counted"] == 7
    assert namespace["shards"] == 4
    expected = [
        ("home", moment("09:00:00"), 2),
        ("cart", moment("09:00:00"), 1),
        ("home", moment("09:01:00"), 1),
        ("home", moment("09:02:00"), 2),
    ]
    assert_rows(namespace["answer"], "page window_start n", expected)


def parquet_views(folder: Path) -> Namespace:
    (folder / "in").mkdir()
    rows = [("home", "09:00:01"), ("cart", "09:00:20"), ("home", "09:00:50"), ("home", "09:01:10")]
    frame = pl.DataFrame(
        {"page": [page for page, _ in rows], "at": [moment(clock) for _, clock in rows]}
    )
    frame.with_columns(pl.col("at").dt.replace_time_zone("UTC")).write_parquet(
        folder / "in" / "1.parquet"
    )
    return {}


_FILES = (
    "The folder `in` has files of JSON lines with the fields page (text) and at (ISO time with Z). "
)

TASKS = [
    Task(
        "failures_in_a_row",
        "`payments` is a list of dictionaries with the fields buyer, state (failed or paid) "
        "and at, in the order of their times. Write a function that reads them event by "
        "event, with a table that holds for each buyer how many of its payments have failed "
        "in a row, and that reports a buyer at the third failure. `answer` is a frame or "
        "list of what was reported, with buyer and at as in the payment; of a buyer that "
        "fails more than three times in a row only the third is reported.",
        lambda namespace, folder: assert_rows(
            [
                {"buyer": row["buyer"], "at": str(row["at"])}
                for row in list_records(namespace["answer"])
            ],
            "buyer at",
            [("ann", "2026-01-01T09:05:00Z")],
        ),
        payments,
    ),
    Task(
        "table_with_windows",
        "`flights` is a list of dictionaries with the fields carrier, at and delay "
        "(minutes). An agent counts flights that are more than 15 minutes late in a table "
        "with windows of one hour, one after the other, by carrier. `nine` is the number of "
        "AA in the hour of 2026-01-01 09:30 UTC, `ten` in that of 10:30.",
        lambda namespace, folder: assert_rows([namespace], "nine ten", [(2, 1)]),
        flights,
    ),
    Task(
        "operator_per_message",
        "`messages` is a list of dictionaries with the fields shop, second (of the event, "
        "since 1970) and price, in the order of arrival. Our program has a loop of its own: "
        "hand them one by one to an operator that finds the greatest price of a shop in "
        "each ten seconds, with no lateness allowed. `answer` is a frame with the columns "
        "shop, window_start, best and emission of all results; `late` is how many messages "
        "were rejected.",
        check_operator,
        messages,
    ),
    Task(
        "open_windows",
        _FILES
        + (
            "Count the views of each page in each minute, with the progress in the folder "
            "`checkpoint`; read what is there and end. Then look into the checkpoint: which "
            "minutes haven't ended yet, and how many views do they have? `answer` is a frame "
            "with the columns page, window_start and n."
        ),
        expects_rows("page window_start n", [("home", moment("09:02:00"), 1)]),
        two_files,
    ),
    Task(
        "test_without_a_source",
        "Test a query without its source: it counts the messages of a file stream "
        "`in/*.jsonl` (columns page, at) in windows of one minute, with a lateness of ten "
        "seconds. The test's messages are, batch by batch: home at 2026-01-01 09:00:05 and "
        "09:00:20 UTC; home at 09:01:30; home at 09:00:50, which is too late; home at "
        "09:02:30; and then the input ends. `answer` is a frame of what was emitted, with "
        "the columns n and emission; `reasons` is a list of the reasons of rejected "
        "messages.",
        check_test,
    ),
    Task(
        "figures_for_prometheus",
        _FILES
        + (
            "Count the views of each page in each minute, and serve the query's figures for "
            "Prometheus on the loopback. When all is read, fetch them by HTTP: `answer` is "
            "their text."
        ),
        check_metrics,
        two_files,
    ),
    Task(
        "more_shards",
        _FILES
        + (
            "Count the views of each page in each minute that is complete, with the progress in "
            "the folder `checkpoint`. Read what is there in one shard, and end. Then call "
            "`add_files()`, which writes another file, give the query four shards (`shards` is "
            "their number) and run it again: state goes with it. `answer` is a frame of the "
            "results of both runs, with the columns page, window_start and n."
        ),
        check_rescale,
        files_and_more,
    ),
    Task(
        "stream_on_spark",
        "The folder `in` has Parquet files with the columns page and at. Read it as a "
        "stream on Spark that ends when all is read, count the views of each page in each "
        "minute with early results at every batch, and keep the newest ones in memory or in "
        "a table: `answer` is a frame with the columns page, window_start and n.",
        expects_rows(
            "page window_start n",
            [
                ("home", moment("09:00:00"), 2),
                ("cart", moment("09:00:00"), 1),
                ("home", moment("09:01:00"), 1),
            ],
        ),
        spark=True,
        setup=parquet_views,
    ),
]
