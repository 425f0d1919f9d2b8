"""Tests of rows that a sink can't store: only these are set aside, all others are written."""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pytest
from tests.contract.sinks import DuckDBTarget, PostgresTarget, Rows, Target
from tests.services.postgres import Postgres
from tests.services.postgres import rows as fetch_rows

import muntin as mt
from muntin.model.axis import parse_time
from muntin.testing import SinkBatch as Written

STAMP = pa.timestamp("us", tz="UTC")
# Beyond the range of Python's times: 5001 BC to 57971, and the limits of Spark's times.
FAR = [-219_966_000_000_000_000, -(2**63) + 2, 1_767_225_600_000_000_000, 2**63 - 2]
NEAR = [parse_time("t", "0001-01-01T00:00:00"), -62_135_596_800_000_001, 0]


@pytest.fixture(params=["duckdb", "postgres"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Target:
    if request.param == "duckdb":
        return DuckDBTarget(tmp_path / "out.duckdb")
    return PostgresTarget(request.getfixturevalue("postgres").database())


def texts(*values: bytes) -> pa.Array:
    """Return a column of text of any bytes, as Spark's casts produce them."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())


def windows(keys: pa.Array, **more: Any) -> pa.Table:
    n = len(keys)
    columns = {
        "key": keys,
        "window_start": pa.array([0] * n, STAMP),
        "window_end": pa.array([10] * n, STAMP),
        "n": pa.array(range(n), pa.int64()),
        "emission": pa.array(["full"] * n),
        "revision": pa.array([0] * n, pa.int32()),
    }
    return pa.table({**columns, **more})


def upsert(target: Target, table: pa.Table, **options: Any) -> Rows:
    batch = Rows(table, ("key", "window_start", "window_end"), **options)
    target.sink("windows", None).write(batch)
    return batch


KEYS = [
    "a\0",
    "a␀",
    "a",
    "a\0\0",
    "␀",
    "␛␀",
    "\0",
    "␛",
    "␛␛",
    "",
    " a",
    "a ",
    "A",
    "\xe9",
    "e\u0301",
]


def test_no_two_keys_become_one_row(target: Target) -> None:
    for _ in range(2):
        batch = upsert(target, windows(pa.array(KEYS)))
    assert batch.read_unwritable() == []
    stored = target.read("windows", "n", "key")
    assert [n for n, _ in stored] == list(range(len(KEYS)))
    assert len({key for _, key in stored}) == len(KEYS)


def test_only_the_rows_that_arent_text_are_set_aside(target: Target) -> None:
    """Neither their position nor their number matters, nor the rest of the batch."""
    keys = texts(b"\xed\xa0\x80", *(b"k%d" % n for n in range(20)), b"\xff", b"a\xc3")
    for _ in range(2):
        batch = upsert(target, windows(keys, n=pa.array(range(len(keys)), pa.int64())))
        assert [row["n"] for _, _, row in batch.read_unwritable()] == [0, 21, 22]
        assert batch.read_unwritable()[0][2]["key"] == "\udced\udca0\udc80"
        assert {"windows" in sink for sink, _, _ in batch.read_unwritable()} == {True}
    assert target.read("windows", "n") == [(n,) for n in range(1, 21)]


def test_a_batch_of_nothing_else_is_taken(target: Target) -> None:
    upsert(target, windows(pa.array(["a"])))
    batch = upsert(target, windows(texts(b"\xff")), number=1)
    assert len(batch.read_unwritable()) == 1
    assert target.read("windows", "key") == [("a",)]


def test_versions_of_a_window_among_refused_rows(target: Target) -> None:
    """They come in any order; the greatest revision wins, and retracted windows stay deleted."""
    keys = texts(b"a", b"\xff", b"b", b"a", b"b", b"c", b"c", b"\xfe")
    revision = pa.array([2, 0, 1, 1, 0, 1, 0, 0], pa.int32())
    emission = pa.array(["full", "full", "retract", "early", "early", "full", "early", "full"])
    table = windows(keys, revision=revision, emission=emission)
    for _ in range(2):
        assert len(upsert(target, table).read_unwritable()) == 2
        assert target.read("windows", "key", "revision") == [("a", 2), ("c", 1)]


def test_times_that_python_cant_hold(target: Target) -> None:
    far = pa.array([*FAR, *NEAR, None], pa.int64())
    days = pa.array([-2_500_000, 2**31 - 1, 20_454_000, -719_163, 0, 1, 2, None], pa.int32())
    nested = pa.array([[value] for value in far.to_pylist()], pa.list_(STAMP))
    struct = pa.StructArray.from_arrays([far.cast(STAMP)], ["at"])
    table = pa.table(
        {
            "id": pa.array(range(8), pa.int64()),
            "at": far.cast(STAMP),
            "local": far.cast(pa.timestamp("us")),
            "day": days.cast(pa.date32()),
            "listed": nested,
            "deep": struct,
        }
    )
    for _ in range(2):
        batch = Rows(table)
        target.sink("rejected", None).write(batch)
        unwritable_rows = {row["id"]: row for _, _, row in batch.read_unwritable()}
        stored_ids = [n for (n,) in target.read("rejected", "id")]
        assert sorted([*stored_ids, *unwritable_rows]) == list(range(8))
        assert {2, 3, 4, 5, 6, 7} <= set(stored_ids)
        for row in unwritable_rows.values():
            assert row["at"].startswith("-")
            assert row["deep"]["at"] == row["at"]


def test_postgres_reads_far_times_as_they_are(postgres: Postgres) -> None:
    """All but those before 4714 BC, where its calendar begins."""
    dsn = postgres.database()
    sink = mt.to_postgres(dsn, "rejected")
    times = pa.array([*FAR, *NEAR], pa.int64())
    batch = Rows(pa.table({"id": pa.array(range(7), pa.int64()), "at": times.cast(STAMP)}))
    sink.write(batch)
    # Numeric, for a double has no room for microseconds that far away.
    query = "SELECT id, (extract(epoch FROM at) * 1000000)::bigint FROM rejected ORDER BY id"
    assert fetch_rows(dsn, query) == [(n, times[n].as_py()) for n in range(2, 7)]
    assert [(row["id"], why) for _, why, row in batch.read_unwritable()] == [
        (0, 'timestamp out of range: "5002-07-22 05:20:00+00 BC"'),
        (1, 'timestamp out of range: "290309-12-21 19:59:05.224194+00 BC"'),
    ]


def test_a_key_beyond_the_limit_of_an_index_isnt_a_lost_connection(postgres: Postgres) -> None:
    long = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=6000))
    dsn = postgres.database()
    sink = mt.to_postgres(dsn, "windows", history="history", patience="1 hour")
    batch = Rows(windows(pa.array(["a", long, "x" * 6000])), ("key", "window_start", "window_end"))
    sink.write(batch)
    # A key that is compressed below the limit fits.
    assert fetch_rows(dsn, "SELECT n FROM windows ORDER BY 1") == [(0,), (2,)]
    assert fetch_rows(dsn, "SELECT n FROM history ORDER BY 1") == [(0,), (1,), (2,)]
    ((location, why, row),) = batch.read_unwritable()
    assert location == f"PostgreSQL {sink.link.location}, table windows"
    assert "exceeds btree version 4 maximum 2704" in why
    assert row["key"] == long


@pytest.mark.slow
def test_ten_thousand_rows_that_a_table_refuses_take_no_lock_each(postgres: Postgres) -> None:
    """A server with default settings has locks for some 6 400 objects at a time."""
    dsn = postgres.database()
    with psycopg.connect(dsn, autocommit=True) as connection:
        columns = COLUMNS.replace("n bigint", "n bigint CHECK (n % 2 = 0 OR n > 20000)")
        connection.execute(
            f"CREATE TABLE windows ({columns}, UNIQUE (key, window_start, window_end))"
        )
    keys = pa.array([f"k{n}" for n in range(22_000)])
    before = postgres.log.stat().st_size
    for _ in range(2):
        batch = Rows(windows(keys), ("key", "window_start", "window_end"))
        mt.to_postgres(dsn, "windows").write(batch)
        refused_numbers = [row["n"] for _, _, row in batch.read_unwritable()]
        assert refused_numbers == list(range(1, 20_000, 2))
        assert "violates check constraint" in batch.read_unwritable()[0][1]
        assert fetch_rows(dsn, "SELECT count(*), min(n), max(n) FROM windows") == [
            (12_000, 0, 21_999)
        ]
    # A statement a row would be in the log.
    with postgres.log.open("rb") as log:
        log.seek(before)
        assert log.read().count(b"statement: ") < 100


def test_any_type_of_a_table_of_ones_own_among_refused_rows(postgres: Postgres) -> None:
    """Values reach their columns by assignment: none is cut to fit a length."""
    dsn = postgres.database()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE DOMAIN even AS bigint CHECK (value % 2 = 0);"
            "CREATE TABLE log (id even, short varchar(3), fixed char(2), money numeric(4, 1),"
            "flags boolean[], doc jsonb, raw bytea, at timestamptz(0), took interval, batch bigint)"
        )
    table = pa.table(
        {
            "id": pa.array([0, 1, 2, 4, 6, 8], pa.int64()),
            "short": ["abc", "x", "long", None, "ü␀", ""],
            "fixed": ["a", "a", "a", "abc", "é", None],
            "money": [1.25, 1.0, 1.0, 1.0, 12345.0, None],
            "flags": [[True, None], [], None, [False], [], None],
            "doc": pa.array([{"a": 1}] * 6),
            "raw": pa.array([b"\\x\0", b"", None, b"a", b"b", b"\xff"]),
            "at": pa.array([1, 2, 3, 4, 5, None], STAMP),
            "took": pa.array([1, 2, 3, 4, 5, None], pa.duration("us")),
        }
    )
    batch = Rows(table)
    mt.to_postgres(dsn, "log", create="never").write(batch)
    assert [row["id"] for _, _, row in batch.read_unwritable()] == [1, 2, 4, 6]
    stored = fetch_rows(
        dsn, "SELECT id, short, fixed, money::text, flags, doc, raw FROM log ORDER BY 1"
    )
    assert stored == [
        (0, "abc", "a ", "1.3", [True, None], {"a": 1}, b"\\x\0"),
        (8, "", None, None, None, {"a": 1}, b"\xff"),
    ]


def test_a_table_that_is_dropped_is_created_with_one_warning(
    target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    sink = target.sink("windows", None)
    for number, key in enumerate("abcd"):
        if number == 2:
            target.drop("windows")
        sink.write(Rows(windows(pa.array([key])), ("key", "window_start", "window_end"), number))
    assert target.read("windows", "key") == [("c",), ("d",)]
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "table windows doesn't exist at batch 2" in warning
    assert warning.endswith("it is created again, without what earlier batches wrote")


def test_a_table_that_is_dropped_ends_a_query_that_must_not_create_it(postgres: Postgres) -> None:
    dsn = postgres.database()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE t ({COLUMNS}, UNIQUE (key, window_start, window_end))")
        sink = mt.to_postgres(dsn, "t", create="never")
        sink.write(Rows(windows(pa.array(["a"])), ("key", "window_start", "window_end"), 0))
        connection.execute("DROP TABLE t")
    with pytest.raises(mt.SinkError, match="the table t isn't there"):
        sink.write(Rows(windows(pa.array(["a"])), ("key", "window_start", "window_end"), 1))
    with pytest.raises(mt.OptionError, match="give one of 'if missing', 'never'"):
        mt.to_postgres(dsn, "t", create="false")  # type: ignore[arg-type]


OURS = """
    CREATE TABLE windows (
        key varchar(3), window_start timestamptz, window_end timestamptz, n smallint NOT NULL,
        emission text, revision int, PRIMARY KEY (key, window_start, window_end),
        CHECK (n <> 5), CONSTRAINT late UNIQUE (n) DEFERRABLE INITIALLY DEFERRED);
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN IF NEW.n = 7 THEN RAISE 'seven is for me'; END IF; RETURN NEW; END $$;
    CREATE TRIGGER refuse BEFORE INSERT ON windows FOR EACH ROW EXECUTE FUNCTION refuse();
"""


def test_what_a_table_of_ones_own_refuses(postgres: Postgres) -> None:
    """Values out of range, checks, nulls, triggers, and constraints that wait for the commit."""
    dsn = postgres.database()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(OURS.encode())
    n = pa.array([0, 1, 70_000, 5, None, 7, 1, 8], pa.int64())
    keys = pa.array(["a", "b", "c", "d", "e", "f", "g", "long"])
    batch = Rows(windows(keys, n=n), ("key", "window_start", "window_end"))
    mt.to_postgres(dsn, "windows", create="never", patience="1 hour").write(batch)
    assert fetch_rows(dsn, "SELECT key, n FROM windows ORDER BY 1") == [("a", 0), ("b", 1)]
    reasons = {row["key"]: why for _, why, row in batch.read_unwritable()}
    assert list(reasons) == ["c", "d", "e", "f", "g", "long"]
    assert reasons["f"] == "seven is for me"
    assert "late" in reasons["g"]


COLUMNS = """key text, window_start timestamptz, window_end timestamptz, n bigint,
emission text, revision integer"""


@pytest.mark.parametrize("unique", ["PRIMARY KEY", "UNIQUE"])
def test_null_needs_a_table_in_which_it_equals_itself(postgres: Postgres, unique: str) -> None:
    dsn = postgres.database()
    with psycopg.connect(dsn) as connection:
        shape = f"{COLUMNS}, {unique} (key, window_start, window_end)"
        connection.execute(f"CREATE TABLE windows ({shape})")
    for _ in range(2):
        ((sink, why, row),) = upsert(
            PostgresTarget(dsn), windows(pa.array(["a", None, "b"]))
        ).read_unwritable()
        assert sink.endswith("table windows")
        assert "key is NULL, and windows has no UNIQUE NULLS NOT DISTINCT (key, window_" in why
        assert (row["key"], row["n"]) == (None, 1)
        assert fetch_rows(dsn, "SELECT key, n FROM windows ORDER BY n") == [("a", 0), ("b", 2)]


def test_a_table_that_is_made_has_room_for_null_where_a_key_may_be(postgres: Postgres) -> None:
    dsn, kinds = postgres.database(), {}
    for nullable in (False, True):
        table = windows(pa.array(["a"]))
        fields = [f.with_nullable(nullable) if f.name == "key" else f for f in table.schema]
        bounds = [f.with_nullable("window" not in f.name and f.nullable) for f in fields]
        name = f"t{nullable}"
        batch = Rows(table.cast(pa.schema(bounds)), ("key", "window_start", "window_end"))
        PostgresTarget(dsn).sink(name, None).write(batch)
        indexes = f"SELECT indexdef FROM pg_indexes WHERE tablename = '{name}'"
        primary = (
            f"SELECT count(*) FROM pg_constraint WHERE contype = 'p' AND conname = '{name}_pkey'"
        )
        kinds[nullable] = (
            fetch_rows(dsn, primary),
            "NULLS NOT DISTINCT" in str(fetch_rows(dsn, indexes)),
        )
    assert kinds == {False: ([(1,)], False), True: ([(0,)], True)}


def test_a_statement_that_no_row_is_to_blame_for_ends_at_once(postgres: Postgres) -> None:
    dsn = postgres.database()
    with psycopg.connect(dsn, autocommit=True) as connection:
        trigger = "BEFORE INSERT ON windows FOR EACH STATEMENT EXECUTE FUNCTION refuse()"
        connection.execute(OURS.replace("BEFORE INSERT ON windows FOR EACH ROW EXECUTE FUNCTION "
                                        "refuse()", trigger).replace("IF NEW.n = 7 THEN", "")
                           .replace("END IF;", "").encode())  # fmt: skip
    with pytest.raises(mt.SinkError, match="table windows takes no row at all: seven is for me"):
        mt.to_postgres(dsn, "windows", create="never", patience="1 hour").write(
            Rows(windows(pa.array(["a"])), ("key", "window_start", "window_end"))
        )


@pytest.mark.slow
def test_a_key_of_ten_million_characters_and_a_text_of_fifty_megabytes(target: Target) -> None:
    key, text = (random.Random(n).randbytes(n // 2).hex() for n in (10_000_000, 50_000_000))
    keys = pa.array(["a", key, "b", "x" * 10_000_000])
    batch = upsert(target, windows(keys, text=pa.array([text, "", "", ""])))
    unwritable_lengths = {row["n"]: len(row["key"]) for _, _, row in batch.read_unwritable()}
    stored = {n for (n,) in target.read("windows", "n")}
    # PostgreSQL stores the keys that it compresses below its limit.
    assert stored | unwritable_lengths.keys() == {0, 1, 2, 3}
    assert {0, 2} <= stored
    assert not stored & unwritable_lengths.keys()
    assert set(unwritable_lengths.values()) <= {10_000_000}
    lengths = [len(text) for (text,) in target.read("windows", "text")]
    assert max(lengths) == 50_000_000


@pytest.mark.slow
def test_thousands_of_columns_and_hundreds_of_levels(target: Target) -> None:
    """A row is stored with all columns, or the query doesn't start."""
    deep = pa.array([1], pa.int64())
    for _ in range(200):
        deep = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), deep)
    nested = pa.StructArray.from_arrays([deep], ["deep"])
    for count, table in ((1000, "a"), (1500, "b"), (10_000, "c")):
        columns = {f"c{n}": pa.array([n], pa.int64()) for n in range(count)} | {"nested": nested}
        sink, rows = target.sink(table, None), pa.table(columns)
        if count == 10_000 and isinstance(target, PostgresTarget):
            with pytest.raises(mt.OptionError, match="columns=10001 are more than PostgreSQL's"):
                sink.write(Rows(rows))
            continue
        batch = Rows(rows)
        sink.write(batch)
        last = f"c{count - 1}"
        stored = [n for (n,) in target.read(table, last)]
        assert stored + [row[last] for _, _, row in batch.read_unwritable()] == [count - 1]


@contextmanager
def limit_files(size: int) -> Iterator[None]:
    """Limit the size of files, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 1, 4096, 6000, 8192, 12_287, 12_288, 100_000, 262_144])
def test_a_full_disk_leaves_a_file_that_opens(tmp_path: Path, size: int) -> None:
    path = tmp_path / "out.duckdb"
    batches = [Written(0, [("a", 0, 1, 0)]), Written(1, [(f"k{n}", 0, n, 0) for n in range(3000)])]
    with limit_files(size):
        for batch in batches:
            try:
                mt.to_duckdb(str(path), "windows").write(batch)
            except (duckdb.IOException, mt.SinkError):
                break
        else:
            raise AssertionError("the disk was large enough")
    for batch in batches:
        mt.to_duckdb(str(path), "windows").write(batch)
    with duckdb.connect(str(path)) as connection:
        assert connection.execute("SELECT count(*) FROM windows").fetchone() == (3001,)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
