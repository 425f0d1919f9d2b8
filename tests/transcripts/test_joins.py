"""Runs every transcript of a join on the oracle and on two other runners."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.join_oracle import JoinStep
from tests.join_runners import JOIN_RUNNERS, JoinRunner
from tests.transcripts.comparison import unordered_differences
from tests.transcripts.join_notation import JoinCase, JoinExpected, read_joins
from tests.transcripts.pairing import pair_with_runners

CASES = read_joins(Path(__file__).parent / "joins")
RIGHT = [case for case in CASES if not case.wrong]
WRONG = [case for case in CASES if case.wrong]


def get_name(parameter: Any) -> str:
    return parameter.name


@pytest.mark.parametrize(("case", "runner"), pair_with_runners(RIGHT, JOIN_RUNNERS))
def test_transcript(case: JoinCase, runner: JoinRunner) -> None:
    assert differences(case, runner) == []


@pytest.mark.parametrize(("case", "runner"), pair_with_runners(WRONG, JOIN_RUNNERS))
def test_wrong_transcript_is_found_out(case: JoinCase, runner: JoinRunner) -> None:
    assert differences(case, runner) != []


def test_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


def differences(case: JoinCase, runner: JoinRunner) -> list[str]:
    """Return the differences between a runner's output and the transcript."""
    if not runner.runs(case.spec, case.steps):
        pytest.skip(f"{runner.name} can't run these steps")
    return compare_output(case, runner.run(case.spec, case.types, case.steps), runner)


def compare_output(case: JoinCase, emitted: Sequence[JoinStep], runner: JoinRunner) -> list[str]:
    """Return the differences between an output and its transcript, step by step."""
    texts = [] if len(emitted) == len(case.steps) else [f"{len(emitted)} steps emitted"]
    for number, (step, expected) in enumerate(zip(emitted, case.expected, strict=False), start=1):
        texts += [f"step {number}: {text}" for text in step_differences(step, expected, runner)]
    return texts


def step_differences(step: JoinStep, expected: JoinExpected, runner: JoinRunner) -> list[str]:
    rejected = [
        {"side": side, **message, "reason": reason, "watermark": watermark}
        for side, message, reason, watermark in step.rejected
    ]
    texts = unordered_differences("row", step.rows, expected.rows)
    texts += unordered_differences("rejected", rejected, expected.rejected)
    has_watermarks = runner.tells_watermarks and expected.watermarks is not ...
    if has_watermarks and step.watermarks != expected.watermarks:
        texts.append(f"watermarks {step.watermarks}, expected {expected.watermarks}")
    return texts
