"""Every transcript through every door."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from muntin.engine.oracle import Step

from tests.doors import DOORS, Door
from tests.transcripts.notation import Case, Expected, read_cases

CASES = read_cases(Path(__file__).parent)
RIGHT = [case for case in CASES if not case.wrong]
WRONG = [case for case in CASES if case.wrong]


def by_name(parameter: Any) -> str:
    return parameter.name


@pytest.mark.parametrize("door", DOORS, ids=by_name)
@pytest.mark.parametrize("case", RIGHT, ids=by_name)
def test_transcript(case: Case, door: Door) -> None:
    assert differences(case, door) == []


@pytest.mark.parametrize("door", DOORS, ids=by_name)
@pytest.mark.parametrize("case", WRONG, ids=by_name)
def test_wrong_transcript_is_found_out(case: Case, door: Door) -> None:
    assert differences(case, door) != []


def test_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))


def differences(case: Case, door: Door) -> list[str]:
    """Where a run differs from its transcript, step by step and in words."""
    told = door.run(case.spec, case.steps)
    found = [] if len(told) == len(case.steps) else [f"{len(told)} steps told"]
    for number, (step, expected) in enumerate(zip(told, case.expected, strict=False), start=1):
        found += [f"step {number}: {text}" for text in step_differences(step, expected, door)]
    return found


def step_differences(step: Step, expected: Expected, door: Door) -> list[str]:
    found = row_differences("firing", step.firings, expected.firings)
    rejected = sorted(step.rejected, key=in_any_order)
    found += row_differences("rejected", rejected, sorted(expected.rejected, key=in_any_order))
    knows = door.tells_watermark and expected.watermark is not ...
    if knows and step.watermark != expected.watermark:
        found.append(f"watermark {step.watermark}, expected {expected.watermark}")
    return found


def row_differences(kind: str, rows: list[dict], expected: list[dict]) -> list[str]:
    found = [
        f"{kind} {row}, expected {wanted}"
        for row, wanted in zip(rows, expected, strict=False)
        if not same_row(row, wanted)
    ]
    found += [f"{kind} {row} was not expected" for row in rows[len(expected) :]]
    return found + [f"{kind} {row} is missing" for row in expected[len(rows) :]]


def same_row(row: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return row.keys() == wanted.keys() and all(same(row[name], wanted[name]) for name in wanted)


def same(value: Any, wanted: Any) -> bool:
    """Equal; floats nearly so, NaN to itself, and a truth is no number."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if not isinstance(value, float) and not isinstance(wanted, float):
        return value == wanted
    if value is None or wanted is None or isinstance(value, str) or isinstance(wanted, str):
        return False
    if math.isnan(value) or math.isnan(wanted):
        return math.isnan(value) and math.isnan(wanted)
    return math.isclose(value, wanted, rel_tol=1e-9, abs_tol=1e-12)


def in_any_order(row: dict[str, Any]) -> str:
    return repr(sorted(row.items()))
