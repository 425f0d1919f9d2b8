"""The subjects of a search: each draws cases, and compares a runner with the oracle.

A case is a query, its messages in steps, and the runner that runs it. Hypothesis draws it from the
strategies of the property tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from unittest import mock

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from tests.duckdb_runner import compute_windows
from tests.join_runners import JoinRunner
from tests.property import agreement
from tests.property.joins import ALL, Query, queries
from tests.property.streams import WIDEST, Range, Stream, Twins, any_streams, twins_in_time
from tests.property.zoned import zoned_streams
from tests.runners import OracleRunner, Runner
from tests.search import smaller
from tests.search.smaller import Pass
from tests.transcripts.writing import write_join_transcript, write_transcript

from muntin.model.policies import Each, Never, WaitingLimit
from muntin.state import runs

FOLD_COUNTS = st.sampled_from((2, runs.MAX_RUNS))
"""The number of runs after which the engine folds them; a few steps would fold none otherwise."""


def fold_after(count: int) -> AbstractContextManager[Any]:
    """Make the engine fold after some runs and, if these are few, divide segments of few rows."""
    rows = runs.UNDIVIDED_ROWS if count == runs.MAX_RUNS else 3 * count
    return mock.patch.multiple(runs, MAX_RUNS=count, UNDIVIDED_ROWS=rows)


@dataclass(frozen=True)
class Case:
    """A drawn stream or query, its runner, and the number of runs that the engine folds."""

    drawn: Any
    runner: Any
    runs: int


def _simplify_drawn(passes: list[Pass]) -> list[Pass]:
    """Return passes that simplify a case by simplifying its drawn part."""

    def simplify_case(simplify: Pass) -> Pass:
        return lambda case: (replace(case, drawn=drawn) for drawn in simplify(case.drawn))

    return [simplify_case(simplify) for simplify in passes]


# DuckDB doesn't cut sessions, so that only the oracle is asked of those.
ANY_WINDOWS = replace(WIDEST, kinds=(*WIDEST.kinds, "longest", "cut", "trailing"))


@st.composite
def limited_streams(draw: st.DrawFn) -> Stream:
    """Draw streams of which few windows may wait to emit."""
    stream = draw(any_streams(Range(("fixed", "cumulating", "days"), replays=True)))
    firing = stream.spec.firing
    early = Never() if firing.early in (None, Each()) else firing.early
    limit = WaitingLimit(draw(st.integers(1, 4)), False)
    firing = replace(firing, early=early, over=limit)
    return replace(stream, spec=replace(stream.spec, firing=firing))


@dataclass(frozen=True)
class Windows:
    """Windows of all messages, also late ones: each step agrees with the oracle."""

    runner_choices: Sequence[Runner]
    examples: int
    drawn_from: Range = ANY_WINDOWS
    tries: int = 300
    name: str = "windows"

    @cached_property
    def cases(self) -> SearchStrategy[Case]:
        streams = any_streams(self.drawn_from)
        if self.drawn_from == ANY_WINDOWS:
            streams = streams | limited_streams() | zoned_streams()
        return st.builds(Case, streams, st.sampled_from(self.runner_choices), FOLD_COUNTS)

    @property
    def passes(self) -> list[Pass]:
        return _simplify_drawn(smaller.list_stream_passes())

    def runners(self, case: Case) -> list[str]:
        return ["oracle", case.runner.name]

    def differences(self, case: Case) -> list[str]:
        stream: Stream = case.drawn
        if not case.runner.runs(stream.spec, stream.steps):
            return []
        output = OracleRunner().run(stream.spec, stream.steps)
        texts = agreement.accounting_differences(stream.steps, output)
        with fold_after(case.runs):
            return texts + agreement.differences(case.runner, stream.spec, stream.steps)

    def write_transcript(self, name: str, case: Case) -> str:
        return write_transcript(name, case.drawn.spec, case.drawn.steps)


@dataclass(frozen=True)
class Twice:
    """One set of messages, arranged in two ways: the last revisions agree, also with DuckDB."""

    runner_choices: Sequence[Runner]
    examples: int
    by_duckdb: bool = True
    reference: Runner = OracleRunner()  # noqa: RUF009 (it is frozen)
    drawn_from: Range = WIDEST
    tries: int = 300
    name: str = "twins"

    @cached_property
    def cases(self) -> SearchStrategy[Case]:
        twins = twins_in_time(self.drawn_from)
        return st.builds(Case, twins, st.sampled_from(self.runner_choices), FOLD_COUNTS)

    @property
    def passes(self) -> list[Pass]:
        return _simplify_drawn(smaller.list_twin_passes())

    def runners(self, case: Case) -> list[str]:
        return ["oracle", case.runner.name, *(["duckdb"] if self.by_duckdb else [])]

    def differences(self, case: Case) -> list[str]:
        twins: Twins = case.drawn
        with fold_after(case.runs):
            revisions = agreement.last_revisions(case.runner, twins.spec, twins.first)
        other = agreement.last_revisions(self.reference, twins.spec, twins.second)
        texts = agreement.revision_differences(revisions, other)
        if self.by_duckdb:
            at_once = compute_windows(twins.spec, twins.second)
            columns = next(iter(at_once.values()), {})
            # DuckDB doesn't compute filled windows, which have no messages.
            has_fill = twins.spec.firing.fill is not None
            rows = {
                window: row
                for window, row in other.items()
                if not has_fill or row.get("n", window in at_once)
            }
            emitted = {
                window: {name: row[name] for name in columns} for window, row in rows.items()
            }
            duckdb_texts = agreement.revision_differences(emitted, at_once)
            texts += [f"not as in DuckDB: {text}" for text in duckdb_texts]
        return texts

    def write_transcript(self, name: str, case: Case) -> str:
        twins: Twins = case.drawn
        pairs = {"one": twins.first, "other": twins.second}
        return "\n".join(write_transcript(f"{name}, {n}", twins.spec, s) for n, s in pairs.items())


@dataclass(frozen=True)
class Joins:
    """Joins of all kinds: each step agrees with the oracle."""

    runner_choices: Sequence[JoinRunner]
    examples: int
    tries: int = 300
    name: str = "joins"

    @cached_property
    def cases(self) -> SearchStrategy[Case]:
        return st.builds(
            Case, queries(policies=ALL), st.sampled_from(self.runner_choices), FOLD_COUNTS
        )

    @property
    def passes(self) -> list[Pass]:
        return _simplify_drawn(smaller.list_join_passes())

    def runners(self, case: Case) -> list[str]:
        return ["oracle of joins", f"{case.runner.name} of joins"]

    def differences(self, case: Case) -> list[str]:
        query: Query = case.drawn
        if not case.runner.runs(query.spec, query.steps):
            return []
        with fold_after(case.runs):
            return agreement.join_differences(case.runner, query.spec, query.types, query.steps)

    def write_transcript(self, name: str, case: Case) -> str:
        query: Query = case.drawn
        return write_join_transcript(name, query.spec, query.types, query.steps)
