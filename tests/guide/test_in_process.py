"""Runs the examples of Faust's guide in this process."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.guide import faust_tables

import muntin as mt
from muntin.stores import Image, memory

WITHDRAWALS = [
    {"user": "ann", "country": "NL", "amount": 2.5, "at": 1.0},
    {"user": "bob", "country": "NL", "amount": 1.0, "at": 4.0},
    {"user": "ann", "country": "DE", "amount": 4.0, "at": 12.0},
    {"user": "bob", "country": "NL", "amount": 8.0, "at": 9.0},
    {"user": "cay", "country": "NL", "amount": 16.0, "at": 31.0},
    {"user": "cay", "country": "DE", "amount": 32.0, "at": 2.0},
]
ACCOUNTS = [{"account": row["user"], "amount": row["amount"]} for row in WITHDRAWALS]


def test_basics() -> None:
    app, tables = faust_tables.basics()
    with app.run({"withdrawals": mt.source(ACCOUNTS, key="account")}, partitions=3):
        assert dict(tables["totals"].items()) == {"ann": 6.5, "bob": 9.0, "cay": 48.0}


@pytest.mark.parametrize("partitions", [1, 3])
def test_group_by(partitions: int) -> None:
    app, tables = faust_tables.repartition()
    rows = [{**row, "account": row["user"]} for row in WITHDRAWALS]
    source = mt.source(rows, key="account", time="at")
    with app.run({"withdrawals": source}, partitions=partitions) as run:
        totals = tables["country_to_total"]
        # The watermark is 31, so windows that ended at 20 or before have expired.
        assert dict(totals.items().current(35.0)) == {"NL": 16.0}
        assert dict(totals.items().current(5.0)) == {}
        (late,) = run.rejected
        assert (late.reason, late.value.amount, late.table) == ("late", 32.0, "country_to_total")


@pytest.mark.parametrize("partitions", [1, 3])
def test_incorrect_usage_is_refused(partitions: int) -> None:
    app, _ = faust_tables.incorrect()
    source = mt.source(WITHDRAWALS, key="user", time="at")
    with pytest.raises(
        mt.PartitionError, match=r"'country_to_total'.*'NL'.*'(ann|bob)'"
    ) as error_info:
        app.run({"withdrawals": source}, partitions=partitions)
    assert "group_by('country')" in str(error_info.value)


@pytest.mark.parametrize("partitions", [1, 3])
def test_corrected(partitions: int) -> None:
    app, tables = faust_tables.correct()
    source = mt.source(WITHDRAWALS, key="user", time="at")
    with app.run({"withdrawals": source}, partitions=partitions):
        assert dict(tables["user_to_total"].items()) == {"ann": 6.5, "bob": 9.0, "cay": 48.0}
        assert dict(tables["country_to_total"].items().current(31.0)) == {"NL": 16.0}


@pytest.mark.parametrize("set_again", [True, False])
def test_values_changed_by_reference_outlive_a_restart(set_again: bool) -> None:
    """In Faust, the second form would lose the changes; here it doesn't."""
    image = Image()
    for part in (ACCOUNTS[:4], ACCOUNTS[4:]):
        app, tables = faust_tables.changelogging(set_again=set_again)
        with app.open(store=memory(image)) as run:
            for row in part:
                run.send("withdrawals", row, key=row["account"])
    with app.open(store=memory(image)):
        withdrawals = dict(tables["user_withdrawals"].items())
    assert withdrawals == {"ann": [2.5, 4.0], "bob": [1.0, 8.0], "cay": [16.0, 32.0]}


def test_windowing(capsys: pytest.CaptureFixture[str]) -> None:
    app, tables = faust_tables.windowing()
    seconds = [*[60.0 + i / 1000 for i in range(10_001)], 1900.0, 61.0]
    rows = [{"page": "home", "at": second} for second in seconds]
    with app.run({"events_elk": mt.source(rows, key="page", time="at")}):
        views = tables["views"]["home"]
        assert (views.current(65.0), views.current(1900.0)) == (10_002, 1)
    counts = Counter(capsys.readouterr().out.splitlines())
    # The window at 1900 has fewer views than half an hour before; the last event is late.
    assert counts == {
        "Trending now": 2,
        "Trending when event happend": 3,
        "Less popular compared to 30 minutes back": 1,
    }
