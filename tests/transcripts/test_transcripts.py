"""Runs every transcript on the oracle and on two other runners."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.runners import RUNNERS, Runner
from tests.transcripts.comparison import row_differences, unordered_differences
from tests.transcripts.notation import Case, Expected, read_cases
from tests.transcripts.pairing import pair_with_runners

from muntin.model.spec import DUPLICATES
from muntin.testing.oracle import OracleStep

CASES = read_cases(Path(__file__).parent)
RIGHT = [case for case in CASES if not case.wrong]
WRONG = [case for case in CASES if case.wrong]


def get_name(parameter: Any) -> str:
    return parameter.name


@pytest.mark.parametrize(("case", "runner"), pair_with_runners(RIGHT, RUNNERS))
def test_transcript(case: Case, runner: Runner) -> None:
    assert differences(case, runner) == []


@pytest.mark.parametrize(("case", "runner"), pair_with_runners(WRONG, RUNNERS))
def test_wrong_transcript_is_found_out(case: Case, runner: Runner) -> None:
    assert differences(case, runner) != []


def test_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


def differences(case: Case, runner: Runner) -> list[str]:
    """Return the differences between a runner's output and the transcript."""
    if not runner.runs(case.spec, case.steps):
        pytest.skip(f"{runner.name} can't run these steps")
    return compare_output(case, runner.run(case.spec, case.steps), runner)


def compare_output(case: Case, emitted: Sequence[OracleStep], runner: Runner) -> list[str]:
    """Return the differences between an output and its transcript, step by step."""
    texts = [] if len(emitted) == len(case.steps) else [f"{len(emitted)} steps emitted"]
    for number, (step, expected) in enumerate(zip(emitted, case.expected, strict=False), start=1):
        texts += [f"step {number}: {text}" for text in step_differences(step, expected, runner)]
    return texts


def step_differences(step: OracleStep, expected: Expected, runner: Runner) -> list[str]:
    texts = row_differences("firing", step.firings, expected.firings)
    texts += unordered_differences("rejected", step.rejected, expected.rejected)
    has_watermark = runner.tells_watermark and expected.watermark is not ...
    if has_watermark and step.watermark != expected.watermark:
        texts.append(f"watermark {step.watermark}, expected {expected.watermark}")
    duplicates = step.counts[DUPLICATES]
    if expected.duplicates not in (..., duplicates):
        texts.append(f"{duplicates} duplicates, expected {expected.duplicates}")
    return texts
