"""Every option is honoured or refused, and none is without a row in ``walk.py``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args
from unittest.mock import Mock

import pytest
from pydantic import BaseModel
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from tests.options import walk
from tests.options.calls import CALLS
from tests.options.listing import commands, listing

import muntin as mt
from muntin import standalone
from muntin.model.errors import MuntinError, OptionError
from muntin.model.inputs import DURATIONS, DurationOption, InputOptions
from muntin.model.pipeline import DeclaredTable
from muntin.model.reader_options import READERS, ReaderOption, check_reader
from muntin.model.table_options import options_of
from muntin.pipelines import form
from muntin.pipelines.toml import parse_pipeline
from muntin.sinks.declared import Surroundings, make_sink
from muntin.spark.sources.tables import read_table
from muntin.sql.script import compile_pipeline

ROOT = Path(__file__).parents[2]
OTHERS = {"kafka", "memory"}
SINKS = [name.removeprefix("to_") for name in dir(mt) if name.startswith("to_")]


def test_the_reference_lists_every_option() -> None:
    """``python -m tests.options.listing`` writes it anew."""
    assert (ROOT / "docs" / "reference" / "options.md").read_text() == listing()


# Sinks


@pytest.mark.parametrize("connector", sorted({*SINKS} - OTHERS))
def test_each_option_of_a_sink_has_a_row(connector: str) -> None:
    assert {*walk.SINKS[connector]} == {*options_of(getattr(mt, f"to_{connector}"))}


def made(connector: str, options: Mapping[str, str]) -> Any:
    return make_sink(DeclaredTable("t", connector, options=options), Surroundings())


@pytest.mark.parametrize(
    ("connector", "option"), [(c, o) for c, options in walk.SINKS.items() for o in options]
)
def test_an_option_of_a_sink_is_honoured_or_refused(connector: str, option: str) -> None:
    valid, invalid = walk.SINKS[connector][option]
    needed = walk.NEEDED[connector]
    if option == "password":
        valid = invalid = walk.ANY
        with pytest.raises(OptionError, match="is a secret in plain sight"):
            made(connector, {**needed, option: "secret"})
        return
    sample = made(connector, {**needed, option: valid})
    assert valid.partition(",")[0] in shown(sample) or option in ("files", "patience")
    for text in () if invalid is walk.ANY else (invalid,):
        with pytest.raises(OptionError):
            made(connector, {**needed, option: text})
    typo = f"{option}s"
    with pytest.raises(OptionError, match=f"option='{typo}' isn't one of the table t; write "):
        made(connector, {**needed, typo: valid})


def shown(sample: Any) -> str:
    """All that a sink remembers, as text."""
    parts = {**vars(sample), **vars(getattr(sample, "link", object)).copy()}
    return json.dumps({name: str(value) for name, value in parts.items()})


# Sources


def reader_rows() -> Iterator[tuple[str, ReaderOption]]:
    for connector, options in READERS.items():
        yield from ((connector, option) for option in options)


def declared(connector: str, option: ReaderOption, value: str) -> DeclaredTable:
    needed = {one.name: "3" for one in READERS[connector] if one.required}
    streams = option.when != "batch" and connector != "jdbc"
    columns = None if option.when == "no columns" else "page string"
    return DeclaredTable(
        "t", connector, columns, options={**needed, option.name: value}, stream=streams
    )


@pytest.mark.parametrize(
    ("connector", "option"),
    [pytest.param(*row, id=f"{row[0]}-{row[1].name}") for row in reader_rows()],
)
def test_an_option_of_a_source_is_honoured_or_refused(
    connector: str, option: ReaderOption, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muntin.spark.sources.tables.hide_secrets", lambda spark: None)
    monkeypatch.setattr("muntin.spark.sources.tables.has_decimals", lambda columns: False)
    monkeypatch.setattr("muntin.spark.sources.tables.mark_malformed", lambda frame, _: frame)
    monkeypatch.setattr(StructType, "fromDDL", lambda ddl: StructType())
    valid, invalid = walk.VALUES[option.convert.__name__]
    value = valid or walk.CHOICES[option.name]
    around = Surroundings()
    if option.name == "password":
        value, around = "${env:SECRET}", Surroundings(environment={"SECRET": "x"})
    table = declared(connector, option, value)
    spark = Mock(spec=SparkSession)
    if option.when != "no columns" or not table.stream:
        reader = spark.readStream if table.stream else spark.read
        # What the reader is given is what was written.
        options = reader.format.return_value.options
        options.return_value = options.return_value.schema.return_value = reader.format.return_value
        reader.format.return_value.schema.return_value = reader.format.return_value
        read_table(spark, table, around)
        given = {name: v for call in options.call_args_list for name, v in call.kwargs.items()}
        assert given[option.name] == ("x" if option.name == "password" else value)
    if invalid is not walk.ANY:
        with pytest.raises(OptionError, match=option.name):
            check_reader(declared(connector, option, invalid))
    with pytest.raises(OptionError, match="isn't one of the table t"):
        check_reader(declared(connector, ReaderOption(f"{option.name}xx"), value))


@pytest.mark.parametrize(
    ("stream", "columns", "option"),
    [
        (False, "page string", "maxFilesPerTrigger"),
        (True, "page string", "modifiedAfter"),
        (True, "page string", "samplingRatio"),
    ],
)
def test_an_option_without_an_effect_is_refused(stream: bool, columns: str, option: str) -> None:
    table = DeclaredTable("t", "json", columns, options={"path": "in", option: "1"}, stream=stream)
    with pytest.raises(OptionError, match=f"{option}='1' has no effect"):
        check_reader(table)


def test_a_column_of_unreadable_rows_is_declared() -> None:
    options = {"path": "in", "columnNameOfCorruptRecord": "unread"}
    names = ("page", "unread")
    check_reader(
        DeclaredTable("t", "json", "page string, unread string", options=options, names=names)
    )
    with pytest.raises(OptionError, match="'unread' isn't a column of t; add unread STRING"):
        check_reader(DeclaredTable("t", "json", "page string", options=options, names=names[:1]))


# TOML

PARTS: dict[str, type[BaseModel]] = {
    "": form.PipelineForm,
    "tables": form.TableForm,
    "queries": form.QueryForm,
    "early": form.EarlyForm,
    "full": form.FullForm,
    "fill": form.FillForm,
    "windows": form.WindowsForm,
}


def test_each_key_of_a_file_has_a_row() -> None:
    keys = {
        ".".join(filter(None, (part, field.alias or name)))
        for part, model in PARTS.items()
        for name, field in model.model_fields.items()
        if name != "json_schema" or part == ""
    }
    assert {*walk.TOML} == keys


def test_each_part_of_a_file_is_walked() -> None:
    used = {
        kind
        for model in PARTS.values()
        for field in model.model_fields.values()
        for kind in models_in(field.annotation)
    }
    assert used - {form.OnePolicyForm, form.PolicyForm} == {*PARTS.values()} - {form.PipelineForm}


def models_in(kind: Any) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from models_in(part)


def file(path: str, value: Any) -> dict[str, Any]:
    """A pipeline in which a key has a value."""
    table: dict[str, Any] = {"connector": "json", "path": "in", "time": "ts",
                             "columns": {"page": "string", "n": "long", "ts": "timestamp",
                                         "at": "timestamp"}}  # fmt: skip
    query: dict[str, Any] = {"from": "clicks", "key": "page", "windows": {"tumbling": "1 minute"},
                             "agg": {"views": "count(*)"}, "into": "views"}  # fmt: skip
    whole: dict[str, Any] = {
        "checkpoint": "here",
        "tables": {
            "clicks": table,
            "views": {"connector": "parquet", "path": "out"},
            "other": {"connector": "parquet", "path": "other"},
        },
        "queries": {"views": query},
    }
    part, _, key = path.rpartition(".")
    parts = {"": whole, "tables": table, "queries": query, "windows": query["windows"]}
    if part == "fill":
        parts["fill"] = query.setdefault("fill", {"value": "zero", "up_to": "1 day"})
    elif part not in parts:
        parts[part] = query.setdefault(part, {})
    parts[part][key] = value
    return whole


def toml(value: Any) -> str:
    """A value as TOML has it."""
    if isinstance(value, dict):
        inside = ", ".join(f"{json.dumps(name)} = {toml(one)}" for name, one in value.items())
        return f"{{{inside}}}"
    return json.dumps(value)


def text(whole: Mapping[str, Any]) -> str:
    return "\n".join(f"{json.dumps(name)} = {toml(value)}" for name, value in whole.items())


@pytest.mark.parametrize("path", walk.TOML)
def test_a_key_of_a_file_is_honoured_or_refused(path: str) -> None:
    valid, invalid = walk.TOML[path]
    unchanged = ("queries.from", "windows.closed", "$schema")
    if valid is not None:
        changed = parse_pipeline(text(file(path, valid)))
        if path not in unchanged:
            before = file("checkpoint", "here")
            if path.startswith(("early", "full", "fill")):
                part = path.partition(".")[0]
                before["queries"]["views"].update(
                    {part: {"value": "zero", "up_to": "1 day"}} if part == "fill" else {}
                )
            assert changed != parse_pipeline(text(before))
    with pytest.raises(MuntinError):
        parse_pipeline(text(file(path, invalid)))
    with pytest.raises(MuntinError, match="extra inputs are not permitted"):
        parse_pipeline(text(file(f"{path}xx", valid if valid is not None else 1)))


# SQL

_SCRIPT = """
CREATE TABLE views WITH (connector = 'parquet', path = 'out');
CREATE TABLE clicks (page STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts {}) WITH (
    connector = 'json', path = 'in'
);
INSERT INTO views SELECT page, count(*) AS n FROM clicks GROUP BY page, TUMBLE(ts, '1 minute')
"""


@pytest.mark.parametrize("option", [one for one in DURATIONS if one.sql], ids=lambda one: one.name)
def test_an_option_of_an_input_reads_alike_in_all_languages(option: DurationOption) -> None:
    valid, _ = CALLS["windowed"].options[option.name]
    whole = text(file(f"tables.{option.name}", valid))
    written = parse_pipeline(whole).tables["clicks"].marks
    stated = compile_pipeline(_SCRIPT.format(f"{option.sql} '{valid}'")).tables["clicks"].marks
    options: Any = {option.name: valid}
    assert written == stated == standalone.windowed(time="ts", **options)._input_options
    assert getattr(written, option.name) != getattr(InputOptions("ts"), option.name)


def test_an_idle_time_of_zero_is_refused_in_sql() -> None:
    with pytest.raises(MuntinError, match="IDLE AFTER is zero"):
        compile_pipeline(_SCRIPT.format("IDLE AFTER '0 seconds'"))


# The command line


@pytest.mark.parametrize(("name", "command"), [pytest.param(*one, id=one[0]) for one in commands()])
def test_a_flag_is_known_or_refused(name: str, command: Any) -> None:
    needed = ["x" for one in command.params if one.param_type_name == "argument" and one.required]
    with pytest.raises(Exception, match="No such option: --no-such-flag"):
        command.make_context(name, [*needed, "--no-such-flag"])
    for flag in command.params:
        if flag.param_type_name != "option" or flag.is_flag or flag.multiple:
            continue
        if flag.bare_type in (int, float):
            with pytest.raises(Exception, match="Input should be a valid"):
                command.make_context(name, [*needed, flag.opts[0], "no such value"])
