"""Placeholders and secrets."""

from __future__ import annotations

import pytest

from muntin.model.errors import OptionError
from muntin.model.placeholders import check_secret, filled, names


def test_values_come_from_what_is_given_and_from_the_environment():
    text = "${a}/${env:A}/${a}"
    assert filled("path", text, {"a": "1"}, {"A": "2"}) == "1/2/1"
    assert names(text) == {"a"}


@pytest.mark.parametrize("text", ["${b}", "${env:B}", "x${b}y"])
def test_what_has_no_value_is_named(text):
    with pytest.raises(OptionError, match="has no value"):
        filled("path", text, {"a": "1"}, {"A": "2"})


@pytest.mark.parametrize(
    "option", ["password", "kafka.sasl.jaas.config", "API_TOKEN", "privateKey"]
)
@pytest.mark.parametrize("value", ["hunter2", "${given}", "${env:A} ", "x${env:A}"])
def test_secrets_come_from_the_environment_alone(option, value):
    if value == "${env:A} ":
        check_secret(option, value)
        return
    with pytest.raises(OptionError, match="secret in plain sight") as caught:
        check_secret(option, value)
    assert "hunter2" not in str(caught.value)
