"""Tests of detecting and hiding secrets in text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from muntin.model import secrets
from muntin.model.secrets import FOR_SPARK, names_secret, redact, reveals_secret


@pytest.mark.parametrize(
    ("text", "expected"),
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
        (r'"-----BEGIN PRIVATE KEY-----\nPW\n-----END PRIVATE KEY-----\n"', f'"{"*" * 58}\\n"'),
        ("Cookie: sid=PW; theme=x\nHost: h", "Cookie: ***************\nHost: h"),
        ("curl -H 'Set-Cookie: sid=PW' h", "curl -H 'Set-Cookie: ******' h"),
        ('{"Cookie": "sid=PW; a=b", "x": 1}', '{"Cookie": "***********", "x": 1}'),
        ("password: |\n  P W\n\n  PW\nhost: h", "password: |\n*****\n\n****\nhost: h"),
        ("a:\n  - pw: >-\n      PW\n    b: c", "a:\n  - pw: >-\n********\n    b: c"),
        ("password:\n  P W\nhost: h", "password:\n  ***\nhost: h"),
        ("the password is hunter2, says he", "the password is ******** says he"),
        ("the password for it is 'PW'", "the password for it is '**'"),
        ('its token was set to "P W" today', 'its token was set to "***" today'),
        ("run --token abc123 --password 'P W'", "run --token ****** --password '***'"),
        ("it refused sas_token s3cr3t today", "it refused sas_token ****** today"),
        ("fs.azure.sas_token s3cr3t, and", "fs.azure.sas_token ******* and"),
        ("sasl.password 'P W' isn't right", "sasl.password '***' isn't right"),
        (
            "aws_secret_access_key s3cr3t or access_key s3cr3t",
            "aws_secret_access_key ****** or access_key ******",
        ),
        ("curl -sS -u me:PW http://h", "curl -sS -u me:** http://h"),
        ("curl http://h --user='me:PW'", "curl http://h --user='me:**'"),
        (r'"{\"password\": \"PW\", \"a\": 1}"', r'"{\"password\": \"**\", \"a\": 1}"'),
        (r"{\\\"pw\\\": \\\"P\\\\\\\"W\\\"}", r"{\\\"pw\\\": \\\"**********\\\"}"),
        (
            r"\"sasl.jaas.config\": \"x pw=\\\"PW\\\";\", z",
            r"\"sasl.jaas.config\": \"****************\", z",
        ),
        ("password%3DPW&x=1", "password%3D**&x=1"),
        ("%22password%22%3A%22PW%22%2C", "%22password%22%3A%22**%22%2C"),
        ("dsn=mysql%3A%2F%2Fme%3AP%2FW%40h", "dsn=mysql%3A%2F%2Fme%3A*****%40h"),
        ("&quot;token&quot;: &quot;PW&quot;,", "&quot;token&quot;: &quot;**&quot;,"),
        (
            "AWS_SECRET_ACCESS_KEY=P/W+a aws_session_token = PW",
            "AWS_SECRET_ACCESS_KEY=***** aws_session_token = **",
        ),
        (
            "http://h/?bearer=PW&x=1 ?authorization=Bearer%20PW&x=1",
            "http://h/?bearer=**&x=1 ?authorization=***********&x=1",
        ),
    ],
)
def test_only_secrets_are_hidden(text: str, expected: str) -> None:
    assert redact(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "the password isn't right", "a pwm = 3", "sassy: yes", "rsas = 1",
        "http://host:8080/path@x", "https://host/a@b", "http://host:9092", "bypass=1",
        "compass: north", "key = 'id'", "topic: orders", "mail me@host", "passes = 3",
        "postgresql://reports@localhost:5432/shop", "kafka://h:1", "token://x",
        "http://me:${env:PW}@host", "password = '${env:PW}'",
        "the password is wrong", "its token is 16 characters long", "passwords are hashed",
        "sas_token is missing", "unexpected token abc123", "sas_token of 2026 expired",
        "next_token 20260101",
        "add --token, or leave it out", "--token-file /run/s3cret", "token-file='/run/s3cret'",
        "docker run -u 1000:1000 x",
        "cookie: chocolate", "cookie_id: 5", "sasl.oauthbearer.method=oidc", "password => ''",
        "the password is ${env:PW1}", "token='(hidden)' is empty",
    ],
)  # fmt: skip
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert redact(text) == text


def test_names_of_secrets() -> None:
    for name in ("passphrase", "DB_PASS", "encryption.key", "ssl.key.password", "pwd", "my.pass",
                 "client.secret", "fs.s3a.access.key", "basic.auth.user.info"):  # fmt: skip
        assert names_secret(name), name
    for name in ("bypass", "key", "compass", "topic", "passes", "ssl.key.location"):
        assert not names_secret(name), name


def test_a_reference_to_the_environment_reveals_no_secret() -> None:
    for value in ("https://TOKEN@host", "http://me:a/PW@host", "http://h?x=1&pwd=PW"):
        assert reveals_secret("registry", value), value
    assert not reveals_secret("registry", "http://me:${env:PW}@host")
    assert not reveals_secret("registry", "http://host:8081")


def test_sparks_pattern_finds_the_same_secrets() -> None:
    # Each part of the pattern has the same syntax in Java.
    pattern = re.compile(FOR_SPARK)
    for value in ("http://me:a/PW@host", "https://TOKEN@host", "x?pwd=PW", "encryption.key"):
        assert pattern.search(value), value
    assert not pattern.search("localhost:9092")


REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT)
PATTERNS = [value for value in vars(secrets).values() if isinstance(value, re.Pattern)]


def can_fail(parts: Iterable[Any]) -> bool:
    """Return whether the parts of a pattern can fail to match at the start of some text."""
    for kind, value in parts:
        if kind in REPEATS:
            fails = value[0] > 0 and can_fail(value[2])
        elif kind is sre.SUBPATTERN:
            fails = can_fail(value[3])
        elif kind is sre.BRANCH:
            fails = all(map(can_fail, value[1]))
        else:
            fails = (kind, value) != (sre.AT, sre.AT_END_STRING)
        if fails:
            return True
    return False


def list_faults(parts: Iterable[Any], must_follow: bool) -> Iterator[str]:
    """Yield the unbounded repetitions after which an attempt to match may still fail.

    Attempts that begin within the repetition would read the same text again.
    """
    part_list = [*parts]
    for number, (kind, value) in enumerate(part_list):
        rest = part_list[number + 1 :]
        fails = must_follow or can_fail(rest)
        if kind in REPEATS:
            if value[1] == sre.MAXREPEAT and fails:
                yield f"{value} is followed by {rest}"
            yield from list_faults(value[2], fails)
        elif kind in (sre.ASSERT, sre.ASSERT_NOT):
            yield from list_faults(value[1], False)
        elif kind is sre.SUBPATTERN:
            yield from list_faults(value[3], fails)
        elif kind is sre.BRANCH:
            for branch in value[1]:
                yield from list_faults(branch, fails)


def list_beginnings(parts: Iterable[Any]) -> Iterator[str]:
    """Yield the repetitions with which an attempt to match begins."""
    for kind, value in parts:
        if kind in (*REPEATS, sre.POSSESSIVE_REPEAT) and value[1] > 10:
            yield str(value)
        elif kind is sre.SUBPATTERN:
            yield from list_beginnings(value[3])
        elif kind is sre.BRANCH:
            for branch in value[1]:
                yield from list_beginnings(branch)
        return


def is_searched_to_an_at(pattern: re.Pattern[str]) -> bool:
    """Return whether a pattern is only applied to text that ends with ``@``."""
    return pattern.pattern == secrets._ADDRESS


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_steps_for_a_text_are_in_proportion_to_its_length(pattern: re.Pattern[str]) -> None:
    parsed = _parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
    if not is_searched_to_an_at(pattern):
        assert [*list_faults(parsed, False)] == []
    if pattern is not secrets._UNBROKEN:
        assert [*list_beginnings(parsed)] == []


@pytest.mark.parametrize(
    ("text", "is_fault"), [("x[ab]*c", True), ("x[ab]*", False), ("x(?=a+b)", True),
                           ("x(?:a+|b)c", True), ("x[ab]{0,9}c", False), ("xa+(?:b|$)", True)],
)  # fmt: skip
def test_a_repetition_that_is_read_again_is_noticed(text: str, is_fault: bool) -> None:
    assert bool([*list_faults(_parser.parse(text), False)]) == is_fault


def test_a_pattern_that_begins_with_a_repetition_is_noticed() -> None:
    assert [*list_beginnings(_parser.parse(r"(?:\w{0,100}x|y)"))]
    assert not [*list_beginnings(_parser.parse(r"(?<!\w)\w{0,100}x|y"))]


def test_an_address_is_searched_up_to_its_last_at(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    class Pattern:
        def sub(self, _: object, text: str) -> str:
            searched.append(text)
            return text

    monkeypatch.setattr(secrets, "_IN_ADDRESS", Pattern())
    redact("://u: a@b@://u:://u: '://u' \"c@d ${a b}@e://u:")
    assert [*filter(None, searched)] == ["a@b@", "c@", "${a b}@"]


def test_long_text_takes_no_longer_than_its_length() -> None:
    assert redact("a" * 200_000) == "a" * 200_000
    # Each reference could be read in two ways.
    assert redact("://" + "${a}" * 60 + "@") != ""
    assert redact("a:" * 20_000 + "@") != ""
    for part in (
        "password is ", "password: |\n ", "curl -u ", "cookie: ", "password%3D", '\\"', "token=\\",
        "eyJaaaaa-", "cookie:", "://u:", "://${", "redis://u:", "tokentoken", "%3A%2F%2F%3A",
        "--password ", "  password:\n",
    ):  # fmt: skip
        assert redact(part * 2_000) != ""
