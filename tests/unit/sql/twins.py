"""Helpers of the SQL tests: queries in Python without a DataFrame, and lowered SQL."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from pyspark.sql import DataFrame

import muntin as mt
from muntin.model.errors import SqlError
from muntin.model.pipeline import JoinRelation, WindowRelation
from muntin.spark.windowed import Windowed
from muntin.sql.api import compile_query

FRAME = Mock(spec=DataFrame)


def sentence(**options: Any) -> Windowed:
    """Return a query in Python over a frame without a session, where NULL is a group as in SQL."""
    return mt.windowed(FRAME, **{"nulls": "group", **options})


def lower_query(text: str, **variables: str) -> WindowRelation:
    """Compile a query over windows and return its lowered form."""
    query = compile_query(text, variables).lowered.query
    assert isinstance(query, WindowRelation)
    return query


def lower_join(text: str) -> JoinRelation:
    """Compile a join and return its lowered form."""
    join = compile_query(text).lowered.query
    assert isinstance(join, JoinRelation)
    return join


def get_refusal(text: str) -> tuple[str, str]:
    """Return the message that refuses a text, and the part of the text above the carets."""
    try:
        compile_query(text)
    except SqlError as error:
        lines = str(error).splitlines()
        assert len(lines) == 3
        start, end = lines[2].index("^"), lines[2].rindex("^") + 1
        return lines[0], lines[1][start:end]
    raise AssertionError("it isn't refused")
