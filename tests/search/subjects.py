"""What is drawn, and what is held against what.

A case is a query, its messages cut into steps, and the runner that runs it. Hypothesis draws it
from the strategies of the property tests, and makes it smaller.
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
from tests.duckdb_runner import computed_at_once
from tests.join_runners import JoinRunner
from tests.property import agreement
from tests.property.joins import ALL, Query, queries
from tests.property.streams import WIDEST, Range, Stream, Twins, any_streams, twins_in_time
from tests.property.zoned import zoned_streams
from tests.runners import OracleRunner, Runner
from tests.search import smaller
from tests.search.smaller import Pass
from tests.transcripts.writing import join_transcript, transcript

from muntin.model.policies import Each, Never, WaitingLimit
from muntin.state import runs

FOLDED = st.sampled_from((2, runs.MAX_RUNS))
"""After how many runs the engine folds them; few steps would fold none otherwise."""


def fold_after(count: int) -> AbstractContextManager[Any]:
    """Have the engine fold after some runs and, if these are few, divide segments of few rows."""
    rows = runs.UNDIVIDED_ROWS if count == runs.MAX_RUNS else 3 * count
    return mock.patch.multiple(runs, MAX_RUNS=count, UNDIVIDED_ROWS=rows)


@dataclass(frozen=True)
class Case:
    """What was drawn, and the way that it goes."""

    drawn: Any
    runner: Any
    runs: int


def _of_drawn(passes: list[Pass]) -> list[Pass]:
    """What makes what was drawn simpler makes the case simpler."""

    def of_case(simpler: Pass) -> Pass:
        return lambda case: (replace(case, drawn=drawn) for drawn in simpler(case.drawn))

    return [of_case(simpler) for simpler in passes]


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
    """Windows of all messages, late ones too: each step says what the oracle says of it."""

    through: Sequence[Runner]
    examples: int
    drawn_from: Range = ANY_WINDOWS
    tries: int = 300
    name: str = "windows"

    @cached_property
    def cases(self) -> SearchStrategy[Case]:
        streams = any_streams(self.drawn_from)
        if self.drawn_from == ANY_WINDOWS:
            streams = streams | limited_streams() | zoned_streams()
        return st.builds(Case, streams, st.sampled_from(self.through), FOLDED)

    @property
    def passes(self) -> list[Pass]:
        return _of_drawn(smaller.of_streams())

    def runners(self, case: Case) -> list[str]:
        return ["oracle", case.runner.name]

    def differences(self, case: Case) -> list[str]:
        stream: Stream = case.drawn
        if not case.runner.runs(stream.spec, stream.steps):
            return []
        said = OracleRunner().run(stream.spec, stream.steps)
        found = agreement.unaccounted(stream.steps, said)
        with fold_after(case.runs):
            return found + agreement.differences(case.runner, stream.spec, stream.steps)

    def transcript(self, name: str, case: Case) -> str:
        return transcript(name, case.drawn.spec, case.drawn.steps)


@dataclass(frozen=True)
class Twice:
    """One set of messages, arranged in two ways: the last revisions are the same, and DuckDB's."""

    through: Sequence[Runner]
    examples: int
    by_duckdb: bool = True
    reference: Runner = OracleRunner()  # noqa: RUF009 (it is frozen)
    drawn_from: Range = WIDEST
    tries: int = 300
    name: str = "twins"

    @cached_property
    def cases(self) -> SearchStrategy[Case]:
        twins = twins_in_time(self.drawn_from)
        return st.builds(Case, twins, st.sampled_from(self.through), FOLDED)

    @property
    def passes(self) -> list[Pass]:
        return _of_drawn(smaller.of_twins())

    def runners(self, case: Case) -> list[str]:
        return ["oracle", case.runner.name, *(["duckdb"] if self.by_duckdb else [])]

    def differences(self, case: Case) -> list[str]:
        twins: Twins = case.drawn
        with fold_after(case.runs):
            said = agreement.last_revisions(case.runner, twins.spec, twins.one)
        other = agreement.last_revisions(self.reference, twins.spec, twins.other)
        found = agreement.revision_differences(said, other)
        if self.by_duckdb:
            at_once = computed_at_once(twins.spec, twins.other)
            known = next(iter(at_once.values()), {})
            # A window that is filled has no message, which DuckDB knows nothing of.
            filled = twins.spec.firing.fill is not None
            held = {
                at: row for at, row in other.items() if not filled or row.get("n", at in at_once)
            }
            emitted = {at: {name: row[name] for name in known} for at, row in held.items()}
            texts = agreement.revision_differences(emitted, at_once)
            found += [f"not as in DuckDB: {text}" for text in texts]
        return found

    def transcript(self, name: str, case: Case) -> str:
        twins: Twins = case.drawn
        pairs = {"one": twins.one, "other": twins.other}
        return "\n".join(transcript(f"{name}, {n}", twins.spec, s) for n, s in pairs.items())


@dataclass(frozen=True)
class Joins:
    """Joins of all kinds: each step says what the oracle says of it."""

    through: Sequence[JoinRunner]
    examples: int
    tries: int = 300
    name: str = "joins"

    @cached_property
    def cases(self) -> SearchStrategy[Case]:
        return st.builds(Case, queries(policies=ALL), st.sampled_from(self.through), FOLDED)

    @property
    def passes(self) -> list[Pass]:
        return _of_drawn(smaller.of_joins())

    def runners(self, case: Case) -> list[str]:
        return ["oracle of joins", f"{case.runner.name} of joins"]

    def differences(self, case: Case) -> list[str]:
        query: Query = case.drawn
        if not case.runner.runs(query.spec, query.steps):
            return []
        with fold_after(case.runs):
            return agreement.join_differences(case.runner, query.spec, query.types, query.steps)

    def transcript(self, name: str, case: Case) -> str:
        query: Query = case.drawn
        return join_transcript(name, query.spec, query.types, query.steps)
