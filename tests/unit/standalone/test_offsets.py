"""Tests of windows with the offsets of their first and last messages."""

from __future__ import annotations

import pytest

import muntin as mt
from muntin.model.errors import OptionError
from muntin.standalone import SessionAggregator, WindowedAggregator, windowed
from muntin.stores import Image, memory

SECOND = 1_000_000
BY_OFFSET = windowed(key="shop", time="at", offset=("partition", "offset"))


def test_windows_say_their_first_and_last_offset() -> None:
    spec = BY_OFFSET.tumbling("10 s").late(each=True, grace="1 minute").agg(n=mt.count())
    image = Image()
    with WindowedAggregator(spec, memory(image), offsets=True) as op:
        for offset, at in enumerate((1, 12, 3), start=70):
            op.add_message(key="a", time=at * SECOND, offset=offset)
        windows = op.get_result()
        columns = ["start_offset", "last_offset", "emission", "revision"]
        assert windows.columns == ["shop", "window_start", "window_end", "n", *columns]
        assert windows.select(columns).rows() == [(70, 70, "full", 0), (70, 72, "late", 1)]
        op.flush()
    with WindowedAggregator(spec, memory(image), offsets=True) as op:
        assert op.get_windows().select("n", "start_offset", "last_offset").rows() == [
            (2, 70, 72),
            (1, 71, 71),
        ]


def test_windows_in_rows_and_sessions() -> None:
    numbered = windowed(offset=("partition", "offset")).tumbling(mt.rows(3))
    op = WindowedAggregator(numbered.agg(n=mt.count()), offsets=True)
    for offset in (1, 2, 3):
        op.add_message(offset=offset)
    offsets = op.get_result().select("window_start", "start_offset", "last_offset", "emission")
    assert offsets.rows()[-1] == (0, 1, 2, "full")
    visits = SessionAggregator(BY_OFFSET.session("10 s").agg(n=mt.count()), offsets=True)
    for offset, at in enumerate((1, 8, 30)):
        visits.add_message(key="ann", time=at * SECOND, offset=offset)
    assert visits.get_windows().select("start_offset", "last_offset").rows()[-1] == (2, 2)
    assert visits.get_result().select("start_offset", "last_offset").rows() == [(0, 1)]


def test_what_has_no_offsets_or_other_columns_of_those_names_is_refused() -> None:
    hours = windowed(key="shop", time="at").tumbling("1 hour")
    with pytest.raises(OptionError, match=r"offsets=True asks for what .*offset=\(\"partition\""):
        WindowedAggregator(hours.agg(n=mt.count()), offsets=True)
    named = BY_OFFSET.tumbling("1 hour").agg(last_offset=mt.count())
    with pytest.raises(OptionError, match="adds 'last_offset', which is there; rename it"):
        WindowedAggregator(named, offsets=True)
