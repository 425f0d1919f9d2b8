"""Tests of measuring a step's input: messages, bytes, and the keys with most messages."""

from __future__ import annotations

import polars as pl

from muntin.engine.arrival import Received, measure_load


def test_heavy_keys_of_messages_and_of_cells_add_up() -> None:
    pages = pl.DataFrame({"page": ["home"] * 3000 + [None] * 500 + [f"p{n}" for n in range(5000)]})
    cells = pl.DataFrame(
        {"k0": ["home", "help", "home"], "pane": [1, 1, 2], "n": [4000, 2500, 1000]}
    )
    load = measure_load([Received(pages, ["page"]), Received(cells, ["k0"], has_cells=True)])
    assert load["load"]["messages"] == 16_000
    assert load["load"]["bytes"] > 16_000
    assert load["heaviest"] == {"home": 8000, "help": 2500, r"\N": 500}


def test_a_heavy_key_forges_no_line_and_no_colour() -> None:
    keys = pl.DataFrame({"k": ["a\x1b[31m\nERROR b\u202e"] * 2000})
    heaviest = measure_load([Received(keys, ["k"])])["heaviest"]
    assert list(heaviest) == [r"a\x1b[31m\nERROR b\u202e"]


def test_a_sample_of_many_messages_is_scaled() -> None:
    messages = pl.DataFrame({"k": (pl.int_range(100_000, eager=True) % 4).cast(pl.String)})
    heaviest = measure_load([Received(messages.filter(pl.col("k") != "3"), ["k"])])["heaviest"]
    assert {*heaviest} == {"0", "1", "2"}
    assert all(abs(number - 25_000) < 1000 for number in heaviest.values())


def test_few_messages_many_keys_and_no_keys_have_no_heavy_key() -> None:
    few_messages = pl.DataFrame({"k": ["a"] * 900})
    many_keys = pl.DataFrame({"k": range(2000)})
    for received in (
        Received(few_messages, ["k"]),
        Received(many_keys, ["k"]),
        Received(many_keys, ()),
        Received(few_messages[:0], ["k"]),
    ):
        assert "heaviest" not in measure_load([received])
