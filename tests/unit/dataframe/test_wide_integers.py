"""Tests of integers beyond signed 64 bits: hashes of 64 bits, and numbers of 128."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import muntin as mt
from muntin import OptionError

_START = datetime(2026, 1, 1, tzinfo=UTC)
BOUNDS: dict[str, dict[str, Any]] = {
    "distance": {"within": "1 hour"},
    "version": {"as_of": True},
    "newest": {"newest": True},
    "tumbling": {},
    "session": {},
}
HASHES, HUGE = [2**64 - 1, 1], [2**70, 2**70 + 1]


def _make_frame(values: list[int], kind: Any) -> pl.DataFrame:
    at = [_START + timedelta(seconds=second) for second in range(len(values))]
    return pl.DataFrame({"id": pl.Series(values, dtype=kind), "n": [0, 1], "at": at})


def _make_side(values: list[int], kind: Any, bound: str = "") -> Any:
    side: Any = mt.windowed(_make_frame(values, kind), time="at")
    return getattr(side, bound)("1 hour") if bound in ("tumbling", "session") else side


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(
    ("left", "right", "pairs"),
    [
        ((HASHES, pl.UInt64), (HASHES, pl.UInt64), [(0, 0), (1, 1)]),
        ((HASHES, pl.UInt64), ([-1, 1], pl.Int64), [(1, 1)]),
        (([-1, 1], pl.Int8), (HASHES, pl.UInt64), [(1, 1)]),
        ((HUGE, pl.Int128), (HUGE, pl.Int128), [(0, 0), (1, 1)]),
    ],
)
def test_they_are_keys_of_joins(
    bound: str, left: tuple[list[int], Any], right: tuple[list[int], Any], pairs: Any
) -> None:
    sides = _make_side(*left, bound), _make_side(*right, bound)
    joined: Any = mt.join(*sides, on="id", **BOUNDS[bound])
    assert sorted(joined.results.select("n", "n_right").rows()) == pairs


def test_they_are_compared_with_those_of_64_bits_only_if_they_have_as_many() -> None:
    with pytest.raises(OptionError, match=r"id.* is Int128 on the left and Int64"):
        mt.join(
            _make_side(HUGE, pl.Int128), _make_side([-1, 1], pl.Int64), on="id", within="1 hour"
        )


@pytest.mark.parametrize("kind", ["tumbling", "session", "sliding", "rolling"])
def test_they_are_keys_and_values_of_windows(kind: str) -> None:
    windows = _make_side(HUGE, pl.Int128)
    huge = getattr(windows, kind)("1 minute").agg(most=mt.max("id"), total=mt.sum("id"))
    assert huge.results["most"].max() == HUGE[1]
    assert huge.results["total"].to_list() == [None] * len(huge.results)
    assert set(huge.rejected["reason"]) == {"overflow"}
    keyed = mt.windowed(_make_frame(HUGE, pl.Int128).drop("n"), key="id", time="at")
    assert getattr(keyed, kind)("1 minute").agg(n=mt.count()).results["id"].sort().to_list() == HUGE


def test_a_query_is_not_started_with_results_that_arrow_lacks() -> None:
    query = mt.windowed(_make_frame(HUGE, pl.Int128), time="at").tumbling("1 minute")
    with pytest.raises(OptionError, match=r"'most' has a column of type Int128.*cast it"):
        query.agg(most=mt.max("id")).start(checkpoint=None)


def test_a_table_is_looked_up_by_them() -> None:
    pytest.importorskip("sqlglot", reason="SQL needs an extra")
    ids = pl.DataFrame({"id": pl.Series(HASHES, dtype=pl.UInt64), "at": [_START] * 2})
    names = pl.DataFrame({"key": pl.Series(HASHES, dtype=pl.UInt64), "name": ["a", "b"]})
    named: Any = mt.sql(
        "SELECT name, count(*) AS n FROM ids JOIN names ON ids.id = names.key "
        "GROUP BY name, TUMBLE(at, INTERVAL '1' DAY)",
        ids=ids,
        names=names,
    )
    assert named.results.select("name", "n").rows() == [("a", 1), ("b", 1)]


def test_a_type_of_arrow_that_polars_lacks_is_refused() -> None:
    wide = pa.table({"at": [_START], "v": pa.array([1], pa.decimal256(50, 2))})
    with pytest.raises(OptionError, match="cast its columns to types that Arrow has"):
        mt.windowed(wide, time="at")
