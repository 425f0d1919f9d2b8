"""Fixtures of the servers that tests share, each started by the first test that needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.services.connect import ConnectServer
from tests.services.kafka import CONNECTOR, Kafka
from tests.services.postgres import Postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server; it runs at the start of every test that doesn't break it."""
    server = Postgres()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def broker() -> Iterator[Kafka]:
    """A Kafka broker; it runs at the start of every test that doesn't break it."""
    server = Kafka()
    yield server
    server.remove()


@pytest.fixture
def kafka(broker: Kafka, monkeypatch: pytest.MonkeyPatch) -> Kafka:
    """The broker, with Spark's connector where muntin looks for it."""
    monkeypatch.setenv("MUNTIN_KAFKA_JARS", str(CONNECTOR))
    return broker


@pytest.fixture(scope="session")
def connect() -> Iterator[ConnectServer]:
    """A server of Spark Connect, for clients in processes of their own."""
    server = ConnectServer()
    yield server
    server.remove()
