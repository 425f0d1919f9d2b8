"""Fixtures that run each test of the contract on every form of a store's rows."""

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
    """Return a function that makes an empty form at each call."""
    numbers = count()
    return lambda: request.param(tmp_path / str(next(numbers)))


@pytest.fixture
def form(new_form: Callable[[], Form]) -> Form:
    """Return an empty form."""
    return new_form()


@pytest.fixture
def walk(new_form: Callable[[], Form]) -> Callable[[Machine], None]:
    """Return a function that runs a state machine, with fewer examples if a flush is slow."""

    def run(machine: Machine) -> None:
        default: Any = settings.default
        share = 6 if new_form().slow else 1
        fewer = settings(max_examples=default.max_examples // share + 1, stateful_step_count=30)
        run_state_machine_as_test(lambda: machine(new_form()), settings=fewer)

    return run
