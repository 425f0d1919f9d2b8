"""The subjects of a search on Spark, in one session.

Each query on Spark takes seconds, so several cases share one: either all are streams of a few
steps, or all are batch frames.
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
from tests.transcripts.writing import write_join_transcript, write_transcript

import muntin as mt
from muntin.model.bounds import ByArrival

LEAST, MOST = 4, 6
"""The least and the greatest number of cases that share a query."""
STEPS = 4
"""The greatest number of steps, since a batch on Spark takes at least half a second."""


def list_subjects(session: SparkSession | None = None) -> list[Subject]:
    """Return the subjects of windows and of joins on Spark."""
    session = session or _start_session()
    return [
        _make_windows_subject(SparkRunner(session)),
        _make_joins_subject(SparkJoinRunner(session)),
    ]


def _start_session() -> SparkSession:
    session = mt.session("muntin-search", master="local[2]")
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


@dataclass(frozen=True)
class Several:
    """Several cases in one query on Spark, each of which agrees with the oracle.

    Attributes:
        name: The name of the subject.
        cases: The strategy that draws lists of cases.
        run: Runs all cases on Spark.
        differs: Returns the differences of the output of a case.
        write: Writes a case as a transcript.
        case_passes: Functions that simplify a case.
    """

    name: str
    cases: SearchStrategy[list[Any]]
    run: Callable[[list[Any]], Sequence[Any]]
    differs: Callable[[Any, Any], list[str]]
    write: Callable[[str, Any], str]
    case_passes: Sequence[Pass]
    examples: int = 5  # the first one is the simplest possible
    tries: int = 25

    @property
    def passes(self) -> list[Pass]:
        return smaller.list_passes_for_several(self.case_passes)

    def runners(self, case: list[Any]) -> list[str]:
        suffix = " of joins" * self.name.startswith("joins")
        return [f"oracle{suffix}", f"spark{suffix}"] * len(case)

    def differences(self, case: list[Any]) -> list[str]:
        outputs = zip(case, self.run(case), strict=True)
        return [text for drawn, emitted in outputs for text in self.differs(drawn, emitted)]

    def write_transcript(self, name: str, case: list[Any]) -> str:
        return "\n".join(self.write(f"{name}, {n}", drawn) for n, drawn in enumerate(case, start=1))


def _make_windows_subject(runner: SparkRunner) -> Subject:
    drawn = st.lists(any_streams(WIDEST), min_size=LEAST, max_size=MOST)
    return Several(
        "windows on Spark",
        st.builds(_fit_streams, drawn, st.booleans()),
        lambda streams: runner.run_all([(s.spec, s.steps) for s in streams]),
        lambda s, emitted: agreement.differences_of_output(runner, s.spec, s.steps, emitted),
        lambda name, s: write_transcript(name, s.spec, s.steps),
        smaller.list_stream_passes(),
    )


def _make_joins_subject(runner: SparkJoinRunner) -> Subject:
    drawn = st.lists(queries(policies=ALL), min_size=LEAST, max_size=MOST)
    return Several(
        "joins on Spark",
        st.builds(_fit_joins, drawn, st.booleans()),
        lambda drawn_queries: runner.run_all([(q.spec, q.types, q.steps) for q in drawn_queries]),
        lambda q, emitted: agreement.differences_of_pairs(
            runner, q.spec, q.types, q.steps, emitted
        ),
        lambda name, q: write_join_transcript(name, q.spec, q.types, q.steps),
        smaller.list_join_passes(),
    )


def _fit_streams(streams: list[Stream], at_once: bool) -> list[Stream]:
    return [fit_stream(stream, at_once) for stream in streams]


def fit_stream(stream: Stream, at_once: bool) -> Stream:
    """Return a batch frame, which is one step, or a stream of a few steps without an end."""
    if at_once:
        messages = [message for step in stream.steps for message in step.messages]
        return replace(stream, steps=[Batch(messages, stream.steps[-1].wall, final=True)])
    return replace(stream, steps=_merge_last_steps(stream.steps[:-1]))


def _merge_last_steps(steps: Sequence[Batch]) -> list[Batch]:
    """Return at most ``STEPS`` steps, with the last ones merged."""
    if len(steps) <= STEPS:
        return list(steps)
    rest = [message for step in steps[STEPS - 1 :] for message in step.messages]
    return [*steps[: STEPS - 1], replace(steps[-1], messages=rest)]


def _fit_joins(drawn: list[Query], at_once: bool) -> list[Query]:
    return [_fit_join(query, at_once) for query in drawn]


def _fit_join(query: Query, at_once: bool) -> Query:
    """Fit both sides of a join, and remove malformed times, which the runner can't read."""
    steps = [
        replace(
            step,
            left=_replace_malformed_times(step.left),
            right=_replace_malformed_times(step.right),
            final=False,
        )
        for step in query.steps
    ]
    if at_once:
        left = [message for step in steps for message in step.left]
        right = [message for step in steps for message in step.right]
        steps = [JoinBatch(left, right, steps[-1].wall, final=True)]
    return fill_deletions(replace(query, steps=steps[:STEPS]))


def fill_deletions(query: Query) -> Query:
    """Add a value to each right row of NULLs, which would delete the row of its key.

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

    steps = [replace(step, right=[fill(row) for row in step.right]) for step in query.steps]
    return replace(query, steps=steps)


def _replace_malformed_times(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{n: None if v == "soon" else v for n, v in m.items()} for m in messages]
