"""Placeholders and secrets."""

from __future__ import annotations

import pytest

from muntin.model.errors import OptionError, SqlError
from muntin.model.placeholders import check_secret, filled, names
from muntin.model.secrets import redacted


def test_values_come_from_what_is_given_and_from_the_environment():
    text = "${a}/${env:A}/${a}"
    assert filled("path", text, {"a": "1"}, {"A": "2"}) == "1/2/1"
    assert names(text) == {"a"}


@pytest.mark.parametrize("text", ["${b}", "${env:B}", "x${b}y"])
def test_what_has_no_value_is_named(text):
    with pytest.raises(OptionError, match="has no value"):
        filled("path", text, {"a": "1"}, {"A": "2"})


@pytest.mark.parametrize(
    "option",
    [
        "password",
        "kafka.sasl.jaas.config",
        "API_TOKEN",
        "privateKey",
        "ssl.keystore.key",
        "kafka.basic.auth.user.info",
        "fs.s3a.access.key",
        "fs.azure.account.key.me.dfs.core.windows.net",
        "PWD",
    ],
)
@pytest.mark.parametrize("value", ["hunter2", "${given}", "${env:A} ", "x${env:A}"])
def test_secrets_come_from_the_environment_alone(option, value):
    if value == "${env:A} ":
        check_secret(option, value)
        return
    with pytest.raises(OptionError, match="secret in plain sight") as caught:
        check_secret(option, value)
    assert "hunter2" not in str(caught.value)


PEM = "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "value",
    [
        "postgresql://u:hunter2@h/db",
        "postgresql://u:hunter2/w@h/db",
        "postgresql://u:hun@ter2@h/db",
        "postgresql://${env:U}:hunter2@h/db",
        "host=h password='hunter2'",
        "https://u:hunter2@h/registry",
        PEM,
    ],
)
def test_secrets_inside_of_values_are_found_and_not_shown(value):
    with pytest.raises(OptionError, match="secret in plain sight") as caught:
        check_secret("path", value)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in redacted(f"x {value} y")


@pytest.mark.parametrize(
    "value",
    [
        "postgresql://${env:U}:${env:P}@h/db",
        "postgresql://h:5432/db",
        "hdfs://namenode:8020/data/me@home",
        "s3a://bucket/key=5/token",
        "https://h:8080/x",
        "localhost:9092",
    ],
)
def test_addresses_without_a_password_are_no_secrets(value):
    check_secret("path", value)
    assert redacted(value) == value


def test_a_statement_is_shown_without_its_secrets_and_the_caret_stays():
    line = "CREATE TABLE t (a INT) WITH ('ssl.keystore.key' = 'hunter2', pasword = 5 +)"
    place = line.index("+")
    shown = str(SqlError(line, (place, place + 1), "isn't known", "leave it"))
    assert "hunter2" not in shown
    first, second = shown.split("\n")[1:]
    assert first[second.index("^")] == "+"
    kept = "SELECT token, 'a' AS b FROM t WHERE key = 'north' AND w > 5"
    assert redacted(kept) == kept


def test_text_keeps_its_length():
    text = f'password = \'hun\\\'ter2\', "secret": "hunter2", x, {PEM}'
    assert len(redacted(text)) == len(text)
    assert "hunter2" not in redacted(text)
    assert "ter2" not in redacted(text)
