"""Every option is honoured or refused, and has a row in ``walk.py``."""

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
from tests.options.listing import format_page, list_commands

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
    """``python -m tests.options.listing`` updates the page."""
    assert (ROOT / "docs" / "reference" / "options.md").read_text() == format_page()


# Sinks


@pytest.mark.parametrize("connector", sorted({*SINKS} - OTHERS))
def test_each_option_of_a_sink_has_a_row(connector: str) -> None:
    assert {*walk.SINKS[connector]} == {*options_of(getattr(mt, f"to_{connector}"))}


def make_declared_sink(connector: str, options: Mapping[str, str]) -> Any:
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
            make_declared_sink(connector, {**needed, option: "secret"})
        return
    sample = make_declared_sink(connector, {**needed, option: valid})
    assert valid.partition(",")[0] in format_attributes(sample) or option in ("files", "patience")
    for refused_value in () if invalid is walk.ANY else (invalid,):
        with pytest.raises(OptionError):
            make_declared_sink(connector, {**needed, option: refused_value})
    typo = f"{option}s"
    with pytest.raises(OptionError, match=f"option='{typo}' isn't one of the table t; write "):
        make_declared_sink(connector, {**needed, typo: valid})


def format_attributes(sample: Any) -> str:
    """Return the attributes of a sink as text."""
    parts = {**vars(sample), **vars(getattr(sample, "link", object)).copy()}
    return json.dumps({name: str(value) for name, value in parts.items()})


# Sources


def list_reader_options() -> Iterator[tuple[str, ReaderOption]]:
    for connector, options in READERS.items():
        yield from ((connector, option) for option in options)


def declare_table(connector: str, option: ReaderOption, value: str) -> DeclaredTable:
    needed = {other.name: "3" for other in READERS[connector] if other.required}
    streams = option.when != "batch" and connector != "jdbc"
    columns = None if option.when == "no columns" else "page string"
    return DeclaredTable(
        "t", connector, columns, options={**needed, option.name: value}, stream=streams
    )


@pytest.mark.parametrize(
    ("connector", "option"),
    [pytest.param(*row, id=f"{row[0]}-{row[1].name}") for row in list_reader_options()],
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
    surroundings = Surroundings()
    if option.name == "password":
        value, surroundings = "${env:SECRET}", Surroundings(environment={"SECRET": "x"})
    table = declare_table(connector, option, value)
    spark = Mock(spec=SparkSession)
    if option.when != "no columns" or not table.stream:
        reader = spark.readStream if table.stream else spark.read
        # The reader gets the value as it was written.
        options = reader.format.return_value.options
        options.return_value = options.return_value.schema.return_value = reader.format.return_value
        reader.format.return_value.schema.return_value = reader.format.return_value
        read_table(spark, table, surroundings)
        reader_options = {
            name: v for call in options.call_args_list for name, v in call.kwargs.items()
        }
        assert reader_options[option.name] == ("x" if option.name == "password" else value)
    if invalid is not walk.ANY:
        with pytest.raises(OptionError, match=option.name):
            check_reader(declare_table(connector, option, invalid))
    with pytest.raises(OptionError, match="isn't one of the table t"):
        check_reader(declare_table(connector, ReaderOption(f"{option.name}xx"), value))


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
        for kind in find_models(field.annotation)
    }
    assert used - {form.OnePolicyForm, form.PolicyForm} == {*PARTS.values()} - {form.PipelineForm}


def find_models(kind: Any) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from find_models(part)


def make_file(path: str, value: Any) -> dict[str, Any]:
    """Return a pipeline in which a key has a value."""
    table: dict[str, Any] = {"connector": "json", "path": "in", "time": "ts",
                             "columns": {"page": "string", "n": "long", "ts": "timestamp",
                                         "at": "timestamp"}}  # fmt: skip
    query: dict[str, Any] = {"from": "clicks", "key": "page", "windows": {"tumbling": "1 minute"},
                             "agg": {"views": "count(*)"}, "into": "views"}  # fmt: skip
    pipeline: dict[str, Any] = {
        "checkpoint": "here",
        "tables": {
            "clicks": table,
            "views": {"connector": "parquet", "path": "out"},
            "other": {"connector": "parquet", "path": "other"},
        },
        "queries": {"views": query},
    }
    part, _, key = path.rpartition(".")
    parts = {"": pipeline, "tables": table, "queries": query, "windows": query["windows"]}
    if part == "fill":
        parts["fill"] = query.setdefault("fill", {"value": "zero", "up_to": "1 day"})
    elif part not in parts:
        parts[part] = query.setdefault(part, {})
    parts[part][key] = value
    return pipeline


def format_toml(value: Any) -> str:
    """Format a value as TOML."""
    if isinstance(value, dict):
        inside = ", ".join(
            f"{json.dumps(name)} = {format_toml(item)}" for name, item in value.items()
        )
        return f"{{{inside}}}"
    return json.dumps(value)


def format_file(pipeline: Mapping[str, Any]) -> str:
    return "\n".join(
        f"{json.dumps(name)} = {format_toml(value)}" for name, value in pipeline.items()
    )


@pytest.mark.parametrize("path", walk.TOML)
def test_a_key_of_a_file_is_honoured_or_refused(path: str) -> None:
    valid, invalid = walk.TOML[path]
    unchanged = ("queries.from", "windows.closed", "$schema")
    if valid is not None:
        pipeline = parse_pipeline(format_file(make_file(path, valid)))
        if path not in unchanged:
            original = make_file("checkpoint", "here")
            if path.startswith(("early", "full", "fill")):
                part = path.partition(".")[0]
                original["queries"]["views"].update(
                    {part: {"value": "zero", "up_to": "1 day"}} if part == "fill" else {}
                )
            assert pipeline != parse_pipeline(format_file(original))
    with pytest.raises(MuntinError):
        parse_pipeline(format_file(make_file(path, invalid)))
    with pytest.raises(MuntinError, match="extra inputs are not permitted"):
        parse_pipeline(format_file(make_file(f"{path}xx", valid if valid is not None else 1)))


# SQL

_SCRIPT = """
CREATE TABLE views WITH (connector = 'parquet', path = 'out');
CREATE TABLE clicks (page STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts {}) WITH (
    connector = 'json', path = 'in'
);
INSERT INTO views SELECT page, count(*) AS n FROM clicks GROUP BY page, TUMBLE(ts, '1 minute')
"""


@pytest.mark.parametrize("option", [d for d in DURATIONS if d.sql], ids=lambda d: d.name)
def test_an_option_of_an_input_reads_alike_in_all_languages(option: DurationOption) -> None:
    valid, _ = CALLS["windowed"].options[option.name]
    toml_text = format_file(make_file(f"tables.{option.name}", valid))
    from_toml = parse_pipeline(toml_text).tables["clicks"].marks
    from_sql = compile_pipeline(_SCRIPT.format(f"{option.sql} '{valid}'")).tables["clicks"].marks
    options: Any = {option.name: valid}
    assert from_toml == from_sql == standalone.windowed(time="ts", **options)._input_options
    assert getattr(from_toml, option.name) != getattr(InputOptions("ts"), option.name)


def test_an_idle_time_of_zero_is_refused_in_sql() -> None:
    with pytest.raises(MuntinError, match="IDLE AFTER is zero"):
        compile_pipeline(_SCRIPT.format("IDLE AFTER '0 seconds'"))


# The command line


@pytest.mark.parametrize(
    ("name", "command"),
    [pytest.param(*parameter, id=parameter[0]) for parameter in list_commands()],
)
def test_a_flag_is_known_or_refused(name: str, command: Any) -> None:
    needed = [
        "x"
        for parameter in command.params
        if parameter.param_type_name == "argument" and parameter.required
    ]
    with pytest.raises(Exception, match="No such option: --no-such-flag"):
        command.make_context(name, [*needed, "--no-such-flag"])
    for flag in command.params:
        if flag.param_type_name != "option" or flag.is_flag or flag.multiple:
            continue
        if flag.bare_type in (int, float):
            with pytest.raises(Exception, match="Input should be a valid"):
                command.make_context(name, [*needed, flag.opts[0], "no such value"])
