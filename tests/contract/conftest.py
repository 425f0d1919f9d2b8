"""Every test of the contract runs on every form of the rows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test
from tests.contract.forms import FORMS, Form

Machine = Callable[[Form], RuleBasedStateMachine]


@pytest.fixture(params=FORMS, ids=lambda form: form.name)
def new_form(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Form]:
    """Makes an empty place for rows, as often as it is called."""
    numbers = count()
    return lambda: request.param(tmp_path / str(next(numbers)))


@pytest.fixture
def form(new_form: Callable[[], Form]) -> Form:
    """An empty place for rows."""
    return new_form()


@pytest.fixture
def walk(new_form: Callable[[], Form]) -> Callable[[Machine], None]:
    """Runs a state machine; where a flush takes long, with fewer examples."""

    def run(machine: Machine) -> None:
        default: Any = settings.default
        share = 6 if new_form().slow else 1
        few = settings(max_examples=default.max_examples // share + 1, stateful_step_count=30)
        run_state_machine_as_test(lambda: machine(new_form()), settings=few)

    return run
