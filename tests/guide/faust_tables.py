"""The code of Faust's guide "Tables and Windowing", unchanged except for the import.

Only code that the guide omits is added: the app, the classes that it mentions without showing them,
a function around a bare ``async for``, and a table name of the guide's first example, which defines
``totals`` and uses ``table``.
"""
# fmt: off

from __future__ import annotations

from datetime import timedelta
from typing import Any

import muntin as faust


def new_app(name: str) -> Any:
    return faust.App(name, max_ahead=None)


def basics() -> Any:
    app = new_app("basics")

    class Withdrawal(faust.Record):
        account: str
        amount: float

    totals = app.Table('totals', default=int)
    table = totals

    @app.task
    async def main():
        async for event in app.topic('withdrawals', value_type=Withdrawal).stream():
            table[event.account] += event.amount

    return app, {"totals": totals}


def repartition() -> Any:
    app = new_app("repartitioned")

    class Withdrawal(faust.Record):
        account: str
        country: str
        amount: float

    withdrawals_topic = app.topic('withdrawals', value_type=Withdrawal)  # noqa: F841

    country_to_total = app.Table(
        'country_to_total', default=int).tumbling(10.0, expires=10.0)

    @app.task
    async def main():
        withdrawals_stream = app.topic('withdrawals', value_type=Withdrawal).stream()
        withdrawals_by_country = withdrawals_stream.group_by(Withdrawal.country)

        async for withdrawal in withdrawals_by_country:
            country_to_total[withdrawal.country] += withdrawal.amount

    return app, {"country_to_total": country_to_total}


class Withdrawal(faust.Record):
    user: str
    country: str
    amount: float


def incorrect() -> Any:
    app = new_app("incorrect")
    withdrawals_topic = app.topic('withdrawals', value_type=Withdrawal)

    user_to_total = app.Table('user_to_total', default=int)
    country_to_total = app.Table(
        'country_to_total', default=int).tumbling(10.0, expires=10.0)


    @app.agent(withdrawals_topic)
    async def find_large_withdrawals(withdrawals):
        async for withdrawal in withdrawals:
            user_to_total[withdrawal.user] += withdrawal.amount
            country_to_total[withdrawal.country] += withdrawal.amount

    return app, {"user_to_total": user_to_total, "country_to_total": country_to_total}


def correct() -> Any:
    app = new_app("corrected")
    withdrawals_topic = app.topic('withdrawals', value_type=Withdrawal)

    user_to_total = app.Table('user_to_total', default=int)
    country_to_total = app.Table(
        'country_to_total', default=int).tumbling(10.0, expires=10.0)


    @app.agent(withdrawals_topic)
    async def find_large_user_withdrawals(withdrawals):
        async for withdrawal in withdrawals:
            user_to_total[withdrawal.user] += withdrawal.amount


    @app.agent(withdrawals_topic)
    async def find_large_country_withdrawals(withdrawals):
        async for withdrawal in withdrawals.group_by(Withdrawal.country):
            country_to_total[withdrawal.country] += withdrawal.amount

    return app, {"user_to_total": user_to_total, "country_to_total": country_to_total}


def changelogging(*, set_again: bool) -> Any:
    app = new_app("changelogging")

    class Withdrawal(faust.Record):
        account: str
        amount: float

    user_withdrawals = app.Table('user_withdrawals', default=list)

    @app.task
    async def explicit():
        async for event in app.topic('withdrawals', value_type=Withdrawal).stream():
            withdrawals = user_withdrawals[event.account]
            withdrawals.append(event.amount)
            if set_again:
                user_withdrawals[event.account] = withdrawals

    return app, {"user_withdrawals": user_withdrawals}


def windowing() -> Any:
    app = new_app("windowing")

    class Event(faust.Record):
        page: str

    views = app.Table('views', default=int).tumbling(timedelta(minutes=1),
        expires=timedelta(hours=1))

    events_topic = app.topic('events_elk', value_type=Event)

    @app.agent(events_topic)
    async def aggregate_page_views(events):
        async for event in events:
            page = event.page
            views[page] += 1
            if views[page].now() >= 10000:
                # Page is trending for current processing time window
                print('Trending now')
            if views[page].current(event) >= 10000:
                # Page would be trending in the event's time window
                print('Trending when event happend')
            if views[page].delta(timedelta(minutes=30)) > views[page].now():
                print('Less popular compared to 30 minutes back')

    return app, {"views": views}
