"""Random tuples, and tuples of one's own."""

from __future__ import annotations

import uuid

import polars as pl

from muntin.apps.windowing.packing import convert_rows, pack
from muntin.apps.windowing.tuples import TupleRange, generate_tuples, parse_uuids


def stretch(first: int, end: int, rate: int = 15_000) -> TupleRange:
    return TupleRange(first, end, 40_000, due=1_700_000_000_000_000, rate=rate, clock=0)


def test_a_tuple_follows_from_its_number_and_the_seed():
    whole = generate_tuples(7, stretch(0, 40_000))
    parts = pl.concat([generate_tuples(7, part) for part in stretch(0, 40_000).parts(7)])
    assert whole.equals(parts)
    assert not whole.equals(generate_tuples(8, stretch(0, 40_000)))
    assert len(generate_tuples(7, stretch(5, 5))) == 0


def test_times_are_spread_at_the_rate_and_end_when_due():
    times = generate_tuples(0, stretch(10_000, 40_000))["ts"]
    assert times.is_sorted()
    assert times[-1] == 1_700_000_000_000
    assert times[-1] - times[0] == 2000


def test_values_are_normal_and_ids_are_uuids():
    whole = generate_tuples(0, stretch(0, 40_000))
    assert abs(whole["val"].mean()) < 25
    assert 970 < whole["val"].std() < 1030
    first = uuid.UUID(int=(whole["high"][0] << 64) | whole["low"][0])
    assert first.version == 4
    assert first.variant == uuid.RFC_4122
    assert whole.select("high", "low").n_unique() == 40_000


def test_shards_get_about_as_much_each_and_everything_once():
    whole = generate_tuples(0, stretch(0, 40_000))
    packed = pack(whole, 4, ledger=True, rejected={"malformed": 2})
    tuples = [part.frames["rows"] for part in packed]
    assert all(9_500 < len(part) < 10_500 for part in tuples)
    assert pl.concat(tuples).sort("ts", "high").equals(whole.sort("ts", "high"))
    assert [part.frames["ledger"]["n"].sum() for part in packed] == [40_000] * 4
    assert {part.header["latest"] for part in packed} == {whole["ts"].max()}
    assert [part.header["rejected"] for part in packed] == [{"malformed": 2}, {}, {}, {}]


def test_a_shard_that_gets_no_tuples_is_sent_what_all_have_to_know():
    packed = pack(generate_tuples(0, stretch(0, 1)), 3, ledger=True, wall=7)
    assert [part.shard for part in packed] == [0, 1, 2]
    assert {part.header["wall"] for part in packed} == {7}
    assert sum("rows" in part.frames for part in packed) == 1
    assert [len(part.frames["ledger"]) for part in packed] == [1, 1, 1]


def test_bad_rows_are_rejected_with_a_reason():
    good = str(uuid.UUID(int=(1 << 64) | 2))
    rows = pl.DataFrame(
        {
            "uuid": [good, None, good, "12", good],
            "val": [7, 7, 7, 7, None],
            "update_ts": [1999, 1, None, 1, 1],
        },
        schema={"uuid": pl.String, "val": pl.Int64, "update_ts": pl.Datetime("us")},
        strict=False,
    )
    tuples, rejected = convert_rows(rows)
    assert tuples.rows() == [(1, 2, 7, 1)]
    assert rejected == {"null_key": 1, "null_time": 1, "malformed": 2}


def test_uuids_are_read_with_and_without_dashes_in_any_case():
    one = uuid.uuid4()
    high, low = parse_uuids(pl.Series([str(one), one.hex.upper()]))
    assert high.to_list() == [one.int >> 64] * 2
    assert low.to_list() == [one.int & (2**64 - 1)] * 2
