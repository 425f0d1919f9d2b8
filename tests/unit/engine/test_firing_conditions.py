"""Tests that conditions of triggers which the engine can't compute are refused."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from muntin.engine import columns
from muntin.engine.windows.operator import make_combiner
from muntin.model import aggregates
from muntin.model.errors import OptionError
from muntin.standalone import windowed

SCHEMA = pl.Schema({"v": pl.String(), "t": pl.Int64(), columns.TIME: pl.Int64()})


@pytest.mark.parametrize(
    ("when", "problem"),
    [
        ("most > 3", "compares values of different types"),
        ("n = 'a'", "compares values of different types"),
        ("other > 3", "is neither an aggregate nor a key"),
    ],
)
@pytest.mark.parametrize("policy", ["early", "late"])
def test_conditions_of_wrong_types_or_names_are_refused(
    policy: str, when: str, problem: str
) -> None:
    grace: dict[str, Any] = {"grace": "1 s"} if policy == "late" else {}
    query = getattr(windowed(time="t").tumbling("1 s"), policy)(when=when, **grace)
    with pytest.raises(OptionError, match=problem):
        make_combiner(query.agg(n=aggregates.count(), most=aggregates.max("v")), SCHEMA)
