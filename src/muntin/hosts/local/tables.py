"""Opens declared tables as sources of this process, and tells which tables need Spark."""

from __future__ import annotations

from dataclasses import replace

import muntin
from muntin.hosts.local.derived import derive
from muntin.model.errors import OptionError
from muntin.model.pipeline import Column, DeclaredTable
from muntin.model.reader_options import READERS, check_connector, check_reader, translate_options
from muntin.model.table_options import parse_boolean
from muntin.sinks.declared import Surroundings
from muntin.sources.files import FileSource, files
from muntin.sources.kafka_tables import reading_arguments
from muntin.sources.source import Source
from muntin.sources.ticks import ticks

_FILES = {"parquet": "parquet", "csv": "csv", "json": "jsonl"}
_ON_SPARK = "leave it out, or run the query on Spark: --host spark"
_SAME_HERE = {"header", "maxbytespertrigger", "maxfilespertrigger", "path", "recursivefilelookup"}


def needs_spark(table: DeclaredTable) -> str | None:
    """Return the reason why a table can only be read on Spark, if there is one.

    Example:
        >>> needs_spark(DeclaredTable("t", "kafka")), needs_spark(DeclaredTable("t", "orc"))
        (None, "table t: connector 'orc' needs Spark")
    """
    try:
        connector, options = translate_options(table)
        check_connector(connector, (*READERS, "kafka"))
    except OptionError:
        return None  # reading the table reports the error
    if connector not in (*_FILES, "kafka", "rate"):
        return f"table {table.name}: connector {connector!r} needs Spark"
    if not table.stream and connector not in _FILES:
        return f"table {table.name}: mode 'batch' of {connector!r} needs Spark"
    if "://" in options.get("path", ""):
        return f"table {table.name}: a path in an object store needs Spark"
    return None


def make_source(table: DeclaredTable, around: Surroundings) -> Source:
    """Return the source that a table describes.

    Raises:
        OptionError: When an option doesn't exist, has an invalid value, or needs Spark.
    """
    table = replace(table, options=around.options(table))
    if reason := needs_spark(table):
        raise OptionError("host", "local", f"can't run this ({reason})", "give host='spark'")
    check_reader(table)
    connector, options = translate_options(table)
    source: Source
    if connector == "kafka":
        source = muntin.kafka(columns=table.columns, **reading_arguments(table.name, options))
    elif connector == "rate":
        source = _make_ticks(options)
    else:
        source = _make_files(table, connector, options)
        if not table.stream:
            source = source.read_whole()
    if not table.computed:
        return source
    derived = derive(source, (Column("*", "*"), *table.computed), None)
    assert isinstance(derived, Source)
    return derived


def _make_ticks(options: dict[str, str]) -> Source:
    named = {name.lower(): value for name, value in options.items()}
    for name, value in options.items():
        if name.lower() != "rowspersecond":
            raise OptionError(name, value, "has a meaning on Spark alone", _ON_SPARK)
    return ticks(float(named.get("rowspersecond", "1")))


def _make_files(table: DeclaredTable, connector: str, options: dict[str, str]) -> FileSource:
    """Return a source of files with Spark's names of options."""
    named = {name.lower(): value for name, value in options.items()}
    for name, value in options.items():
        if name.lower() not in _SAME_HERE:
            raise OptionError(name, value, "has a meaning on Spark alone", _ON_SPARK)
        if name.lower() == "recursivefilelookup" and not parse_boolean(name, value):
            hint = "leave it out, or give a pattern, as in 'path' = 'clicks/*.csv'"
            raise OptionError(name, value, "isn't possible: all folders below are read", hint)
    header = parse_boolean("header", named.get("header", "false")) if connector == "csv" else None
    most = named.get("maxfilespertrigger")
    return files(
        named["path"],
        columns=table.columns,
        format=_FILES[connector],  # type: ignore[arg-type]
        header=header,
        files_per_batch=None if most is None else int(most),
        bytes_per_batch=named.get("maxbytespertrigger"),
    )
