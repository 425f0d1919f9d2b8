from __future__ import annotations

import pytest

import muntin as mt
from muntin.model.errors import OptionError
from muntin.standalone import SessionAggregator, windowed


def test_conditions_are_refused_by_name() -> None:
    visits = windowed(key="user", time="at").session("30 s", end="leaves").agg(n=mt.count())
    with pytest.raises(OptionError, match="end='leaves' isn't for standalone operators"):
        SessionAggregator(visits)
