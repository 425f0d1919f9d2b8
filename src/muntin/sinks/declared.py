"""Sinks and options of declared tables: a table's connector names the sink that writes to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

import muntin
from muntin.model.errors import OptionError
from muntin.model.pipeline import DeclaredTable
from muntin.model.placeholders import check_secret, fill, fill_available
from muntin.model.reader_options import check_connector
from muntin.model.table_options import arguments_of, check_names, split_names
from muntin.sinks.sink import Sink
from muntin.sources.kafka_tables import writing_arguments

_JDBC_POSTGRES = "jdbc:postgresql://"
# Connectors that resolve references themselves, where they connect.
_RESOLVING = frozenset(("kafka", "postgres"))
# Names of others for options of sinks.
_OTHER_NAMES = {"delta": {"path": "table"}, "postgres": {"url": "dsn", "table-name": "table"}}


@dataclass(frozen=True)
class Surroundings:
    """The values that the placeholders of a table's options stand for.

    Attributes:
        settings: The values of ``--set``.
        keeps_secrets: Whether references of secrets stay, for the processes that use them.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    keeps_secrets: bool = False

    def options(self, table: DeclaredTable) -> dict[str, str]:
        """A table's options with their placeholders replaced."""
        keeps_secrets = self.keeps_secrets and table.connector in _RESOLVING
        return {
            name: fill(name, value, self.settings, self.environment, keeps_secrets=keeps_secrets)
            for name, value in table.options.items()
        }


def make_sink(table: DeclaredTable, around: Surroundings) -> Sink:
    """Return the sink of a table: the function ``to_…`` of its connector, with its options."""
    options = around.options(table)
    connector, options, names = _resolve_connector(table, options)
    if connector == "kafka":
        return _make_kafka_sink(table, options)
    function: Callable[..., Sink] = getattr(muntin, f"to_{connector}")
    sink = function(**arguments_of(function, table.name, options, translated=names))
    if hasattr(sink, "primary_key"):
        sink.primary_key = table.primary_key
    return sink


def check_declared_sink(table: DeclaredTable, settings: Mapping[str, str]) -> None:
    """Refuse a table that can't be written to, without a session.

    Values that aren't set yet, by ``--set`` or the environment, stay as they are written.
    """
    options = {name: fill_available(value, settings) for name, value in table.options.items()}
    for name, value in options.items():
        check_secret(name, value)
    connector, options, names = _resolve_connector(table, options)
    function = getattr(muntin, f"to_{connector}")
    unset = {name: value for name, value in options.items() if "${" in value}
    if connector == "kafka":
        _make_kafka_sink(table, options)
    elif unset:
        check_names(function, table.name, options, translated=names)
    else:
        function(**arguments_of(function, table.name, options, translated=names))


def _resolve_connector(
    table: DeclaredTable, options: dict[str, str]
) -> tuple[str, dict[str, str], Mapping[str, str]]:
    """Return the connector of a sink, its options, and other names of its options."""
    connector = table.connector
    if connector == "filesystem" and "format" in options:
        connector = options.pop("format")
    url = options.get("url", "")
    if connector == "jdbc" and url.startswith(_JDBC_POSTGRES):
        connector, user = "postgres", options.pop("username", "")
        at = f"{quote(user, safe='')}@" if user else ""
        options["url"] = f"postgresql://{at}{url.removeprefix(_JDBC_POSTGRES)}"
        options.pop("driver", None)
    every = [name.removeprefix("to_") for name in dir(muntin) if name.startswith("to_")]
    # Nobody could ask for what is in memory.
    connectors = [name for name in every if name != "memory"]
    if connector not in connectors:
        check_connector(connector, tuple(connectors))
        *most, last = map(repr, connectors)
        hint = f"write to {', '.join(most)} or {last}"
        raise OptionError("connector", connector, "isn't written to", hint)
    return connector, options, _OTHER_NAMES.get(connector, {})


def _make_kafka_sink(table: DeclaredTable, options: dict[str, str]) -> Sink:
    arguments = writing_arguments(table.name, options)
    if "key" in arguments:
        arguments["key"] = split_names(arguments["key"])
    return muntin.to_kafka(**arguments)
