"""A PostgreSQL server for tests, on loopback, in a temporary folder."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from tests.services.machine import free_port, missing, wait_until

PASSWORD = "open sesame"


class Postgres:
    """A server that is started, killed and started again.

    Attributes:
        port: The port that it listens on.
    """

    def __init__(self) -> None:
        self.programs = _find_programs()
        # Not below pytest's folders: those are root's alone, and root may not run a server.
        self.folder = Path(tempfile.mkdtemp(prefix="muntin-postgres-"))
        self.only: dict[str, Any] = {}
        if os.getuid() == 0:
            self.only = {"user": "nobody", "group": "nogroup", "extra_groups": []}
            shutil.chown(self.folder, "nobody", "nogroup")
        self.port = free_port()
        self.log = self.folder / "log"
        self._databases = 0
        secret = self.folder / "secret"
        secret.write_text(PASSWORD)
        initdb = [self.programs / "initdb", "-D", self.folder / "data", "-U", "tester", "-N"]
        initdb += ["--auth=scram-sha-256", f"--pwfile={secret}", "--locale=C.UTF-8", "-E", "UTF8"]
        subprocess.run(initdb, check=True, capture_output=True, cwd=self.folder, **self.only)
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "fsync": "off",  # killed servers lose nothing by it, only machines do
            "shared_buffers": "16MB",
            "log_statement": "all",
        }
        command: list[Any] = [self.programs / "postgres", "-D", self.folder / "data"]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder, **self.only
            )
        wait_until(self._answers, self.process, self.log)

    def kill(self) -> None:
        """Kill the server, as a crash does, so that it writes nothing more to its tables."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(timeout=60)

    def freeze(self) -> None:
        """Stop all of its processes, so that its connections stay and nothing answers."""
        self.process.send_signal(signal.SIGSTOP)
        for child in self._list_children():
            os.kill(child, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let the processes continue."""
        for process in (*self._list_children(), self.process.pid):
            os.kill(process, signal.SIGCONT)

    def _list_children(self) -> list[int]:
        process = self.process.pid
        return [*map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())]

    def remove(self) -> None:
        """Kill the server, and delete its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def dsn(self, database: str = "postgres") -> str:
        """Return the address of a database."""
        return psycopg.conninfo.make_conninfo(
            host="127.0.0.1",
            port=self.port,
            user="tester",
            password=PASSWORD,
            dbname=database,
        )

    def database(self) -> str:
        """Create an empty database, and return its address."""
        self._databases += 1
        name = f"test_{self._databases}"
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.dsn(name)

    def _answers(self) -> bool:
        return psycopg.pq.PGconn.ping(self.dsn().encode()) == psycopg.pq.Ping.OK


def rows(dsn: str, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        return connection.execute(query.encode()).fetchall()


def _find_programs() -> Path:
    """Return the folder of the newest installed server."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True)
    program = shutil.which("postgres")
    if debian:
        return debian[0].parent
    if program is not None:
        return Path(program).resolve().parent
    missing("PostgreSQL")
