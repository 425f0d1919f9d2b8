"""Cases that are written in the notation of the transcripts are read back unchanged."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from tests.join_runners import OracleJoinRunner
from tests.property.joins import Query, queries
from tests.property.streams import EVERYTHING, Stream, any_streams
from tests.runners import OracleRunner
from tests.transcripts.join_notation import JoinCase, read_joins
from tests.transcripts.notation import Case, read_cases
from tests.transcripts.test_joins import CASES as JOINS
from tests.transcripts.test_joins import differences as join_differences
from tests.transcripts.test_joins import get_name
from tests.transcripts.test_transcripts import CASES, differences
from tests.transcripts.writing import write_join_transcript, write_transcript


@given(stream=any_streams(EVERYTHING))
def test_streams(stream: Stream) -> None:
    case = parse_case(write_transcript("any: stream", stream.spec, stream.steps))
    assert case.name == "any: stream"
    assert case.steps == stream.steps
    facts = {**case.spec.facts(), "types": ""}
    assert facts == {**stream.spec.facts(), "types": ""}
    assert differences(case, OracleRunner()) == []


@pytest.mark.parametrize("case", CASES, ids=get_name)
def test_cases(case: Case) -> None:
    parsed = parse_case(write_transcript(case.name, case.spec, case.steps))
    assert repr(parsed.steps) == repr(case.steps)
    assert parsed.spec.facts() == case.spec.facts()
    assert differences(parsed, OracleRunner()) == []


@given(query=queries())
def test_joins(query: Query) -> None:
    case = parse_join(write_join_transcript("any join", query.spec, query.types, query.steps))
    assert case.steps == query.steps
    assert case.types == query.types
    assert join_differences(case, OracleJoinRunner()) == []


@pytest.mark.parametrize("case", JOINS, ids=get_name)
def test_cases_of_joins(case: JoinCase) -> None:
    if not OracleJoinRunner().runs(case.spec, case.steps):
        pytest.skip("the oracle can't run these steps")
    parsed = parse_join(write_join_transcript(case.name, case.spec, case.types, case.steps))
    assert parsed.steps == case.steps
    assert join_differences(parsed, OracleJoinRunner()) == []


def parse_case(text: str) -> Case:
    with TemporaryDirectory() as folder:
        (Path(folder) / "case.yaml").write_text(text)
        return read_cases(Path(folder))[0]


def parse_join(text: str) -> JoinCase:
    with TemporaryDirectory() as folder:
        (Path(folder) / "case.yaml").write_text(text)
        return read_joins(Path(folder))[0]
