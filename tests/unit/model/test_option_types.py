"""Tests of the limits of options of plain types."""

from __future__ import annotations

import pytest

from muntin.model.errors import OptionError
from muntin.model.option_types import check_count, check_shards, parse_bytes


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
