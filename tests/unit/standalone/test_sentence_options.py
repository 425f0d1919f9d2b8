"""Tests of the options of inputs and joins, declared once for Spark and standalone functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import pytest

import muntin as mt
from muntin import standalone
from muntin.model.declared_options import DeclaredOption
from muntin.model.errors import OptionError
from muntin.model.inputs import INPUT_OPTIONS
from muntin.model.join_options import JOIN_OPTIONS


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (mt.windowed, INPUT_OPTIONS),
        (standalone.windowed, INPUT_OPTIONS),
        (mt.join, JOIN_OPTIONS),
        (standalone.join, JOIN_OPTIONS),
    ],
)
def test_functions_have_all_options_that_are_declared(
    function: Callable[..., Any], options: Sequence[DeclaredOption]
) -> None:
    parameters, docstring = signature(function).parameters, function.__doc__ or ""
    for option in options:
        assert parameters[option.name].default == option.default
        assert f"\n    {option.name}: " in docstring
    assert "options" not in parameters


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="has no option latenes=; did you mean lateness="):
        standalone.windowed(key="k", time="t", latenes="1 minute")  # type: ignore[call-arg]


def test_a_join_needs_columns_to_compare() -> None:
    side = standalone.windowed(time="t")
    with pytest.raises(TypeError, match="needs on=; name the fields"):
        standalone.join(side, side)  # type: ignore[call-arg]


def test_a_topic_is_no_part_of_a_position() -> None:
    with pytest.raises(OptionError, match="isn't a pair of columns"):
        standalone.windowed(key="k", time="t", offset=("topic", "partition", "offset"))
