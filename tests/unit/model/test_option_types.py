"""Tests of the limits of options of plain types."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from muntin.model.errors import OptionError
from muntin.model.option_types import (
    check_count,
    check_seconds,
    check_shards,
    parse_bytes,
    parse_folder,
    parse_path,
)


def test_counts_up_to_what_64_bits_hold() -> None:
    check_count("rows", 2**63 - 1)
    with pytest.raises(OptionError, match=r"rows=.* is too great; give 9,223,372,036,854,775,807"):
        check_count("rows", 2**63)


@pytest.mark.parametrize("shards", [10_001, 10**30])
def test_more_shards_than_a_query_has(shards: int) -> None:
    check_shards(10_000)
    with pytest.raises(OptionError, match="is too great; give 10,000 or less"):
        check_shards(shards)


@pytest.mark.parametrize("size", ["9" * 400 + " B", "9" * 5000 + ".5 KB", "9000000 TB"])
def test_more_bytes_than_64_bits_hold(size: str) -> None:
    assert parse_bytes("bytes_per_batch", "8000000 TB") == 8_000_000 << 40
    with pytest.raises(OptionError, match="is too great"):
        parse_bytes("bytes_per_batch", size)


def test_a_path_may_begin_with_the_home_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    assert parse_folder("checkpoint", "~/views") == "/home/ann/views"
    assert parse_path("path", Path("~/in/*.csv")) == "/home/ann/in/*.csv"
    assert parse_path("path", "in/~x") == "in/~x"
    with pytest.raises(OptionError, match="path=5 isn't a path; give a text"):
        parse_path("path", 5)


@pytest.mark.parametrize("seconds", ["5 seconds", timedelta(seconds=5), float("nan"), True])
def test_what_isnt_a_number_of_seconds(seconds: object) -> None:
    check_seconds("timeout", 0.5)
    check_seconds("timeout", None)
    with pytest.raises(OptionError, match=r"timeout=.* isn't a number of seconds; give one"):
        check_seconds("timeout", seconds)
