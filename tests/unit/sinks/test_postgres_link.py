"""Tests that addresses of PostgreSQL are checked before connecting, and hide their password."""

from __future__ import annotations

import pytest

from muntin.model.errors import OptionError, SinkError
from muntin.sinks.postgres_link import PostgresLink


@pytest.mark.parametrize(
    ("dsn", "problem"),
    [
        ("postgresql://u:sesame@h/db?sslmod=require", "dsn='sslmod' isn't a parameter"),
        ("host=h password=sesame ssl_mode=require", "dsn='ssl_mode' isn't a parameter"),
        ("postgresql://u:sesame@h/db?sslmode=requir", "sslmode='requir' isn't a choice; give one"),
        ("host=h password=sesame sslmode=REQUIRE", "sslmode='REQUIRE' isn't a choice"),
        ("host=h password=sesame channel_binding=yes", "channel_binding='yes' isn't a choice"),
        ("postgresql://u:sesame@h/d?sslmode=require&sslmode=disable", "'sslmode' is given 2 times"),
        ("host=h password='se\\'same' sslmode=require sslmode = disable", "'sslmode' is given 2"),
        ("postgresql://u:sesame@h/d?sslrootcert=/ca.pem", "sslrootcert='/ca.pem' has no effect"),
        ("host=h password=sesame sslmode=allow sslcert=/a.pem", "no effect with sslmode=allow"),
        ("postgres//u:sesame@h/db", r"dsn='\(hidden\)' isn't an address"),
        ("mysql://u:sesame@h/db", r"dsn='\(hidden\)' isn't an address"),
    ],
)
def test_what_would_be_plain_text_or_no_address_is_refused(dsn: str, problem: str) -> None:
    with pytest.raises(OptionError, match=problem) as caught:
        PostgresLink(dsn, 1.0)
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://u:sesame@h/d?sslmode=verify-full&sslrootcert=/ca.pem",
        "host=h password='x sslmode=a sslmode=b' sslmode=require sslcert=/a.pem",
        "postgresql://u@h/d?sslrootcert=system",
        "service=reports sslrootcert=/ca.pem",
        "postgresql://u@h1,h2:5433/d?application_name=a%26sslmode%3Db&sslmode=require",
    ],
)
def test_what_libpq_follows_is_taken(dsn: str) -> None:
    PostgresLink(dsn, 1.0)


def test_a_setting_that_libpq_refuses_isnt_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSSLMODE", "requir")
    with pytest.raises(SinkError, match=r'refuses us: .*invalid sslmode value: "requir"'):
        PostgresLink("host=127.0.0.1 port=1 password=sesame", 600.0).run(lambda connection: None)
