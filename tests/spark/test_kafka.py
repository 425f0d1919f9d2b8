"""Tests of Kafka against a real broker: malformed messages, dead letters, repeats, restarts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType
from tests.services.kafka import Kafka
from tests.services.registry import SchemaRegistry
from tests.spark.batches import batch_of
from tests.spark.feed import at, rows
from tests.unit.sources import protos
from tests.unit.sources.protos import All

import muntin as mt
from muntin.model.errors import SourceError
from muntin.sinks.declared import Surroundings, make_sink
from muntin.sources.kafka import Reader
from muntin.spark.sources.tables import read_table
from muntin.sql.api import compile_pipeline

COLUMNS = "id long, at timestamp, value long"
MALFORMED = [b"{", b"", b"[1]", b'{"id": "x"}', b'{"at": "yesterday"}', b"\xff\xfe", None]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def order(number: int, seconds: float, value: int = 1) -> bytes:
    return json.dumps({"id": number, "at": at(seconds).isoformat(), "value": value}).encode()


@pytest.mark.parametrize("reader", ["spark", "columns"])
def test_what_cant_be_parsed_becomes_a_dead_letter(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, reader: Reader
) -> None:
    """A dead letter has the message's bytes, key and headers, and all counts add up."""
    topic, results, dead = kafka.topic(2), kafka.topic(1), kafka.topic(1)
    valid_messages = [(number % 2, f"k{number % 3}", order(number, number)) for number in range(30)]
    kafka.send(topic, valid_messages[:20])
    kafka.send(topic, [(0, "bad", payload, [("trace", b"\x00\x01")]) for payload in MALFORMED])
    kafka.send(topic, valid_messages[20:])
    kafka.send(topic, [(1, None, order(99, 2)), (1, "late", order(100, -500))])
    orders = mt.kafka(
        kafka.servers, topic, columns=COLUMNS, headers=True, per_batch=20, reader=reader
    )
    query = (
        mt.windowed(
            orders.stream(spark), key="key", time="at", offset=("partition", "offset"),
            lateness="1 minute",
        )
        .tumbling("10 seconds")
        .early(each=True)
        .agg(n=mt.count(), total=mt.sum("value"))
        .start(
            checkpoint=f"{tmp_path}/checkpoint",
            results=mt.to_kafka(kafka.servers, results),
            rejected=mt.to_kafka(kafka.servers, dead),
            available_now=True,
        )
    )  # fmt: skip
    assert query.await_end(timeout=240)
    counts = {"seen": 39, "counted": 30, "malformed": 7, "null_key": 1, "late": 1}
    assert query.progress.counts == counts
    assert query.progress.adds_up()

    letters = kafka.read(dead)
    bad = [m for m in letters if dict(m.headers())["reason"] == b"malformed"]
    assert Counter(m.value() for m in bad) == Counter(payload or b"" for payload in MALFORMED)
    assert {m.key() for m in bad} == {b"bad"}
    offsets = {int(m.offset()) for m in kafka.read(topic) if m.key() == b"bad"}
    for message in bad:
        headers = dict(message.headers())
        assert headers["trace"] == b"\x00\x01"
        assert (headers["topic"], headers["partition"]) == (topic.encode(), b"0")
        offsets.remove(int(headers["offset"]))
    assert offsets == set()
    others = {dict(m.headers())["reason"]: json.loads(m.value()) for m in letters if m not in bad}
    assert {reason: value["id"] for reason, value in others.items()} == {
        b"null_key": 99, b"late": 100
    }  # fmt: skip
    newest = {m.key(): json.loads(m.value()) for m in kafka.read(results)}
    emitted = {(v["key"], v["window_start"]): v["n"] for v in newest.values()}
    assert sum(emitted.values()) == 30
    assert len(emitted) == len(newest) == 9


@pytest.mark.parametrize("reader", ["spark", "columns"])
def test_what_is_read_twice_counts_once(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, reader: Reader
) -> None:
    """A new run on the same state begins at the earliest offset again: Spark's are thrown away."""
    topic, out = kafka.topic(2), tmp_path / "out.duckdb"
    orders = mt.kafka(kafka.servers, topic, columns=COLUMNS, reader=reader)

    def run() -> mt.WindowedQuery:
        doubled = orders.stream(spark).unionByName(orders.stream(spark))
        windows = mt.windowed(doubled, time="at", offset=("partition", "offset"))
        query = windows.tumbling("10 seconds").early(each=True).agg(total=mt.sum("value")).start(
            checkpoint=f"{tmp_path}/checkpoint",
            results=mt.to_duckdb(str(out), "windows"),
            available_now=True,
        )  # fmt: skip
        assert query.await_end(timeout=240)
        return query

    kafka.send(topic, [(n % 2, None, order(n, n, n)) for n in range(20)])
    assert run().progress.counts == {"seen": 40, "counted": 20, "duplicates": 20}
    if reader == "spark":  # Another test restarts the broker under the other reader.
        kafka.kill()
        kafka.start()
    kafka.send(topic, [(n % 2, None, order(n, n, n)) for n in range(20, 30)])
    assert run().progress.counts == {"seen": 60, "counted": 30, "duplicates": 30}
    totals = rows(out, "SELECT total FROM windows ORDER BY window_start")
    assert totals == [(sum(range(10 * n, 10 * n + 10)),) for n in range(3)]


@pytest.mark.parametrize("reader", ["spark", "columns"])
def test_windows_lie_on_offsets(spark: SparkSession, kafka: Kafka, reader: Reader) -> None:
    topic = kafka.topic(2)
    kafka.send(topic, [(0, None, order(n, n, n)) for n in range(7)])
    kafka.send(topic, [(1, None, order(n, n, n)) for n in range(3)])
    frame = mt.kafka(kafka.servers, topic, columns=COLUMNS, reader=reader).frame(spark)
    every3 = mt.windowed(frame, offset=("partition", "offset")).tumbling(mt.rows(3))
    rows_of_windows = every3.agg(total=mt.sum("value")).results.collect()
    emitted = sorted((r["partition"], r["window_start"], r["total"]) for r in rows_of_windows)
    assert emitted == [(0, 0, 3), (0, 3, 12), (0, 6, 6), (1, 0, 3)]


@pytest.mark.parametrize("reader", ["spark", "columns"])
def test_avro_there_and_back(spark: SparkSession, kafka: Kafka, reader: Reader) -> None:
    topic, schema = kafka.topic(1), json.dumps(
        {"type": "record", "name": "Order", "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"]},
        ]}
    )  # fmt: skip
    frame = spark.createDataFrame(
        [(1, "one"), (2, None)], "id long not null, note string"
    ).coalesce(1)
    sink = mt.to_kafka(kafka.servers, topic, format="avro", schema=schema)
    sink.write(batch_of(frame))
    kafka.send(topic, [(0, None, b"\x02")])
    read_back = mt.kafka(kafka.servers, topic, format="avro", schema=schema, reader=reader)
    read = read_back.frame(spark).orderBy("offset").collect()
    values = [(r["id"], r["note"], r["malformed"]) for r in read]
    assert values == [(1, "one", None), (2, None, None), (None, None, bytearray(b"\x02"))]


def test_all_types_of_avro_are_the_same_by_both_readers(spark: SparkSession, kafka: Kafka) -> None:
    schema = json.dumps({"type": "record", "name": "Row", "fields": [
        {"name": "yes", "type": "boolean"},
        {"name": "few", "type": ["int", "null"]},
        {"name": "half", "type": "float"},
        {"name": "real", "type": "double"},
        {"name": "raw", "type": ["null", "bytes"]},
        {"name": "fix", "type": {"type": "fixed", "name": "Two", "size": 2}},
        {"name": "side", "type": {"type": "enum", "name": "Side", "symbols": ["BUY", "SELL"]}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20,
                                   "scale": 2}},
        {"name": "place", "type": ["null", {"type": "record", "name": "Place", "fields": [
            {"name": "city", "type": "string"}, {"name": "lat", "type": ["null", "double"]}]}]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "sizes", "type": ["null", {"type": "map", "values": "long"}]},
    ]})  # fmt: skip
    frame = spark.sql("""
        SELECT id % 2 = 0 AS yes, if(id = 1, NULL, CAST(id - 2 AS int)) AS few,
               CAST(id / 2 AS float) AS half, id / 3D AS real,
               if(id = 1, NULL, CAST(repeat('x', CAST(id * 9 AS int)) AS binary)) AS raw,
               CAST('ab' AS binary) AS fix, if(id = 2, 'SELL', 'BUY') AS side,
               if(id = 3, NULL, date_add(DATE'1969-12-30', CAST(id AS int))) AS day,
               timestamp_millis(1767225600000 - id * 3000000000007) AS at,
               CAST(TIMESTAMP_NTZ'2026-01-01 00:00:00.123456' AS timestamp_ntz) AS local,
               CAST(-1.5 * id AS decimal(20, 2)) AS price,
               if(id = 0, NULL, named_struct('city', 'Zürich', 'lat', if(id = 1, NULL, 47.4D)))
                   AS place,
               array('a', concat('b', id)) AS tags, if(id = 2, NULL, map('s', id, 't', 2L)) AS sizes
        FROM range(0, 4, 1, 1)
    """)
    # Spark's writer must know which columns can't be null.
    nullable = {"few", "raw", "day", "place", "sizes"}
    strict = StructType([StructField(f.name, f.dataType, f.name in nullable) for f in frame.schema])
    topic = kafka.topic(1)
    strict_frame = spark.createDataFrame(frame.collect(), strict).coalesce(1)
    mt.to_kafka(kafka.servers, topic, format="avro", schema=schema).write(batch_of(strict_frame))
    sources_by_reader = {
        reader: mt.kafka(kafka.servers, topic, format="avro", schema=schema, reader=reader)
        for reader in ("spark", "columns")
    }
    by_spark, by_columns = (source.frame(spark) for source in sources_by_reader.values())
    assert by_columns.dtypes == by_spark.dtypes
    column_rows = by_columns.orderBy("offset").drop("key", "offset", "timestamp").collect()
    assert column_rows == by_spark.orderBy("offset").drop("key", "offset", "timestamp").collect()
    assert len(column_rows) == 4


def test_protobuf_as_rows_and_in_windows(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic(1)
    messages = [
        All(int64=n, string=f"s{n % 2}", words=["a"] * n, counts={"x": n}) for n in range(4)
    ]
    for n, message in enumerate(messages):
        message.at.FromSeconds(1_767_225_600 + n)
    values = [*(message.SerializeToString() for message in messages), b"\x08"]
    kafka.send(topic, [(0, None, value) for value in values])
    descriptor = tmp_path / "all.desc"
    descriptor.write_bytes(protos.described().SerializeToString())
    orders = mt.kafka(
        kafka.servers, topic, format="protobuf", schema=f"{descriptor}#tests.All", columns=None
    )
    rows = orders.frame(spark).orderBy("offset").collect()
    assert [(r["int64"], r["words"], r["counts"]) for r in rows[:4]] == [
        (n, ["a"] * n, {"x": n}) for n in range(4)
    ]
    assert rows[4]["malformed"] == bytearray(b"\x08")
    messages_stream = mt.kafka(kafka.servers, topic, format="protobuf", schema=All).stream(spark)
    windows = mt.windowed(messages_stream, key="string", time="at").tumbling("1 minute")
    query = windows.agg(n=mt.count(), total=mt.sum("int64")).start(
        checkpoint=f"{tmp_path}/checkpoint",
        rejected=mt.to_parquet(f"{tmp_path}/rejected"),
        available_now=True,
    )
    assert query.await_end(240)
    counts = query.progress.counts
    assert (counts["seen"], counts["counted"], counts["malformed"]) == (5, 4, 1)
    (rejected,) = spark.read.parquet(f"{tmp_path}/rejected").collect()
    assert (rejected["reason"], rejected["malformed"], rejected["words"]) == (
        "malformed",
        b"\x08",
        None,
    )
    state_rows = mt.open_state(f"{tmp_path}/checkpoint").fetch()
    assert sorted(state_rows.select("string", "total").rows()) == [("s0", 2), ("s1", 4)]


@pytest.mark.parametrize("few", [True, False])
def test_messages_too_large_for_the_topic_are_set_aside(
    spark: SparkSession, kafka: Kafka, few: bool
) -> None:
    """Some exceed the topic's limit, others also the client's."""
    topic = kafka.topic(1, largest=20_000)
    # Random bytes, which nothing makes shorter.
    text = "array_join(transform(sequence(1, size), i -> md5(cast(rand() AS string))), '')"
    sizes = spark.sql("SELECT explode(array(1, 100, 1000, 2, 60000, 3)) AS size").coalesce(1)
    frame = sizes.selectExpr("size", f"{text} AS text").localCheckpoint()
    batch = batch_of(frame, 3, few=few)
    mt.to_kafka(kafka.servers, topic).write(batch)
    letters = [row for frame in batch.unwritable.frames for row in frame.collect()]
    letters += [Row(**row) for row in batch.unwritable.table().to_pylist()]
    reasons_by_size = {json.loads(row.row)["size"]: (row.sink, row.why) for row in letters}
    assert list(reasons_by_size) == [1000, 60000]
    sink, why = reasons_by_size[1000]
    assert sink == f"Kafka {kafka.servers}, topic {topic}"
    assert why.startswith("the message is too large: 32")
    sent = [json.loads(message.value())["size"] for message in kafka.read(topic)]
    assert sent[-4:] == [1, 100, 2, 3]
    assert set(sent) == {1, 100, 2, 3}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    server = SchemaRegistry()
    yield server
    server.close()


def test_avro_by_a_registry_whose_schema_grows(
    spark: SparkSession, kafka: Kafka, registry: SchemaRegistry, tmp_path: Path
) -> None:
    """A query reads by the newest schema; after a restart, by the one that is newest then."""
    topic, fields = kafka.topic(1), [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ]  # fmt: skip

    def send(count: int) -> None:
        schema = {"type": "record", "name": "Order", "fields": fields}
        number = registry.register(f"{topic}-value", schema)
        row = {"id": 1, "at": at(5), "amount": 2}
        kafka.send(topic, [(0, "a", registry.written(number, row))] * count)

    def count(name: str, **aggregates: mt.Aggregate) -> None:
        orders = mt.kafka(kafka.servers, topic, format="avro", registry=registry.url)
        query = (
            mt.windowed(orders.stream(spark), key="id", time="at")
            .tumbling("10 seconds")
            .early(each=True)
            .agg(n=mt.count(), **aggregates)
            .start(
                checkpoint=f"{tmp_path}/{name}",
                results=mt.to_duckdb(f"{tmp_path}/out.duckdb", name),
                rejected=mt.to_duckdb(f"{tmp_path}/out.duckdb", f"no_{name}"),
                available_now=True,
            )
        )
        assert query.await_end(timeout=240)

    send(3)
    kafka.send(topic, [(0, "a", b"\0\0\0\0\x09\2\2"), (0, "a", b"\1")])
    count("before")
    fields.append({"name": "amount", "type": ["null", "long"], "default": None})
    send(2)
    count("before")
    count("after", total=mt.sum("amount"))
    out = tmp_path / "out.duckdb"
    assert rows(out, "SELECT n FROM before") == [(5,)]
    assert rows(out, "SELECT n, total FROM after") == [(5, 4)]
    for name in ("before", "after"):
        rejected = f"SELECT reason, count(*) FROM no_{name} GROUP BY ALL"
        assert rows(out, rejected) == [("malformed", 2)]


def test_what_is_written_by_a_registry_is_read_back(
    spark: SparkSession, kafka: Kafka, registry: SchemaRegistry
) -> None:
    topic = kafka.topic(1)
    frame = spark.sql("""
        SELECT CAST(id AS byte) AS few, CAST(id AS long) AS many, id / 3D AS real,
               if(id = 1, NULL, 'ä') AS text, CAST('ab' AS binary) AS raw, id = 1 AS yes,
               DATE'2026-01-01' AS day, TIMESTAMP'2026-01-01 00:00:00.123456Z' AS at,
               TIMESTAMP_NTZ'2026-01-01 00:00:00.123456' AS local,
               CAST(-1.5 * id AS decimal(20, 2)) AS price, named_struct('a', id, 'b', 'x') AS place
        FROM range(0, 3, 1, 1)
    """)
    sink = mt.to_kafka(kafka.servers, topic, format="avro", registry=registry.url)
    for _ in range(2):
        sink.write(batch_of(frame))
    assert registry.asked == [f"/subjects/{topic}-value/versions"]
    read_back = mt.kafka(kafka.servers, topic, format="avro", registry=registry.url).frame(spark)
    read_rows = read_back.orderBy("offset").select(*frame.columns).collect()
    assert read_rows == 2 * frame.withColumn("few", F.col("few").cast("int")).collect()
    assert read_back.where("malformed IS NOT NULL").count() == 0
    numbers = mt.to_kafka(kafka.servers, topic, format="avro", registry=registry.url)
    with pytest.raises(mt.OptionError, match=r"Row_x.*Duration.*Avro lacks; cast it"):
        numbers.write(batch_of(spark.sql("SELECT INTERVAL 1 DAY AS x")))
    strict = mt.to_kafka(kafka.servers, topic, format="avro", schema="{}", registry=registry.url)
    with pytest.raises(SourceError, match="answers 422"):
        strict.write(batch_of(frame))


def test_sql_reads_a_topic_by_a_registry(
    spark: SparkSession, kafka: Kafka, registry: SchemaRegistry
) -> None:
    topic = kafka.topic(1)
    number = registry.register(f"{topic}-value", {"type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ]})  # fmt: skip
    kafka.send(
        topic, [(0, None, registry.written(number, {"id": n, "at": at(n)})) for n in range(25)]
    )
    script = f"""
        CREATE TABLE orders WITH (connector = 'kafka', topic = '{topic}', format = 'avro',
            'bootstrap.servers' = '{kafka.servers}', registry = '{registry.url}', mode = 'batch');
        CREATE TABLE counts WITH (connector = 'parquet', path = 'counts');
        INSERT INTO counts SELECT count(*) AS n
        FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end;
    """
    frame = read_table(spark, compile_pipeline(script).tables["orders"], Surroundings())
    assert sorted((row["id"], row["at"].second) for row in frame.collect()) == [
        (n, n) for n in range(25)
    ]


RECORDS = [
    b"1,2026-01-01T00:00:00Z,5,a,1.5,true",
    b",,,,,",
    b"-7,2026-01-01T00:00:00.250Z,,  b ,-1e-3,FALSE",
    b'1,,,"a,b",,',
    b'1,,,"say \\"x\\"",,',
    b"1,,,c\\d,,",
]
NO_RECORDS = [
    b"x,,,,,", b"1,,,,", b"1,,,,,,", b"1,yesterday,,,,", b"1,,,,abc,", b"1,,,,,yes", None,
    b" 1,,,,,", b"1_0,,,,,", b"1.0,,,,,",
]  # fmt: skip


@pytest.mark.parametrize("reader", ["spark", "columns"])
def test_csv(spark: SparkSession, kafka: Kafka, reader: Reader) -> None:
    topic = kafka.topic(1)
    kafka.send(topic, [(0, None, record) for record in [*RECORDS, *NO_RECORDS]])
    columns = f"{COLUMNS}, note string, price double, paid boolean"
    csv = mt.kafka(kafka.servers, topic, columns=columns, format="csv", reader=reader)
    csv_rows = csv.frame(spark).orderBy("offset").collect()
    names = ("id", "value", "note", "price", "paid", "malformed")
    assert [tuple(row[name] for name in names) for row in csv_rows[: len(RECORDS)]] == [
        (1, 5, "a", 1.5, True, None),
        (None,) * 6,
        (-7, None, "  b ", -0.001, False, None),
        (1, None, "a,b", None, None, None),
        (1, None, 'say "x"', None, None, None),
        (1, None, "c\\d", None, None, None),
    ]
    rest = [row["malformed"] for row in csv_rows[len(RECORDS) :]]
    assert rest == [bytearray(record or b"") for record in NO_RECORDS]


def test_plain_values(spark: SparkSession, kafka: Kafka) -> None:
    topic = kafka.topic(1)
    kafka.send(topic, [(0, "a", b"1"), (0, "b", b"x,,")])
    plain = mt.kafka(kafka.servers, topic).frame(spark).orderBy("offset").collect()
    assert [(r["key"], bytes(r["value"])) for r in plain] == [("a", b"1"), ("b", b"x,,")]


def test_a_pipeline_reads_and_writes_topics(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    topic, results = kafka.topic(1), kafka.topic(1)
    script = f"""
        CREATE TABLE orders (id BIGINT, at TIMESTAMP, value BIGINT, OFFSET FOR (partition, offset))
        WITH (connector = 'kafka', topic = '{topic}', 'bootstrap.servers' = '{kafka.servers}',
              'security.protocol' = 'PLAINTEXT', per_batch = '5', mode = 'batch');
        CREATE TABLE sums WITH (connector = 'kafka', topic = '{results}', key = 'value',
                                'bootstrap.servers' = '{kafka.servers}');
        INSERT INTO sums SELECT sum(value) AS value
        FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end;
    """
    tables = compile_pipeline(script).tables
    kafka.send(topic, [(0, None, order(n, n, n)) for n in range(7)])
    frame = read_table(spark, tables["orders"], Surroundings())
    assert sorted(r["value"] for r in frame.collect()) == list(range(7))
    make_sink(tables["sums"], Surroundings()).write(batch_of(frame.select("id", "value")))
    letters = kafka.read(results)
    assert sorted((m.key(), json.loads(m.value())["id"]) for m in letters)[3] == (b"3", 3)
    assert {dict(m.headers())["batch"] for m in letters} == {b"0"}


def test_secrets_are_in_no_plan(spark: SparkSession, kafka: Kafka) -> None:
    jaas = 'PlainLoginModule required username="u" password="sesame";'
    options = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": jaas,
        "ssl.truststore.password": "sesame",
    }
    orders = mt.kafka(kafka.servers, "orders", columns=COLUMNS, options=options)
    windows = mt.windowed(orders.stream(spark), key="id", time="at").tumbling("1 minute")
    counted = windows.agg(n=mt.count())
    for frame in (orders.stream(spark), counted.results, counted.rejected):
        assert "sesame" not in frame._jdf.queryExecution().toString()
    assert "sesame" not in counted.explain()
