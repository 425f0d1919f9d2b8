"""Tests that the mutants apply to the current code, and that the simulator catches them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.simulation.mutants import MUTANTS, Mutant, count_cases_until_caught

_TABLE = Path(__file__).parents[2] / "docs" / "decisions" / "simulation.md"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.fault)
def test_a_mutant_changes_what_its_function_does(mutant: Mutant) -> None:
    code = mutant.target.__code__
    assert mutant.mutate().__code__ != code
    with mutant.apply():
        assert mutant.target.__code__ != code
    assert mutant.target.__code__ == code


def test_the_table_names_every_mutant() -> None:
    lines = [line for line in _TABLE.read_text().splitlines() if line.startswith("| ")][2:]
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines] == [m.fault for m in MUTANTS]
    assert not any("not caught" in line for line in lines)


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.fault)
def test_the_simulator_catches_it(mutant: Mutant) -> None:
    assert count_cases_until_caught(mutant) is not None
