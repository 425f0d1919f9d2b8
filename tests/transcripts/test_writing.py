"""What is written in the notation of the transcripts is read back as it was."""

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
from tests.transcripts.test_joins import by_name
from tests.transcripts.test_joins import differences as join_differences
from tests.transcripts.test_transcripts import CASES, differences
from tests.transcripts.writing import join_transcript, transcript


@given(stream=any_streams(EVERYTHING))
def test_streams(stream: Stream) -> None:
    case = read_back(transcript("any: stream", stream.spec, stream.steps))
    assert case.name == "any: stream"
    assert case.steps == stream.steps
    written = {**case.spec.facts(), "types": ""}
    assert written == {**stream.spec.facts(), "types": ""}
    assert differences(case, OracleRunner()) == []


@pytest.mark.parametrize("case", CASES, ids=by_name)
def test_cases(case: Case) -> None:
    again = read_back(transcript(case.name, case.spec, case.steps))
    assert repr(again.steps) == repr(case.steps)
    assert again.spec.facts() == case.spec.facts()
    assert differences(again, OracleRunner()) == []


@given(query=queries())
def test_joins(query: Query) -> None:
    case = joins_read_back(join_transcript("any join", query.spec, query.types, query.steps))
    assert case.steps == query.steps
    assert case.types == query.types
    assert join_differences(case, OracleJoinRunner()) == []


@pytest.mark.parametrize("case", JOINS, ids=by_name)
def test_cases_of_joins(case: JoinCase) -> None:
    if not OracleJoinRunner().runs(case.spec, case.steps):
        pytest.skip("the oracle can't take these steps")
    again = joins_read_back(join_transcript(case.name, case.spec, case.types, case.steps))
    assert again.steps == case.steps
    assert join_differences(again, OracleJoinRunner()) == []


def read_back(text: str) -> Case:
    with TemporaryDirectory() as folder:
        (Path(folder) / "case.yaml").write_text(text)
        return read_cases(Path(folder))[0]


def joins_read_back(text: str) -> JoinCase:
    with TemporaryDirectory() as folder:
        (Path(folder) / "case.yaml").write_text(text)
        return read_joins(Path(folder))[0]
