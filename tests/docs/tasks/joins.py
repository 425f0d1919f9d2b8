"""Tasks about joins of two inputs."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from tests.docs.tasks.task import Namespace, Task, expects_rows, moment


def orders_and_payments(folder: Path) -> Namespace:
    orders = [(1, "09:00:00", 10), (2, "09:01:00", 20), (3, "09:02:00", 30), (4, "09:30:00", 40)]
    paid = [(1, "09:03:00", "card"), (2, "09:20:00", "cash"), (3, "09:01:00", "card"),
            (4, "09:40:00", "cash")]  # fmt: skip
    return {
        "orders": pl.DataFrame(
            [(key, moment(clock), value) for key, clock, value in orders],
            schema=["id", "ordered", "value"], orient="row"),
        "payments": pl.DataFrame(
            [(key, moment(clock), how) for key, clock, how in paid],
            schema=["id", "paid", "means"], orient="row"),
    }  # fmt: skip


def trades_and_rates(folder: Path) -> Namespace:
    trades = [("EUR", "08:59:59", 10), ("EUR", "09:00:00", 20), ("CHF", "09:05:00", 30),
              ("GBP", "09:05:00", 40)]  # fmt: skip
    rates = [("EUR", "08:00:00", 1.1), ("EUR", "09:00:00", 1.2), ("EUR", "09:30:00", 1.3),
             ("CHF", "09:00:00", 1.0)]  # fmt: skip
    return {
        "trades": pl.DataFrame(
            [(currency, moment(clock), amount) for currency, clock, amount in trades],
            schema=["currency", "at", "amount"], orient="row"),
        "rates": pl.DataFrame(
            [(currency, moment(clock), rate) for currency, clock, rate in rates],
            schema=["currency", "since", "rate"], orient="row"),
    }  # fmt: skip


def clicks_and_plans(folder: Path) -> Namespace:
    return {
        "clicks": pl.DataFrame({
            "user": ["ann", "bob", "eve"],
            "at": list(map(moment, ("09:00:00", "09:01:00", "09:02:00")))}),
        "plans": pl.DataFrame({
            "user": ["ann", "bob", "ann"],
            "changed": list(map(moment, ("10:00:00", "08:00:00", "08:30:00"))),
            "plan": ["pro", "free", "team"]}),
    }  # fmt: skip


def ads(folder: Path) -> Namespace:
    shown = [("a", "09:00:00"), ("a", "09:04:00"), ("b", "09:05:00"), ("a", "09:12:00")]
    clicked = [("a", "09:09:00"), ("b", "09:11:00"), ("c", "09:11:30")]
    return {
        name: pl.DataFrame([(ad, moment(clock)) for ad, clock in rows],
                           schema=["ad", "at"], orient="row")
        for name, rows in (("shown", shown), ("clicked", clicked))
    }  # fmt: skip


_ORDERS = (
    "`orders` is a Polars frame with the columns id, ordered (a time) and value; "
    "`payments` has id, paid (a time) and means. "
)

TASKS = [
    Task(
        "paid_in_time",
        _ORDERS
        + (
            "Pair each order with the payment of its id that came at the order's time or up to "
            "ten minutes after it, ends included. `answer` is a frame with the columns id, "
            "value and means."
        ),
        expects_rows("id value means", [(1, 10, "card"), (4, 40, "cash")]),
        orders_and_payments,
    ),
    Task(
        "each_order_and_its_payment",
        _ORDERS
        + (
            "Show every order once: with the means of its payment if one lies at most ten "
            "minutes before or after it, and with NULL otherwise. `answer` is a frame with the "
            "columns id, value and means."
        ),
        expects_rows(
            "id value means", [(1, 10, "card"), (2, 20, None), (3, 30, "card"), (4, 40, "cash")]
        ),
        orders_and_payments,
    ),
    Task(
        "unpaid_orders",
        _ORDERS
        + (
            "Which orders weren't paid within the ten minutes after them? `answer` is a frame "
            "with the columns id and value."
        ),
        expects_rows("id value", [(2, 20), (3, 30)]),
        orders_and_payments,
    ),
    Task(
        "rate_of_the_time",
        "`trades` is a Polars frame with the columns currency, at and amount; `rates` has "
        "currency, since and rate, and a rate holds until the next one of its currency. "
        "Show each trade with the rate that held at its time, or NULL. `answer` is a frame "
        "with the columns currency, amount and rate.",
        expects_rows(
            "currency amount rate",
            [("EUR", 10, 1.1), ("EUR", 20, 1.2), ("CHF", 30, 1.0), ("GBP", 40, None)],
        ),
        trades_and_rates,
    ),
    Task(
        "plan_that_arrived_last",
        "`clicks` is a Polars frame with the columns user and at; `plans` has user, changed "
        "and plan, in the order of arrival. Show each click with the plan of its user that "
        "arrived last, whatever the times, or NULL. `answer` is a frame with the columns "
        "user and plan.",
        expects_rows("user plan", [("ann", "team"), ("bob", "free"), ("eve", None)]),
        clicks_and_plans,
    ),
    Task(
        "shown_and_clicked",
        "`shown` and `clicked` are Polars frames with the columns ad and at. Count how "
        "often each ad was shown and how often it was clicked in each ten minutes, and put "
        "both counts into one row; where one of them lacks, it is NULL. `answer` is a frame "
        "with the columns ad, window_start, shown and clicked.",
        expects_rows(
            "ad window_start shown clicked",
            [
                ("a", moment("09:00:00"), 2, 1),
                ("a", moment("09:10:00"), 1, None),
                ("b", moment("09:00:00"), 1, None),
                ("b", moment("09:10:00"), None, 1),
                ("c", moment("09:10:00"), None, 1),
            ],
        ),
        ads,
    ),
]
