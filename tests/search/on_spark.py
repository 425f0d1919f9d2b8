"""The same on Spark, in one session.

A query of Spark's takes seconds however small it is, so several cases share one: all of them
streams of a few steps, or all of them batch frames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pyspark.sql import SparkSession
from tests.join_runners import JoinBatch
from tests.property import agreement
from tests.property.joins import ALL, Query, queries
from tests.property.streams import WIDEST, Stream, any_streams
from tests.runners import Batch
from tests.search import smaller
from tests.search.finding import Subject
from tests.search.smaller import Pass
from tests.spark.join_runner import SparkJoinRunner
from tests.spark.runner import SparkRunner
from tests.transcripts.writing import join_transcript, transcript

import muntin as mt
from muntin.model.bounds import ByArrival

LEAST, MOST = 4, 6
"""How many cases share a query."""
STEPS = 4
"""A batch of Spark's takes half a second at least."""


def subjects(session: SparkSession | None = None) -> list[Subject]:
    """Windows and joins, through Spark alone."""
    session = session or _session()
    return [_windows(SparkRunner(session)), _joins(SparkJoinRunner(session))]


def _session() -> SparkSession:
    session = mt.session("muntin-search", master="local[2]")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


@dataclass(frozen=True)
class Several:
    """Some cases in one query of Spark's; each says what the oracle says of it.

    Attributes:
        name: How it is called.
        cases: Lists of what is drawn.
        run: What Spark says of all of them.
        differs: Where what was said of one is wrong.
        write: One as a transcript.
        of_one: How one is made simpler.
    """

    name: str
    cases: SearchStrategy[list[Any]]
    run: Callable[[list[Any]], Sequence[Any]]
    differs: Callable[[Any, Any], list[str]]
    write: Callable[[str, Any], str]
    of_one: Sequence[Pass]
    examples: int = 5  # of which the first is the simplest that there is
    tries: int = 25

    @property
    def passes(self) -> list[Pass]:
        return smaller.of_several(self.of_one)

    def runners(self, case: list[Any]) -> list[str]:
        of = " of joins" * self.name.startswith("joins")
        return [f"oracle{of}", f"spark{of}"] * len(case)

    def differences(self, case: list[Any]) -> list[str]:
        said = zip(case, self.run(case), strict=True)
        return [text for one, emitted in said for text in self.differs(one, emitted)]

    def transcript(self, name: str, case: list[Any]) -> str:
        return "\n".join(self.write(f"{name}, {n}", one) for n, one in enumerate(case, start=1))


def _windows(runner: SparkRunner) -> Subject:
    drawn = st.lists(any_streams(WIDEST), min_size=LEAST, max_size=MOST)
    return Several(
        "windows on Spark",
        st.builds(_fitted, drawn, st.booleans()),
        lambda streams: runner.run_all([(s.spec, s.steps) for s in streams]),
        lambda s, emitted: agreement.differences_of_output(runner, s.spec, s.steps, emitted),
        lambda name, s: transcript(name, s.spec, s.steps),
        smaller.of_streams(),
    )


def _joins(runner: SparkJoinRunner) -> Subject:
    drawn = st.lists(queries(policies=ALL), min_size=LEAST, max_size=MOST)
    return Several(
        "joins on Spark",
        st.builds(_fitted_joins, drawn, st.booleans()),
        lambda found: runner.run_all([(q.spec, q.types, q.steps) for q in found]),
        lambda q, emitted: agreement.differences_of_pairs(
            runner, q.spec, q.types, q.steps, emitted
        ),
        lambda name, q: join_transcript(name, q.spec, q.types, q.steps),
        smaller.of_joins(),
    )


def _fitted(streams: list[Stream], at_once: bool) -> list[Stream]:
    return [fitted(stream, at_once) for stream in streams]


def fitted(stream: Stream, at_once: bool) -> Stream:
    """A batch frame, which is one step, or a stream of some steps, which has no end."""
    if at_once:
        messages = [message for step in stream.steps for message in step.messages]
        return replace(stream, steps=[Batch(messages, stream.steps[-1].wall, final=True)])
    return replace(stream, steps=_few(stream.steps[:-1]))


def _few(steps: Sequence[Batch]) -> list[Batch]:
    """So many steps at most, the last ones put together."""
    if len(steps) <= STEPS:
        return list(steps)
    rest = [message for step in steps[STEPS - 1 :] for message in step.messages]
    return [*steps[: STEPS - 1], replace(steps[-1], messages=rest)]


def _fitted_joins(found: list[Query], at_once: bool) -> list[Query]:
    return [_fit_join(query, at_once) for query in found]


def _fit_join(query: Query, at_once: bool) -> Query:
    """The same of both sides; the runner reads times that are times."""
    steps = [
        replace(step, left=_readable(step.left), right=_readable(step.right), final=False)
        for step in query.steps
    ]
    if at_once:
        left = [message for step in steps for message in step.left]
        right = [message for step in steps for message in step.right]
        steps = [JoinBatch(left, right, steps[-1].wall, final=True)]
    return fill_deletions(replace(query, steps=steps[:STEPS]))


def fill_deletions(query: Query) -> Query:
    """The join with a value in each right row of NULLs that would delete the row of its key.

    On this runner no row deletes another, since the clock that each row carries is a value.
    """
    if not isinstance(query.spec.bound, ByArrival):
        return query
    side = query.spec.right
    ignored = {*side.keys, side.time, *(side.offset or ())}
    values = [name for name in query.types["right"] if name not in ignored]
    filler = dict.fromkeys(values[:1], 0)

    def fill(message: dict[str, Any]) -> dict[str, Any]:
        return message if any(message[name] is not None for name in values) else message | filler

    steps = [replace(step, right=[fill(one) for one in step.right]) for step in query.steps]
    return replace(query, steps=steps)


def _readable(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{n: None if v == "soon" else v for n, v in m.items()} for m in messages]
