"""Decides from Spark's plan whether the messages of a query depend on the session's time zone.

Times that are parsed from or written as texts, local days and local hours are different in another
zone. Everything else is the same in every zone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType

from muntin.engine import columns
from muntin.spark.host.internals.plans import PlannedSource, list_nodes, list_sources

ZONE_SETTING = "spark.sql.session.timeZone"
_UTC = ("Etc/UTC", "Etc/UCT", "Etc/GMT", "GMT", "UCT", "Z", "Zulu", "+00:00")
# Columns that muntin adds itself. They don't count, since the state doesn't depend on them.
_OWN = (columns.CLOCK, *columns.LIMIT_FLAGS.values())
_LOCAL = ("string", "date", "timestamp_ntz")
_PARSED_BY_SOURCES = ("json", "csv", "xml")
# A node of a plan, as Spark writes it as JSON, and its children.
_Tree = tuple[dict[str, Any], list[Any]]


def zone_of(messages: DataFrame, time: str | None = None, *, whole: bool = True) -> str | None:
    """Return the session's time zone where messages, as sent to workers, depend on it.

    The event time may be computed of other columns. Without ``whole``, only the last projection of
    the messages' plan counts.
    """
    zone: str = str(messages.sparkSession.conf.get(ZONE_SETTING))
    zone = "UTC" if zone in _UTC else zone
    computed = time is not None and time not in messages.columns
    if time is not None and not computed and isinstance(messages.schema[time].dataType, StringType):
        return zone
    plan = list_nodes(messages)
    if plan is None:
        return zone if computed else None
    depends = any(_expressions(plan if whole else plan[:1]))
    return zone if depends or (whole and any(map(_parses, list_sources(messages)))) else None


def _expressions(value: Any) -> Iterator[bool]:
    """Yield for each expression in a part of a plan whether it depends on a zone."""
    if isinstance(value, dict):
        for part in value.values():
            yield from _expressions(part)
    elif isinstance(value, list) and value and _is_node(value[0]) and "class" in value[0]:
        list_nodes = iter(value)
        while (first := next(list_nodes, None)) is not None:
            yield from _find_dependent(_tree(first, list_nodes))
    elif isinstance(value, list):
        for part in value:
            yield from _expressions(part)


def _is_node(value: Any) -> bool:
    return isinstance(value, dict) and "num-children" in value


def _tree(node: dict[str, Any], rest: Iterator[dict[str, Any]]) -> _Tree:
    """Return a node with its children, which follow it in the list."""
    return node, [_tree(next(rest, {}), rest) for _ in range(node.get("num-children", 0))]


def _find_dependent(tree: _Tree) -> Iterator[bool]:
    node, children = tree
    if node.get("name") in _OWN:
        return
    yield "timeZoneId" in node and _depends(tree)
    yield from (
        depends for name, part in node.items() if name != "schema" for depends in _expressions(part)
    )
    for one in children:
        yield from _find_dependent(one)


def _depends(tree: _Tree) -> bool:
    """Return whether the result of an expression that has a zone depends on it."""
    node, children = tree
    kind = node["class"].rpartition(".")[2]
    if kind == "Cast":
        to, argument_types = node["dataType"], _types_in(children)
        if to == "timestamp":
            return not argument_types or bool(argument_types & {*_LOCAL})
        return to in _LOCAL and ("timestamp" in argument_types or any(_makes_times(children)))
    if kind.endswith("ToStructs"):
        return _has_times(node["schema"])
    return True


def _types_in(trees: list[_Tree]) -> set[str]:
    """Return the types of the columns and literals in an expression."""
    types = {str(node["dataType"]) for node, _ in trees if "dataType" in node}
    return types.union(*(_types_in(under) for node, under in trees if "dataType" not in node))


def _makes_times(trees: list[_Tree]) -> Iterator[bool]:
    for node, under in trees:
        yield "Timestamp" in node["class"].rpartition(".")[2]
        yield from _makes_times(under)


def _parses(source: PlannedSource) -> bool:
    """Return whether a source parses times from texts in the session's zone."""
    parsed = source.name.lower() in _PARSED_BY_SOURCES and "timezone" not in source.options
    return parsed and _has_times(source.schema)


def _has_times(schema: Any) -> bool:
    """Return whether a schema has a timestamp, at any depth."""
    if isinstance(schema, dict):
        parts = (part for name, part in schema.items() if name not in ("name", "metadata"))
        return any(part == "timestamp" or _has_times(part) for part in parts)
    return isinstance(schema, list) and any(map(_has_times, schema))
