"""Tests of the events of Nexmark: their proportions, their ids, and that they are repeatable."""

from __future__ import annotations

import polars as pl
import pytest
from examples.nexmark.generator import CITIES, FIRST_ID, T0_MS, Nexmark

EVENTS = Nexmark(per_second=10_000)
KINDS = ("persons", "auctions", "bids")


@pytest.mark.parametrize("kind", KINDS)
def test_a_stretch_is_the_same_however_it_is_cut(kind: str) -> None:
    make = getattr(EVENTS, kind)
    whole = pl.from_arrow(make(0, 5_000))
    parts = [make(start, min(start + 773, 5_000)) for start in range(0, 5_000, 773)]
    assert whole.equals(pl.concat(map(pl.from_arrow, parts)))
    assert not whole.equals(pl.from_arrow(getattr(Nexmark(seed=1), kind)(0, 5_000)))


def test_of_fifty_events_one_is_a_person_and_three_are_auctions() -> None:
    assert [getattr(EVENTS, kind)(0, 50_000).num_rows for kind in KINDS] == [1_000, 3_000, 46_000]


def test_ids_are_counted() -> None:
    for kind, number in (("persons", 1_000), ("auctions", 3_000)):
        ids = getattr(EVENTS, kind)(0, 50_000)["id"].to_pylist()
        assert ids == list(range(FIRST_ID, FIRST_ID + number))


def test_times_are_even() -> None:
    times = pl.from_arrow(EVENTS.bids(0, 50_000))["time"].dt.epoch("ms") - T0_MS
    assert times.is_sorted()
    assert (times[0], times[-1]) == (0, 4_999)


def test_half_of_the_bids_are_on_the_hot_auction_and_three_quarters_of_one_bidder() -> None:
    bids = pl.from_arrow(EVENTS.bids(1_000_000, 1_050_000))
    hot = bids.select(
        ((pl.col("auction") - FIRST_ID) % 100 == 0).mean().alias("auction"),
        ((pl.col("bidder") - FIRST_ID) % 100 == 1).mean().alias("bidder"),
        (pl.col("channel").str.starts_with("channel-")).mean().alias("small"),
    ).row(0)
    assert hot == pytest.approx((0.505, 0.75, 0.5), abs=0.02)


def test_prices_have_every_number_of_digits_alike() -> None:
    prices = pl.from_arrow(EVENTS.bids(0, 50_000))["price"]
    assert prices.min() >= 100
    assert prices.max() <= 100_000_000
    digits = prices.log10().floor().clip(2, 7).value_counts(normalize=True)["proportion"]
    assert digits.to_list() == pytest.approx([1 / 6] * 6, abs=0.02)


def test_bidders_are_known_or_soon_to_come() -> None:
    events = 500_000
    bids = pl.from_arrow(EVENTS.bids(events, events + 50))
    newest = events // 50 + FIRST_ID
    assert bids["bidder"].is_between(newest - 1_000, newest + 10).all()


def test_cities_are_all_there() -> None:
    assert set(EVENTS.persons(0, 50_000)["city"].to_pylist()) == set(CITIES)
