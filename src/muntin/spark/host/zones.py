"""Whether what a query reads depends on the session's time zone: Spark's plan of it says so.

Times that are texts, local days and hours, and times written as texts are other ones in another
zone. Everything else is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType

from muntin.engine import columns
from muntin.spark.host.internals.plans import PlannedSource, nodes, sources

ZONE_SETTING = "spark.sql.session.timeZone"
_UTC = ("Etc/UTC", "Etc/UCT", "Etc/GMT", "GMT", "UCT", "Z", "Zulu", "+00:00")
# What muntin adds itself: when a message is from the future isn't a matter of state.
_OWN = (columns.FUTURE, columns.CLOCK)
_LOCAL = ("string", "date", "timestamp_ntz")
_PARSED_BY_SOURCES = ("json", "csv", "xml")
# A node of a plan, as Spark writes it, and those below it.
_Tree = tuple[dict[str, Any], list[Any]]


def zone_of(messages: DataFrame, time: str | None = None, *, whole: bool = True) -> str | None:
    """The session's time zone, where messages depend on it.

    Args:
        messages: What is sent to the workers.
        time: The column of event times, if there is one; it may be computed of others.
        whole: Whether all that it is made of counts, and not just its own columns.
    """
    zone: str = str(messages.sparkSession.conf.get(ZONE_SETTING))
    zone = "UTC" if zone in _UTC else zone
    computed = time is not None and time not in messages.columns
    if time is not None and not computed and isinstance(messages.schema[time].dataType, StringType):
        return zone
    plan = nodes(messages)
    if plan is None:
        return zone if computed else None
    depends = any(_expressions(plan if whole else plan[:1]))
    return zone if depends or (whole and any(map(_parses, sources(messages)))) else None


def _expressions(value: Any) -> Iterator[bool]:
    """Of each expression in a part of a plan: whether it depends on a zone."""
    if isinstance(value, dict):
        for part in value.values():
            yield from _expressions(part)
    elif isinstance(value, list) and value and _is_node(value[0]) and "class" in value[0]:
        nodes = iter(value)
        while (first := next(nodes, None)) is not None:
            yield from _below(_tree(first, nodes))
    elif isinstance(value, list):
        for part in value:
            yield from _expressions(part)


def _is_node(value: Any) -> bool:
    return isinstance(value, dict) and "num-children" in value


def _tree(node: dict[str, Any], rest: Iterator[dict[str, Any]]) -> _Tree:
    """A node with those below it, which follow it in order."""
    return node, [_tree(next(rest, {}), rest) for _ in range(node.get("num-children", 0))]


def _below(tree: _Tree) -> Iterator[bool]:
    node, under = tree
    if node.get("name") in _OWN:
        return
    yield "timeZoneId" in node and _depends(tree)
    yield from (
        found for name, part in node.items() if name != "schema" for found in _expressions(part)
    )
    for one in under:
        yield from _below(one)


def _depends(tree: _Tree) -> bool:
    """Whether something that knows a zone needs it."""
    node, under = tree
    kind = node["class"].rpartition(".")[2]
    if kind == "Cast":
        to, given = node["dataType"], _types(under)
        if to == "timestamp":
            return not given or bool(given & {*_LOCAL})
        return to in _LOCAL and ("timestamp" in given or any(_makes_times(under)))
    if kind.endswith("ToStructs"):
        return _has_times(node["schema"])
    return True


def _types(trees: list[_Tree]) -> set[str]:
    """The types of the columns and values that an expression is made of."""
    found = {str(node["dataType"]) for node, _ in trees if "dataType" in node}
    return found.union(*(_types(under) for node, under in trees if "dataType" not in node))


def _makes_times(trees: list[_Tree]) -> Iterator[bool]:
    for node, under in trees:
        yield "Timestamp" in node["class"].rpartition(".")[2]
        yield from _makes_times(under)


def _parses(source: PlannedSource) -> bool:
    """Whether a source reads times out of texts."""
    parsed = source.name.lower() in _PARSED_BY_SOURCES and "timezone" not in source.options
    return parsed and _has_times(source.schema)


def _has_times(schema: Any) -> bool:
    """Whether some column, at any depth, is a moment."""
    if isinstance(schema, dict):
        parts = (part for name, part in schema.items() if name not in ("name", "metadata"))
        return any(part == "timestamp" or _has_times(part) for part in parts)
    return isinstance(schema, list) and any(map(_has_times, schema))
