"""Which text is a secret, and how it is shown without."""

from __future__ import annotations

import re

import pytest

from muntin.model.secrets import FOR_SPARK, names_secret, redact, reveals_secret


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://me:PW@host/x", "http://me:**@host/x"),
        ("http://me:a@PW@host/x", "http://me:****@host/x"),
        ("http://me:a/PW@host/x", "http://me:****@host/x"),
        ("http://:PW@host", "http://:**@host"),
        ("https://TOKEN@host/x", "https://*****@host/x"),
        ("https://TOKEN:@host/x", "https://*****:@host/x"),
        ("see https://TOKEN@h and http://a:b@c", "see https://*****@h and http://a:*@c"),
        ("postgresql://me:p/w@host/db", "postgresql://me:***@host/db"),
        ("password: PW", "password: **"),
        ("password:PW,", "password:**,"),
        ("password:p@ss", "password:****"),
        ('{"password":"p@ss"}', '{"password":"****"}'),
        ("Authorization: Bearer PW", "Authorization: Bearer **"),
        ("Authorization: Basic bWU6UFc=", "Authorization: Basic ********"),
        ("authorization=Bearer PW", "authorization=Bearer **"),
        ("a header Bearer abcdef.x", "a header Bearer ********"),
        ("bearer abcdef.x", "bearer ********"),
        ("https://h/c?sv=1&sig=PW%3D&se=2", "https://h/c?sv=1&sig=*****&se=2"),
        ("https://h/o?X-Amz-Signature=PW&x=1", "https://h/o?X-Amz-Signature=**&x=1"),
        ("passphrase=PW", "passphrase=**"),
        ("ssl.key.passphrase: PW", "ssl.key.passphrase: **"),
        ("encryption.key = 'PW'", "encryption.key = '**'"),
        ("spark.io.encryption.keygen.key=PW", "spark.io.encryption.keygen.key=**"),
        ("DB_PASS=PW", "DB_PASS=**"),
        ("HOST=x DB_PASS='P W'", "HOST=x DB_PASS='***'"),
        ("https://token:PW@host", "https://token:**@host"),
        ("jdbc:x://h/db?user=u&pwd=PW&ssl=1", "jdbc:x://h/db?user=u&pwd=**&ssl=1"),
        ("http://h/x?a=1&token=PW&b=2", "http://h/x?a=1&token=**&b=2"),
        ("--token PW", "--token PW"),
        ("password=a&b", "password=***"),
        ('sasl.jaas.config="x PW"', 'sasl.jaas.config="****"'),
        ("jdbc:oracle:thin:u/PW@//h:1521/x", "jdbc:oracle:thin:u/**@//h:1521/x"),
        ("Authorization: Negotiate PW", "Authorization: Negotiate **"),
        ("SharedAccessSignature=PW", "SharedAccessSignature=**"),
        ("fs.azure.sas.c.acc=PW", "fs.azure.sas.c.acc=**"),
        ("userpass=PW DBPASS=PW pw: PW", "userpass=** DBPASS=** pw: **"),
        ("signing_key=PW license.key: PW", "signing_key=** license.key: **"),
        ("password := 'PW'", "password := '**'"),
        ("CREATE USER u PASSWORD 'PW'", "CREATE USER u PASSWORD '**'"),
        ("IDENTIFIED BY 'PW'", "IDENTIFIED BY '**'"),
        ("{'password': b'PW', 'x': 1}", "{'password': b'**', 'x': 1}"),
        ("'password=''PW'', x=1'", "'password=''**'', x=1'"),
        ("password = 'it''PW', topic = 't'", "password = '******', topic = 't'"),
        ("password = '', topic = 't'", "password = '', topic = 't'"),
        ("sent eyJhbGciOi.eyJzdWIi.PW", f"sent {'*' * 22}"),
        ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nPW\n", f"{'*' * 37}\n**\n"),
    ],
)
def test_secrets_are_hidden_and_all_else_stays(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "the password isn't right", "a pwm = 3", "sassy: yes", "rsas = 1",
        "http://host:8080/path@x", "https://host/a@b", "http://host:9092", "bypass=1",
        "compass: north", "key = 'id'", "topic: orders", "mail me@host", "passes = 3",
        "postgresql://reports@localhost:5432/shop", "kafka://h:1", "token://x",
        "http://me:${env:PW}@host", "password = '${env:PW}'",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


def test_names_of_secrets() -> None:
    for name in ("passphrase", "DB_PASS", "encryption.key", "ssl.key.password", "pwd", "my.pass",
                 "client.secret", "fs.s3a.access.key", "basic.auth.user.info"):  # fmt: skip
        assert names_secret(name), name
    for name in ("bypass", "key", "compass", "topic", "passes", "ssl.key.location"):
        assert not names_secret(name), name


def test_a_secret_of_the_environment_isnt_in_sight() -> None:
    for value in ("https://TOKEN@host", "http://me:a/PW@host", "http://h?x=1&pwd=PW"):
        assert reveals_secret("registry", value), value
    assert not reveals_secret("registry", "http://me:${env:PW}@host")
    assert not reveals_secret("registry", "http://host:8081")


def test_spark_finds_the_same() -> None:
    # Java has no other syntax for any part of it.
    known = re.compile(FOR_SPARK)
    for value in ("http://me:a/PW@host", "https://TOKEN@host", "x?pwd=PW", "encryption.key"):
        assert known.search(value), value
    assert not known.search("localhost:9092")


def test_long_text_takes_no_longer_than_its_length() -> None:
    assert redact("a" * 200_000) == "a" * 200_000
    assert redact("a:" * 100_000 + "@") != ""
