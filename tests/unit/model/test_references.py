"""Tests that references to secrets are resolved only where the secret is used."""

from __future__ import annotations

import pickle
from pathlib import Path

import polars as pl
import pytest

import muntin as mt
from muntin.model.errors import OptionError
from muntin.model.pipeline import DeclaredTable
from muntin.model.placeholders import fill
from muntin.model.references import encode_user, resolve, resolve_address
from muntin.model.secrets import redact, reveals_secret
from muntin.sinks.declared import Surroundings, make_sink
from muntin.sinks.kafka import KafkaSink
from muntin.sinks.postgres_link import PostgresLink
from muntin.sources.fetch import Fetcher
from muntin.sources.kafka_client import of_librdkafka
from muntin.sources.kafka_tables import reading_arguments
from muntin.sources.schema_registry import registry_at

SECRET = "se/s@m e"
LOGIN = {
    "security.protocol": "${env:PROTOCOL}",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "me",
    "sasl.password": "${env:PW}",
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", SECRET)
    monkeypatch.setenv("PROTOCOL", "SASL_PLAINTEXT")


def test_a_file_is_read_without_its_line_end(tmp_path: Path) -> None:
    path = tmp_path / "pw"
    for text in (SECRET, f"{SECRET}\n", f"{SECRET}\r\n"):
        path.write_bytes(text.encode())
        assert resolve("password", f"${{file:{path}}}") == SECRET
    # The content of a file isn't searched for references.
    path.write_text("${env:PW}")
    assert resolve("password", f"<${{file:{path}}}>") == "<${env:PW}>"


def test_references_that_cannot_be_read_are_refused_with_their_option(tmp_path: Path) -> None:
    large, binary = tmp_path / "large", tmp_path / "binary"
    large.write_bytes(b"x" * ((1 << 20) + 1))
    binary.write_bytes(b"\xff\xfe")
    for value, problem in [
        ("${env:ABSENT}", r"sasl\.password='\$\{env:ABSENT\}' isn't set.*set ABSENT, or name a"),
        (f"${{file:{tmp_path}/absent}}", "can't be read: No such file or directory"),
        (f"${{file:{tmp_path}}}", "can't be read: Is a directory"),
        (f"${{file:{large}}}", "can't be read: it has more than 1 MB"),
        (f"${{file:{binary}}}", "can't be read: 'utf-8' codec"),
    ]:
        with pytest.raises(OptionError, match=problem):
            resolve("sasl.password", value)


def test_an_address_holds_any_password() -> None:
    assert resolve_address("registry", "http://me:${env:PW}@h/x") == "http://me:se%2Fs%40m%20e@h/x"
    assert resolve_address("dsn", "host=h password=x") == "host=h password=x"
    assert encode_user("${env:PW}") == "${env:PW}"


def test_references_arent_secrets() -> None:
    for value in ("http://me:${file:/run/a b}@h", "http://me:${env:PW}@h"):
        assert redact(value) == value
    assert not reveals_secret("sasl.password", "${file:/run/secrets/pw}")
    assert reveals_secret("sasl.password", "${file:/run/secrets/pw}x")
    assert reveals_secret("ssl.key.pem", "x")


def test_topics_and_their_tasks_hold_the_reference(tmp_path: Path) -> None:
    topics = mt.kafka("h:1", "t", columns={"a": pl.Int64()}, options=LOGIN)
    source = topics.source_in("UTC")
    for shipped in (topics, source, source.topics):
        assert SECRET.encode() not in pickle.dumps(shipped)
        assert SECRET not in repr(shipped)
    client = source.topics.client
    assert client["security.protocol"] == "SASL_PLAINTEXT"
    assert Fetcher(client).settings.of_admin["sasl.password"] == SECRET


def test_a_sink_of_kafka_holds_the_reference() -> None:
    target = mt.to_kafka("h:1", "t", options=LOGIN)
    assert target.references == {"${env:PW}"}
    assert SECRET.encode() not in pickle.dumps(target)


def test_a_sink_is_refused_before_the_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pl.DataFrame({"at": ["2026-01-01 09:00:00"], "k": ["a"]})
    views = mt.windowed(rows, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
    monkeypatch.delenv("PW")
    target = mt.to_kafka("h:1", "t", options=LOGIN)
    with pytest.raises(OptionError, match=r"\$\{env:PW\}' isn't set in the environment"):
        target.check(views.results.to_arrow().schema, ("k",))


def test_a_registry_resolves_its_password_with_each_request() -> None:
    for url in ("http://me:${env:PW}@h:8081/x", "http://${env:PW}@h:8081/x"):
        registry = registry_at(url)
        assert registry is not None
        assert registry.origin == "http://h:8081"
        assert SECRET.encode() not in pickle.dumps(registry)
        headers = registry._create_request("http://h:8081/x/subjects", None).headers
        assert headers["Authorization"].startswith("Basic ")


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://me:${env:PW}@h:1/db",
        "host=h port=1 dbname=db user=me password=${env:PW}",
        "host=h port=1 dbname=db user=me password='${env:PW}'",
    ],
)
def test_a_connection_to_postgres_resolves_its_password(dsn: str) -> None:
    link = PostgresLink(dsn, 1.0)
    assert link.location == "h:1/db"
    assert SECRET.encode() not in pickle.dumps(link)
    assert "se%2Fs" not in str(vars(link))
    assert link._find_parameters()["password"] == SECRET
    assert PostgresLink("host=h", 1.0, "${env:PW}")._find_parameters()["password"] == SECRET


def test_pipelines_keep_only_references_of_secrets() -> None:
    surroundings = Surroundings({"topic": "t"}, {"HOST": "h", "PW": SECRET}, keeps_secrets=True)
    options = {
        "servers": "${env:HOST}:1",
        "topic": "${topic}",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "me",
        "sasl.password": "${env:PW}",
    }
    target = make_sink(DeclaredTable("t", "kafka", options=options), surroundings)
    assert isinstance(target, KafkaSink)
    assert target.servers == "h:1"
    assert target.client["sasl.password"] == "${env:PW}"
    # A connector of Spark's own gets the value.
    table = DeclaredTable("t", "jdbc", options={"password": "${env:PW}"})
    assert surroundings.options(table) == {"password": SECRET}


def test_a_value_of_set_is_no_reference() -> None:
    for value in ("${env:PW}", "h/${file:/etc/passwd}"):
        with pytest.raises(OptionError, match="--set='host' has a reference as its value"):
            fill("dsn", "postgresql://${host}/db", {"host": value}, {}, keeps_secrets=True)


def test_flinks_user_of_a_registry_may_be_a_reference() -> None:
    table = {"topic": "t", "properties.bootstrap.servers": "h:1", "format": "avro-confluent",
             "avro-confluent.url": "http://r:8081"}  # fmt: skip
    for user, registry in [
        ("me:a/b", "http://me:a%2Fb@r:8081"),
        ("me:${env:PW}", "http://me:${env:PW}@r:8081"),
        ("${env:PAIR}", "http://${env:PAIR}@r:8081"),
    ]:
        user_options = {"avro-confluent.basic-auth.user-info": user}
        assert reading_arguments("t", {**table, **user_options})["registry"] == registry


def test_other_options_are_resolved_at_once() -> None:
    client, _ = of_librdkafka("h:1", {"client.id": "${env:PROTOCOL}"})
    assert client["client.id"] == "SASL_PLAINTEXT"


def test_a_checkpoint_holds_no_secret(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"k": "a", "at": "2026-01-01T00:00:00Z"}\n')
    rows = mt.files(f"{tmp_path}/in/*.jsonl", columns="k string, at timestamp")
    views = mt.windowed(rows, key="k", time="at").tumbling("1 minute").agg(n=mt.count())
    # No window ends, so nothing is sent.
    target = mt.to_kafka("127.0.0.1:1", "t", options={**LOGIN, "sasl.password": SECRET})
    views.start(checkpoint=tmp_path / "checkpoint", results=target, available_now=True).await_end(
        60
    )
    files = [path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert files
    assert not any(SECRET.encode() in content for content in files)
