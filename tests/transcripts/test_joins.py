"""Every transcript of a join through the oracle and two other doors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.join_doors import JOIN_DOORS, JoinDoor
from tests.join_oracle import JoinStep
from tests.transcripts.comparison import unordered_differences
from tests.transcripts.join_notation import JoinCase, JoinExpected, read_joins
from tests.transcripts.pairing import pair_with_doors

CASES = read_joins(Path(__file__).parent / "joins")
RIGHT = [case for case in CASES if not case.wrong]
WRONG = [case for case in CASES if case.wrong]


def by_name(parameter: Any) -> str:
    return parameter.name


@pytest.mark.parametrize(("case", "door"), pair_with_doors(RIGHT, JOIN_DOORS))
def test_transcript(case: JoinCase, door: JoinDoor) -> None:
    assert differences(case, door) == []


@pytest.mark.parametrize(("case", "door"), pair_with_doors(WRONG, JOIN_DOORS))
def test_wrong_transcript_is_found_out(case: JoinCase, door: JoinDoor) -> None:
    assert differences(case, door) != []


def test_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


def differences(case: JoinCase, door: JoinDoor) -> list[str]:
    """Return where a run through a door differs from its transcript."""
    if not door.runs(case.spec, case.steps):
        pytest.skip(f"{door.name} can't take these steps")
    return compare_output(case, door.run(case.spec, case.types, case.steps), door)


def compare_output(case: JoinCase, emitted: Sequence[JoinStep], door: JoinDoor) -> list[str]:
    """Return where the output of a run differs from its transcript, step by step and in words."""
    found = [] if len(emitted) == len(case.steps) else [f"{len(emitted)} steps emitted"]
    for number, (step, expected) in enumerate(zip(emitted, case.expected, strict=False), start=1):
        found += [f"step {number}: {text}" for text in step_differences(step, expected, door)]
    return found


def step_differences(step: JoinStep, expected: JoinExpected, door: JoinDoor) -> list[str]:
    rejected = [
        {"side": side, **message, "reason": reason, "watermark": mark}
        for side, message, reason, mark in step.rejected
    ]
    found = unordered_differences("row", step.rows, expected.rows)
    found += unordered_differences("rejected", rejected, expected.rejected)
    knows = door.tells_watermarks and expected.watermarks is not ...
    if knows and step.watermarks != expected.watermarks:
        found.append(f"watermarks {step.watermarks}, expected {expected.watermarks}")
    return found
