"""The options of Spark's built-in sources, with the values of each and when it has an effect.

Spark ignores options that it doesn't know or that have no effect; here they are refused. Sources
that aren't listed (from a catalog, or the user's own classes) get their options unchecked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from os.path import expanduser
from typing import Literal

from muntin.model.close_names import find_close_name
from muntin.model.errors import OptionError
from muntin.model.option_types import parse_bytes
from muntin.model.pipeline import DeclaredTable
from muntin.model.table_options import (
    Convert,
    accept_any,
    make_choice,
    parse_boolean,
    parse_count,
    parse_number,
    parse_whole,
    refuse_option,
)

Usage = Literal["always", "stream", "batch", "no columns"]


@dataclass(frozen=True)
class ReaderOption:
    """An option of a source, which ``convert`` checks, and the tables on which it has an effect."""

    name: str
    convert: Convert = accept_any
    when: Usage = "always"
    required: bool = False


def _options(
    names: str, convert: Convert = accept_any, when: Usage = "always"
) -> list[ReaderOption]:
    return [ReaderOption(name, convert, when) for name in names.split()]


_FILES = [
    ReaderOption("path", required=True),
    *_options("pathGlobFilter"),
    *_options("recursiveFileLookup ignoreCorruptFiles ignoreMissingFiles", parse_boolean),
    *_options("modifiedBefore modifiedAfter", when="batch"),
    *_options("maxFilesPerTrigger", parse_count, "stream"),
    *_options("maxBytesPerTrigger", parse_bytes, "stream"),
    *_options("maxFileAge sourceArchiveDir", when="stream"),
    *_options("latestFirst fileNameOnly", parse_boolean, "stream"),
    *_options("cleanSource", make_choice("off", "delete", "archive", fold=str.lower), "stream"),
    *_options("maxCachedFiles", parse_whole, "stream"),
]
_PARSED = [
    *_options("mode", make_choice("PERMISSIVE", "DROPMALFORMED", "FAILFAST", fold=str.lower)),
    *_options("columnNameOfCorruptRecord dateFormat timestampFormat timestampNTZFormat encoding"),
    *_options("charset lineSep locale timeZone"),
    *_options("multiLine enableDateTimeParsingFallback", parse_boolean),
    *_options("samplingRatio", parse_number, "no columns"),
]
_JSON = [
    *_options("primitivesAsString prefersDecimal dropFieldIfAllNull", parse_boolean, "no columns"),
    *_options("inferTimestamp", parse_boolean, "no columns"),
    *_options("singleVariantColumn timeFormat"),
    *_options("allowComments allowUnquotedFieldNames allowSingleQuotes", parse_boolean),
    *_options("allowNumericLeadingZeros allowBackslashEscapingAnyCharacter", parse_boolean),
    *_options("allowUnquotedControlChars allowNonNumericNumbers", parse_boolean),
    *_options("maxNestingDepth maxNumLen maxStringLen", parse_whole),
]
_CSV = [
    *_options("sep delimiter quote escape comment nullValue nanValue positiveInf negativeInf"),
    *_options("charToEscapeQuoteEscaping emptyValue unescapedQuoteHandling timeFormat"),
    *_options("singleVariantColumn"),
    *_options(
        "header enforceSchema ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace", parse_boolean
    ),
    *_options("inferSchema preferDate", parse_boolean, "no columns"),
    *_options("maxColumns maxCharsPerColumn inputBufferSize", parse_whole),
]
_REBASE = make_choice("EXCEPTION", "CORRECTED", "LEGACY", fold=str.lower)
_JDBC = [
    ReaderOption("url", required=True),
    *_options("dbtable query user password driver partitionColumn lowerBound upperBound"),
    *_options("sessionInitStatement customSchema prepareQuery hint connectionProvider"),
    *_options("numPartitions queryTimeout fetchsize", parse_whole),
    *_options("pushDownPredicate pushDownAggregate pushDownLimit pushDownOffset", parse_boolean),
    *_options("pushDownTableSample preferTimestampNTZ", parse_boolean),
]
READERS: Mapping[str, tuple[ReaderOption, ...]] = {
    "json": (*_FILES, *_PARSED, *_JSON),
    "csv": (*_FILES, *_PARSED, *_CSV),
    "parquet": (
        *_FILES, *_options("mergeSchema", parse_boolean, "no columns"),
        *_options("datetimeRebaseMode int96RebaseMode", _REBASE),
    ),
    "orc": (*_FILES, *_options("mergeSchema", parse_boolean, "no columns")),
    "text": (*_FILES, *_options("wholetext", parse_boolean), *_options("lineSep encoding")),
    "rate": (
        *_options("rowsPerSecond numPartitions", parse_whole, "stream"),
        *_options("rampUpTime", when="stream"),
    ),
    "rate-micro-batch": (
        ReaderOption("rowsPerBatch", parse_whole, "stream", required=True),
        *_options("numPartitions advanceMillisPerBatch startTimestamp", parse_whole, "stream"),
    ),
    "socket": (
        ReaderOption("host", when="stream", required=True),
        ReaderOption("port", parse_whole, "stream", required=True),
        *_options("includeTimestamp", parse_boolean, "stream"),
    ),
    "jdbc": tuple(_JDBC),
}  # fmt: skip
"""The options of Spark's sources by connector; ``kafka`` is handled elsewhere."""
_CORRUPT = "columnNameOfCorruptRecord"
# The column for the text of a row that can't be parsed, if it is declared.
CORRUPT_DEFAULT = "_corrupt_record"
_FILE_CONNECTORS = ("json", "csv", "parquet", "orc", "text")
# Options of files that are paths, in lower case.
_PATHS = ("path", "sourcearchivedir")
# Our own names of options of files.
_FILE_NAMES = {"bytes_per_batch": "maxBytesPerTrigger", "files_per_batch": "maxFilesPerTrigger"}
# Flink's names for options of a source.
_TRANSLATED = {
    "jdbc": {
        "table-name": "dbtable",
        "username": "user",
        "scan.fetch-size": "fetchsize",
        "scan.partition.column": "partitionColumn",
        "scan.partition.num": "numPartitions",
        "scan.partition.lower-bound": "lowerBound",
        "scan.partition.upper-bound": "upperBound",
    },
    "csv": {
        "csv.field-delimiter": "sep",
        "csv.quote-character": "quote",
        "csv.escape-character": "escape",
        "csv.null-literal": "nullValue",
    },
}
_INSTEAD = {
    "datagen": "write 'rate', which makes rows of timestamp and value",
    "blackhole": "write 'parquet'",
    "upsert-kafka": "write 'kafka', whose keys are those of the query",
    "faker": "write 'rate', which makes rows of timestamp and value",
}
_UNUSED_BECAUSE = {
    "stream": "has no effect on a table that is read once",
    "batch": "has no effect on a stream",
    "no columns": "has no effect where columns are declared",
}


def translate_options(table: DeclaredTable) -> tuple[str, dict[str, str]]:
    """Return a source's connector and options with Spark's names, each at most once.

    A path that begins with ``~`` is that of the user's home.
    """
    connector, options = table.connector, dict(table.options)
    if connector == "filesystem":
        if "format" not in options:
            hint = f"add 'format' = 'json' (or csv, parquet, orc) to the table {table.name}"
            raise OptionError("format", None, "is missing for filesystem", hint)
        connector = options.pop("format")
    if connector in _FILE_CONNECTORS:
        options = {
            name: expanduser(value) if name.lower() in _PATHS else value
            for name, value in options.items()
        }
    for name, ours in _list_other_names(connector).items():
        if name in options:
            value = options.pop(name)
            if ours in options:
                hint = "leave one of them out"
                raise OptionError(name, value, f"sets {ours} a second time", hint)
            options[ours] = _convert_size(name, value) if name == "bytes_per_batch" else value
    for name in options if connector in _FILE_CONNECTORS else ():
        if name.lower() == "maxbytespertrigger":
            options[name] = _convert_size(name, options[name])
    return connector, options


def keeps_unreadable(connector: str, options: Mapping[str, str]) -> bool:
    """Return whether the reader of a file table keeps the rows that it can't parse.

    Args:
        connector: The format of the files.
        options: The options of the reader, with Spark's names.
    """
    modes = (value for name, value in options.items() if name.lower() == "mode")
    return connector in ("json", "csv") and next(modes, "permissive").lower() == "permissive"


def marks_malformed(connector: str, options: Mapping[str, str], columns: Collection[str]) -> bool:
    """Return whether a file table has columns for the rows that its reader can't parse.

    It hasn't if the user names a column for their text, or has Spark leave them out or fail.
    """
    own = {_CORRUPT.lower(), "singlevariantcolumn"} & {name.lower() for name in options}
    return keeps_unreadable(connector, options) and not own and CORRUPT_DEFAULT not in columns


def _list_other_names(connector: str) -> dict[str, str]:
    """Return the names of options that Spark has under another name, with Spark's name."""
    names = _FILE_NAMES if connector in _FILE_CONNECTORS else {}
    return {**names, **_TRANSLATED.get(connector, {})}


def _convert_size(name: str, text: str) -> str:
    """Return a size as a number of bytes, since Spark knows fewer spellings."""
    return text if "${" in text else str(parse_bytes(name, text))


def check_connector(connector: str, connectors: tuple[str, ...]) -> None:
    """Refuse a mistyped connector, or one that only Flink has; Spark may have others."""
    hint = _INSTEAD.get(connector)
    if hint is None and connector not in connectors:
        close = find_close_name(connector, connectors)
        hint = f"write {close!r}" if close else None
    if hint is not None:
        raise OptionError("connector", connector, "isn't a connector", hint)


def check_reader(table: DeclaredTable) -> None:
    """Refuse the first option that Spark would ignore or fail on, or that is missing."""
    for problem in reader_problems(table):
        raise problem


def reader_problems(table: DeclaredTable) -> Iterator[OptionError]:
    """Yield an error for each option of a source that Spark would ignore or fail on."""
    try:
        connector, options = translate_options(table)
        check_connector(connector, (*READERS, "kafka"))
    except OptionError as error:
        yield error
        return
    if connector not in READERS:
        return
    # Spark's names of options are case-insensitive.
    options_by_name = {option.name.lower(): option for option in READERS[connector]}
    others = _list_other_names(connector)
    written = {spark_name: other for other, spark_name in others.items() if other in table.options}
    for spark_name, value in options.items():
        name, option = written.get(spark_name, spark_name), options_by_name.get(spark_name.lower())
        if option is None:
            names = [known_option.name for known_option in options_by_name.values()]
            yield refuse_option(name, table.name, [*names, *others])
            continue
        if _is_unused(option, table):
            yield OptionError(name, value, _UNUSED_BECAUSE[option.when], "leave it out")
            continue
        try:
            if "${" not in value:
                option.convert(name, value)
        except OptionError as error:
            yield error
    for option in options_by_name.values():
        if option.required and option.name.lower() not in {name.lower() for name in options}:
            hint = f"add '{option.name}' = '...' to the table {table.name}"
            yield OptionError(option.name, None, f"is missing for {connector}", hint)
    corrupt = {name.lower(): value for name, value in options.items()}.get(_CORRUPT.lower())
    if corrupt is not None and table.names and corrupt not in table.names:
        hint = f"add {corrupt} STRING to the columns, or leave it out"
        yield OptionError(_CORRUPT, corrupt, f"isn't a column of {table.name}", hint)
    if connector == "jdbc" and table.stream:
        yield OptionError("connector", "jdbc", "isn't read as a stream", "add mode = 'batch'")


def _is_unused(option: ReaderOption, table: DeclaredTable) -> bool:
    """Return whether an option has no effect on a table, as it is read."""
    return (
        (option.when == "stream" and not table.stream)
        or (option.when == "batch" and table.stream)
        or (option.when == "no columns" and table.columns is not None)
    )
