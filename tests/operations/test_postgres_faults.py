"""Tests of faults on a PostgreSQL server, and of the first line that each prints."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.operations.test_first_lines import put, run
from tests.services.postgres import Postgres

import muntin as mt
from muntin.sinks import postgres_link

DATABASE = "faults"


def execute(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def admin(postgres: Postgres) -> Iterator[str]:
    """Create a database to which a user ``writer`` may write, and yield its owner's address."""
    create = (
        "CREATE ROLE writer LOGIN PASSWORD 'sesame'",
        f"CREATE DATABASE {DATABASE} OWNER writer",
    )
    execute(postgres.dsn(), *create)
    yield make_conninfo(postgres.dsn(), dbname=DATABASE)
    execute(postgres.dsn(), f"DROP DATABASE {DATABASE} WITH (FORCE)", "DROP ROLE writer")


def write(admin: str, folder: Path, number: int, patience: str = "10 seconds") -> None:
    """Run a batch with a message into the table ``views``."""
    put(folder / "in", f"{number}.jsonl", -5 + number)
    dsn = make_conninfo(admin, user="writer", password="sesame")
    run(folder, mt.to_postgres(dsn, "views", patience=patience))


def count_rows(admin: str) -> int:
    """Count the windows of all messages except the last one, whose window is still open."""
    with psycopg.connect(admin) as connection:
        (count,) = connection.execute("SELECT count(*) FROM views").fetchone() or (0,)
    return int(count)


def test_rights_that_are_revoked_are_named(admin: str, tmp_path: Path) -> None:
    write(admin, tmp_path, 1)
    execute(admin, "REVOKE ALL ON views FROM writer")
    with pytest.raises(mt.SinkError) as caught:
        write(admin, tmp_path, 2)
    assert str(caught.value).endswith(
        f"/{DATABASE} refuses us: permission denied for table views; fix the dsn or the rights"
    )
    execute(admin, "GRANT ALL ON views TO writer")
    write(admin, tmp_path, 3)
    assert count_rows(admin) == 2


@pytest.mark.parametrize(
    ("fault", "cure", "symptom", "problem"),
    [
        # A standby takes no writes until it is promoted.
        (
            "SET default_transaction_read_only = on",
            "SET default_transaction_read_only = off",
            "takes no writes (cannot execute",
            r"cannot execute .* in a read-only",
        ),
        (
            "CONNECTION LIMIT 0",
            "CONNECTION LIMIT -1",
            "has no connection left (",
            ".*; raise its limit of connections",
        ),
    ],
)
def test_a_server_that_does_no_work_for_now_is_named_and_waited_for(
    admin: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    cure: str,
    symptom: str,
    problem: str,
) -> None:
    # Both outlast the wait for a server that refuses the connection for another reason.
    monkeypatch.setattr(postgres_link, "_REFUSED_SECONDS", 0.1)
    write(admin, tmp_path, 1)
    execute(admin, f"ALTER ROLE writer {fault}")
    with pytest.raises(mt.SinkError, match=rf"for 0\.5 seconds: {problem}"):
        write(admin, tmp_path, 2, "500 ms")
    assert f"/{DATABASE} {symptom}" in caplog.messages[0]
    later = threading.Timer(0.3, execute, [admin, f"ALTER ROLE writer {cure}"])
    later.start()
    write(admin, tmp_path, 3)
    later.join()
    assert count_rows(admin) == 2


def test_a_table_that_another_session_has_locked_is_named_and_waited_for(
    admin: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres_link, "_LOCK_TIMEOUT", "SET LOCAL lock_timeout = '100ms'")
    write(admin, tmp_path, 1)
    with psycopg.connect(admin) as holder:
        holder.execute("LOCK TABLE views")
        later = threading.Timer(0.5, holder.rollback)
        later.start()
        write(admin, tmp_path, 2)
        later.join()
    line, back = caplog.messages
    assert f"/{DATABASE} has the table locked by another session (canceling statement due" in line
    assert "answers again" in back
    assert count_rows(admin) == 1


def test_a_statement_that_the_server_cancels_is_named_with_its_option(
    admin: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(admin, tmp_path, 1)
    execute(admin, "ALTER ROLE writer SET statement_timeout = '50ms'")
    with psycopg.connect(admin) as holder:
        holder.execute("LOCK TABLE views")
        with pytest.raises(mt.SinkError, match="statement timeout; raise its statement_timeout"):
            write(admin, tmp_path, 2, "500 ms")
    assert f"/{DATABASE} cancels a statement (canceling statement due" in caplog.messages[0]


def test_a_schema_that_doesnt_exist_is_named(admin: str, tmp_path: Path) -> None:
    put(tmp_path / "in", "1.jsonl", -5, -3)
    dsn = make_conninfo(admin, user="writer", password="sesame")
    with pytest.raises(mt.SinkError) as caught:
        run(tmp_path, mt.to_postgres(dsn, "views", schema="absent"))
    assert str(caught.value).endswith(
        f'/{DATABASE} lacks a schema: schema "absent" does not exist; create it, or give '
        "another one"
    )
