"""The Python sentence without a DataFrame, and what SQL is lowered to."""

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
    """``windowed`` over a frame of no session, with NULL as a group, as SQL has it."""
    return mt.windowed(FRAME, **{"nulls": "group", **options})


def lowered(text: str, **given: str) -> WindowRelation:
    """What a query of windows is lowered to."""
    found = compile_query(text, given).lowered.query
    assert isinstance(found, WindowRelation)
    return found


def joined(text: str) -> JoinRelation:
    """What a join is lowered to."""
    found = compile_query(text).lowered.query
    assert isinstance(found, JoinRelation)
    return found


def refused(text: str) -> tuple[str, str]:
    """What a text is refused for, and the place that the caret points at."""
    try:
        compile_query(text)
    except SqlError as error:
        lines = str(error).splitlines()
        assert len(lines) == 3
        start, end = lines[2].index("^"), lines[2].rindex("^") + 1
        return lines[0], lines[1][start:end]
    raise AssertionError("it isn't refused")
