"""Servers that tests share; each is started when the first test asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.services.postgres import Postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server; it runs at the start of every test that doesn't break it."""
    server = Postgres()
    yield server
    server.remove()
