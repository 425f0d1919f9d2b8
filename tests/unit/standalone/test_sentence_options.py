"""The options of an input, as the words without a DataFrame take them."""

from __future__ import annotations

from inspect import signature

import pytest

import muntin as mt
from muntin import standalone
from muntin.model.errors import OptionError
from muntin.model.inputs import INPUT_OPTIONS


def test_both_sentences_have_all_options_of_an_input() -> None:
    for function in (mt.windowed, standalone.windowed):
        parameters, described = signature(function).parameters, function.__doc__ or ""
        for option in INPUT_OPTIONS:
            assert parameters[option.name].default == option.default
            assert f"\n    {option.name}: " in described


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="has no option latenes=; did you mean lateness="):
        standalone.windowed(key="k", time="t", latenes="1 minute")  # type: ignore[call-arg]


def test_a_topic_is_no_part_of_a_position() -> None:
    with pytest.raises(OptionError, match="isn't a pair of columns"):
        standalone.windowed(key="k", time="t", offset=("topic", "partition", "offset"))
