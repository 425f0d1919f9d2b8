"""The search finds planted differences, shrinks them, and prints them as transcripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

import pytest
from tests.join_oracle import JoinStep
from tests.join_runners import Columns, EngineJoinRunner, JoinBatch, OracleJoinRunner
from tests.property.joins import Query
from tests.property.streams import Range
from tests.runners import Batch, EngineRunner, OracleRunner
from tests.search.__main__ import main
from tests.search.finding import Examiner, Finding, Subject
from tests.search.on_spark import fill_deletions
from tests.search.rounds import Search
from tests.search.subjects import Joins, Twice, Windows
from tests.transcripts.test_joins import differences as join_differences
from tests.transcripts.test_transcripts import differences
from tests.transcripts.test_writing import parse_case, parse_join

from muntin.model.joins import JoinSpec
from muntin.model.spec import WindowSpec
from muntin.testing.oracle import OracleStep

NARROW = Range(("fixed", "sessions"))


@dataclass(frozen=True)
class Forgetful(OracleRunner):
    """The oracle without the third message of every step."""

    name: str = "forgetful"

    def run(self, spec: WindowSpec, steps: Sequence[Batch]) -> list[OracleStep]:
        received = [replace(s, messages=s.messages[:2] + s.messages[3:]) for s in steps]
        return super().run(spec, received)


@dataclass(frozen=True)
class Hasty(OracleRunner):
    """Raises an error at the second step with two messages or more."""

    name: str = "hasty"

    def run(self, spec: WindowSpec, steps: Sequence[Batch]) -> list[OracleStep]:
        if sum(len(step.messages) > 1 for step in steps) > 1:
            raise KeyError(spec.time)
        return super().run(spec, steps)


@dataclass(frozen=True)
class Deaf(OracleJoinRunner):
    """The oracle with only the first right message of each step."""

    name: str = "deaf"

    def run(self, spec: JoinSpec, types: Columns, steps: Sequence[JoinBatch]) -> list[JoinStep]:
        return super().run(spec, types, [replace(step, right=step.right[:1]) for step in steps])


def find_difference(subject: Subject, seed: int = 1) -> Finding:
    finding = Examiner(subject, lambda: False, Counter()).run_round(seed)
    assert finding is not None
    return finding


def test_a_runner_that_drops_a_message_is_found_out_by_three_messages() -> None:
    finding = find_difference(Windows([Forgetful()], 100, NARROW), 2)
    assert any("seen 2, expected 3" in text for text in finding.differences)
    case = parse_case(finding.subject.write_transcript("pasted", finding.case))
    assert [len(step.messages) for step in case.steps] == [3]
    assert len(case.spec.aggregates) == 1
    assert differences(case, OracleRunner()) == []
    assert differences(case, Forgetful()) != []


def test_a_dropped_message_shows_in_duckdb_too() -> None:
    class Blind(Twice):
        def differences(self, case: Any) -> list[str]:
            return [text for text in super().differences(case) if "DuckDB" in text]

    finding = find_difference(
        Blind([OracleRunner()], 50, reference=Forgetful(), drawn_from=NARROW, tries=30)
    )
    assert "not as in DuckDB" in str(finding)


def test_a_runner_that_raises_is_found_out() -> None:
    finding = find_difference(Windows([Hasty()], 100, NARROW))
    assert "KeyError" in str(finding)
    case = parse_case(finding.subject.write_transcript("pasted", finding.case))
    assert [len(step.messages) for step in case.steps] == [2, 2]


def test_what_fails_once_is_counted_and_no_finding() -> None:
    third = iter([None, None, TimeoutError()])

    class Flaky(Windows):
        def differences(self, case: Any) -> list[str]:
            if error := next(third, None):
                raise error
            return super().differences(case)

    tally: Counter[str] = Counter()
    assert Examiner(Flaky([OracleRunner()], 5), lambda: False, tally).run_round(1) is None
    assert tally["failed once"] == 1


def test_a_runner_of_joins_that_drops_a_message_is_found_out() -> None:
    finding = find_difference(Joins([Deaf()], 200))
    case = parse_join(finding.subject.write_transcript("pasted", finding.case))
    assert [len(step.right) for step in case.steps if step.right] == [2]
    assert join_differences(case, OracleJoinRunner()) == []


_DELETION = """\
- name: found by the search with seed 1631811895 in round 20, 1
  spec:
    on: key
    how: inner
    newest: "true"
    left: {columns: "key:string time id:long lane:long offset:long", offset: lane offset}
    right: {columns: "key:string time id:long lane:long offset:long", offset: lane offset}
  steps:
    - wall: 0.000033
      left: ["a 0.000017 28 1 104"]
      right: ["a 0.000002 null 0 9", "b 0.000003 5 0 10"]
      final: true
"""


def test_no_row_deletes_another_through_a_runner_whose_clock_is_a_value() -> None:
    case = parse_join(_DELETION)
    query = Query(case.spec, case.types, case.steps)
    assert [joined["id"] for joined in query.steps[0].right] == [None, 5]
    filled_query = fill_deletions(query)
    assert [joined["id"] for joined in filled_query.steps[0].right] == [0, 5]
    for joined, pairs in ((query, 0), (filled_query, 1)):
        (step,) = OracleJoinRunner().run(joined.spec, joined.types, joined.steps)
        assert len(step.rows) == pairs


def test_a_search_goes_on_until_its_time_is_over_and_says_what_it_found() -> None:
    subjects: list[Subject] = [
        Windows([Forgetful()], 50, NARROW),
        Windows([OracleRunner()], 20, NARROW),
    ]
    out = StringIO()
    seconds = iter(range(10**6))
    search = Search(subjects, 7, out, clock=lambda: 10.0 * next(seconds), max_findings=2)
    assert len(search.run(600)) >= 1
    output = out.getvalue()
    assert "FOUND in windows, with oracle, forgetful:" in output
    assert "# step 1: seen 2, expected 3" in output
    assert "- name: found by the search with seed 7 in round 0" in output
    assert output.startswith("so far 0:")
    assert output.splitlines()[-1].startswith("done ")
    assert f"findings {len(search.findings)}; cases: forgetful" in output.splitlines()[-1]


def test_a_round_is_drawn_again_by_its_seed_and_number() -> None:
    rounds = []
    for _ in range(2):
        cases: list[str] = []

        class Watched(Windows):
            def differences(self, case: Any, cases: list[str] = cases) -> list[str]:
                cases.append(repr(case))
                return []

        Search([Watched([OracleRunner()], 5)], 3, StringIO()).run(60, only=4)
        rounds.append(cases)
    assert rounds[0] == rounds[1] != []


@pytest.mark.parametrize(
    "subject", [Windows([EngineRunner(2)], 4), Joins([EngineJoinRunner(2)], 4)]
)
def test_a_few_cases(subject: Subject) -> None:
    assert Examiner(subject, lambda: False, Counter()).run_round(11) is None


def test_the_command_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--minutes",
        "1",
        "--seed",
        "5",
        "--round",
        "1",
        "--runners",
        "standalone",
        "--minutes",
        "0.05",
    ]
    assert main(arguments) == 0
    assert "done " in capsys.readouterr().out


def test_the_command_knows_its_runners(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--runners", "flink"])
    assert "there are engine, standalone, duckdb, spark" in capsys.readouterr().err
