from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.queries import SCHEMA, combiner

from muntin.engine import operator
from muntin.engine.combine import Combiner
from muntin.engine.gather import SessionCombiner
from muntin.engine.paned import PanedShard
from muntin.engine.runs import FrameCache, MemoryBlobs
from muntin.engine.sessions import SessionShard
from muntin.engine.slides import SlidingShard
from muntin.model.cumulating import Cumulating
from muntin.model.days import Days
from muntin.model.kinds import Kind
from muntin.model.sessions import Sessions
from muntin.model.sliding import Sliding
from muntin.model.windows import Windows

RUN_BY = [
    (Windows(10, 5), Combiner, PanedShard),
    (Cumulating(10, 5), Combiner, PanedShard),
    (Days(Windows(1, 1), "UTC"), Combiner, PanedShard),
    (Sliding(10), Combiner, SlidingShard),
    (Sessions(10), SessionCombiner, SessionShard),
]


@pytest.mark.parametrize(("windows", "lifting", "running"), RUN_BY, ids=lambda part: str(part))
def test_what_runs_which_windows(windows: Kind, lifting: type, running: Any) -> None:
    spec = combiner(windows).spec if lifting is Combiner else combiner().spec
    if lifting is not Combiner:
        spec = type(spec)(**(vars(spec) | {"windows": windows}))
    made = operator.combiner(spec, SCHEMA)
    assert type(made) is lifting
    assert type(operator.shard(made, MemoryBlobs(), FrameCache())) is running
