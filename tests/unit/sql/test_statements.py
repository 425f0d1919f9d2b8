"""Tests that each clause and option of CREATE is honoured or refused, never ignored."""

from __future__ import annotations

import pytest

import muntin as mt
from muntin.model.reader_options import check_reader
from muntin.sql.api import Definitions, compile_input, compile_pipeline, compile_query

FIRST = "CREATE TABLE t (k STRING, ts TIMESTAMP) WITH (connector = 'json', path = 'first');"
SECOND = "TABLE t (k STRING, ts TIMESTAMP) WITH (connector = 'json', path = 'second');"
OUT = "CREATE TABLE out WITH (connector = 'parquet', path = 'out');"
QUERY = "SELECT k, count(*) AS n FROM {} GROUP BY k, TUMBLE(ts, 1 HOUR);"


def compile_catalog(*statements: str):
    definitions = Definitions()
    for statement in statements:
        compile_input(statement, definitions)
    return definitions.catalog


def read_marked_text(error: mt.SqlError) -> str:
    return error.text[slice(*error.span)]


@pytest.mark.parametrize(
    ("options", "stream"),
    [
        ("CONNECTOR = 'json', MODE = 'batch', path = 'p'", False),
        ("'Connector' = 'json', 'Mode' = 'stream', path = 'p'", True),
        ("Connector = 'json', path = 'p'", True),
    ],
)
def test_our_options_are_known_in_any_case(options, stream):
    table = compile_catalog(f"CREATE TABLE t (k STRING) WITH ({options})").tables["t"]
    assert (table.connector, table.stream, table.options) == ("json", stream, {"path": "p"})


def test_options_of_the_connector_stay_as_they_were_written():
    text = "CREATE TABLE t WITH (connector = 'json', multiLine = true, 'kafka.Group' = 'g')"
    assert compile_catalog(text).tables["t"].options == {"multiLine": "true", "kafka.Group": "g"}


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ("path = 'it''s'", "it's"),
        ("path = '''a'''", "'a'"),
        ("path = ''''", "'"),
        ("'path' = 'a''b''''c', multiLine = true", "a'b''c"),
        ('path = "say ""no"""', 'say "no"'),
        ("path = ''", ""),
    ],
)
def test_a_doubled_quote_is_a_quote(options: str, value: str) -> None:
    text = f"CREATE TABLE t (k STRING) WITH (connector = 'json', {options})"
    assert compile_catalog(text).tables["t"].options["path"] == value


def test_two_strings_are_no_doubled_quote() -> None:
    with pytest.raises(mt.SqlError, match="the options aren't closed"):
        compile_catalog("CREATE TABLE t (k STRING) WITH (connector = 'json', path = 'a' 'b')")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("connector = 'json', MODE = 'often'", "mode 'often' isn't known; write 'stream' or"),
        ("connector = 'json', mode = 'batch', MODE = 'stream'", "mode is given twice"),
        ("connector = 'json', multiLine = true, multiline = false", "multiline is given twice"),
    ],
)
def test_options_that_cannot_be_are_refused(options, problem):
    with pytest.raises(mt.SqlError, match=problem):
        compile_catalog(f"CREATE TABLE t (k STRING) WITH ({options})")


def test_a_table_is_replaced_or_left_as_the_statement_says():
    assert (
        compile_catalog(FIRST, f"CREATE OR REPLACE {SECOND}").tables["t"].options["path"]
        == "second"
    )
    catalog = compile_catalog(FIRST, f"CREATE {SECOND}".replace("TABLE t", "TABLE IF NOT EXISTS T"))
    assert catalog.tables["t"].options["path"] == "first"
    for words in ("CREATE OR REPLACE TABLE t", "CREATE TABLE IF NOT EXISTS t"):
        created = compile_catalog(f"CREATE {SECOND}".replace("CREATE TABLE t", words))
        assert created.tables["t"].options["path"] == "second"
    with pytest.raises(mt.SqlError, match="t exists already; give it another name"):
        compile_catalog(FIRST, f"CREATE {SECOND}")


def test_a_view_is_replaced_or_left_as_the_statement_says():
    view = "VIEW v AS SELECT * FROM t WHERE k = '{}';"
    catalog = compile_catalog(
        FIRST, "CREATE " + view.format(1), "CREATE OR REPLACE " + view.format(2)
    )
    assert catalog.views["v"].relation.where == "k = '2'"
    unchanged = compile_catalog(
        FIRST, "CREATE " + view.format(1), "CREATE VIEW IF NOT EXISTS V" + view.format(2)[6:]
    )
    assert unchanged.views["v"].relation.where == "k = '1'"


def test_a_question_reads_the_view_as_it_is_now():
    text = f"""{FIRST} CREATE VIEW v AS SELECT * FROM t WHERE k = '1';
        CREATE OR REPLACE VIEW v AS SELECT * FROM v WHERE ts IS NOT NULL; {QUERY.format("v")}"""
    relation = compile_query(text).lowered.query.source
    assert (relation.where, relation.source.where) == ("ts IS NOT NULL", "k = '1'")


@pytest.mark.parametrize(
    ("second", "problem", "at"),
    [
        (f"CREATE OR REPLACE {SECOND}".replace("t (", "v ("), "v exists already", None),
        ("CREATE OR REPLACE VIEW t AS SELECT * FROM v", "t exists already", "t"),
        ("CREATE VIEW IF NOT EXISTS t AS SELECT * FROM v", "t exists already", "t"),
        (f"CREATE OR REPLACE {SECOND}", "the view v uses the old t; give the new one", None),
        (
            "CREATE OR REPLACE VIEW IF NOT EXISTS v AS SELECT * FROM t",
            "OR REPLACE and IF NOT EXISTS can't be combined",
            "IF NOT EXISTS",
        ),
    ],
)
def test_what_cannot_be_replaced_is_refused(second, problem, at):
    with pytest.raises(mt.SqlError, match=problem) as caught:
        compile_catalog(FIRST, "CREATE VIEW v AS SELECT * FROM t;", second)
    assert at is None or read_marked_text(caught.value) == at


@pytest.mark.parametrize("table", [SECOND, OUT.removeprefix("CREATE ")])
def test_a_table_of_a_query_before_is_not_replaced(table):
    text = f"{FIRST} {OUT} INSERT INTO out {QUERY.format('t')} CREATE OR REPLACE {table}"
    with pytest.raises(mt.SqlError, match=r"a query uses the old (t|out)"):
        compile_pipeline(text)


def test_a_set_of_statements_as_flink_writes_it():
    source, query = FIRST, f"INSERT INTO out {QUERY.format('t')}"
    for begin in ("EXECUTE STATEMENT SET BEGIN", "BEGIN STATEMENT SET;"):
        pipeline = compile_pipeline(f"{source}{OUT} {begin} {query} END;")
        assert [flow.results for flow in pipeline.flows] == ["out"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("execution.checkpointing.interval", "SET trigger = '10 seconds'"),
        ("parallelism.default", "SET shards = 4"),
        ("table.exec.source.idle-timeout", "IDLE AFTER"),
        ("no.such.setting", "the settings are checkpoint, trigger, shards"),
    ],
)
def test_a_setting_of_flinks_is_answered_by_what_it_is_here(name, hint):
    with pytest.raises(mt.SqlError, match="isn't a setting") as refused:
        compile_pipeline(f"SET '{name}' = '4'; {FIRST}{OUT} INSERT INTO out {QUERY.format('t')}")
    assert hint in refused.value.hint


def test_a_mistyped_key_is_answered_by_the_key():
    with pytest.raises(mt.SqlError, match="isn't one value in a group; write shop; or add it"):
        compile_query(f"{FIRST} SELECT shp, count(*) AS n FROM t GROUP BY shop, TUMBLE(ts, 1 HOUR)")


@pytest.mark.parametrize("shards", ["0", "-1", "²", "2.5", "10001"])
def test_what_is_no_number_of_shards(shards: str) -> None:
    text = f"SET shards = '{shards}'; {FIRST}{OUT} INSERT INTO out {QUERY.format('t')}"
    with pytest.raises(mt.SqlError, match="isn't a number of shards; give a whole number from 1"):
        compile_pipeline(text)


@pytest.mark.parametrize(
    ("option", "problem"),
    [
        ("files_per_batch = 'two'", "files_per_batch='two' isn't a whole number"),
        ("files_per_batch = 0", "files_per_batch='0' is less than one"),
        ("maxFilesPerTrigger = 0", "maxFilesPerTrigger='0' is less than one"),
        ("files_per_batch = 1, maxFilesPerTrigger = 2", "files_per_batch='1' sets maxFilesPerTrig"),
        ("bytes_per_batch = 'much'", "bytes_per_batch='much' "),
        ("files_per_bach = 1", "option='files_per_bach' isn't one of the table t; write files_per"),
        ("mode = 'batch', files_per_batch = 1", "files_per_batch='1' has no effect on a table"),
    ],
)
def test_an_option_of_ours_is_refused_by_our_name(option: str, problem: str) -> None:
    text = f"CREATE TABLE t (k STRING) WITH (connector = 'json', path = 'p', {option})"
    with pytest.raises(mt.OptionError) as caught:
        check_reader(compile_catalog(text).tables["t"])
    assert str(caught.value).startswith(problem)


def test_explain_takes_the_words_of_flink() -> None:
    for words in ("EXPLAIN", "EXPLAIN PLAN FOR"):
        assert compile_query(f"{words} SELECT k FROM t").explain == (0, len("EXPLAIN"))


@pytest.mark.parametrize("name", ["create", "CREATE", "'create'", "`create`"])
def test_an_option_may_have_the_name_of_a_word_of_sql(name):
    script = f"""
        CREATE TABLE t (k STRING) WITH (connector = 'json', path = 'p');
        CREATE TABLE o WITH (connector = 'postgres', dsn = 'host=h', {name} = 'never');
        INSERT INTO o SELECT k FROM t;
    """
    options = compile_pipeline(script).tables["o"].options
    assert {key.lower(): value for key, value in options.items()}["create"] == "never"
