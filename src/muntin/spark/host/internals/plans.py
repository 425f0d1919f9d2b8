"""Reads Spark's plan of a DataFrame: its sources, its expressions and its names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame


@dataclass(frozen=True)
class PlannedSource:
    """A source of a plan.

    Attributes:
        options: Its options, by names in lower case.
        schema: Its columns, as Spark writes a schema as JSON.
    """

    name: str
    options: Mapping[str, str]
    schema: Any


def remember(frame: DataFrame, name: str, what: Any) -> None:
    """Attach a value to a DataFrame object; frames derived from it don't have the value."""
    vars(frame)[name] = what


def recall(frame: DataFrame, name: str) -> Any:
    """Return the value that `remember` attached to a DataFrame object; ``None`` without one."""
    return vars(frame).get(name)


def is_seen(frame: DataFrame) -> bool:
    """Return whether a DataFrame's plan can be read; over Spark Connect it can't."""
    return hasattr(frame, "_jdf")


def reads(frame: DataFrame, name: str) -> bool:
    """Return whether a plan has a source whose name starts with ``name``."""
    if not is_seen(frame):
        return any(text.startswith(name) for text in _iterate_texts(vars(frame).get("_plan")))
    return any(leaf.toString().startswith(name) for leaf in _list_leaves(_analyze(frame)))


def list_streams(frame: DataFrame) -> list[tuple[str, int]]:
    """Return the name and number of each stream of a plan, in the order of Spark's offsets.

    A stream that is read twice has one number.
    """
    leaves = [leaf for leaf in _list_leaves(_analyze(frame)) if leaf.isStreaming()]
    numbers: list[int] = []
    for position, leaf in enumerate(leaves):
        same = next((n for n in range(position) if leaves[n].equals(leaf)), None)
        numbers.append(max(numbers, default=-1) + 1 if same is None else numbers[same])
    return [(str(leaf.toString()), number) for leaf, number in zip(leaves, numbers, strict=True)]


def list_nodes(frame: DataFrame) -> list[Any] | None:
    """Return the nodes of a plan as Spark writes them as JSON; ``None`` where it can't be read."""
    if not is_seen(frame):
        return None
    try:
        nodes: list[Any] = json.loads(_analyze(frame).toJSON())
    except (Py4JError, ValueError):
        return None  # Spark's JSON is a debugging aid without guarantees, so it may fail.
    return nodes


def list_sources(frame: DataFrame) -> list[PlannedSource]:
    """Return the streams and files that a plan reads; none where it can't be read."""
    if not is_seen(frame):
        return []
    try:
        planned_sources = [_describe_source(leaf) for leaf in _list_leaves(_analyze(frame))]
    except (Py4JError, ValueError):
        return []
    return [one for one in planned_sources if one is not None]


def find_bare_source(frame: DataFrame) -> PlannedSource | None:
    """Return the stream of a DataFrame that only selects and names its columns, else ``None``."""
    if not is_seen(frame):
        return None
    plan = _analyze(frame)
    while (kind := plan.getClass().getSimpleName()) in ("SubqueryAlias", "Project"):
        if kind == "Project":
            named = {one.getClass().getSimpleName() for one in iterate_sequence(plan.projectList())}
            if named != {"AttributeReference"}:
                return None
        plan = plan.child()
    return _describe_source(plan) if kind == "StreamingRelation" else None


def format_plan(frame: DataFrame) -> str:
    """Return a plan as text, which contains all of its names."""
    if is_seen(frame):
        return str(_analyze(frame).toString())
    return " ".join(_iterate_texts(vars(frame).get("_plan")))


def _analyze(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _list_leaves(plan: Any) -> Iterator[Any]:
    return iterate_sequence(plan.collectLeaves())


def iterate_sequence(listed: Any) -> Iterator[Any]:
    """Iterate over a sequence of Scala."""
    return (listed.apply(i) for i in range(listed.size()))


def _describe_source(leaf: Any) -> PlannedSource | None:
    kind = leaf.getClass().getSimpleName()
    if kind == "StreamingRelation":
        name, options = leaf.dataSource().className(), leaf.dataSource().options()
    elif (
        kind == "LogicalRelation"
        and leaf.relation().getClass().getSimpleName() == "HadoopFsRelation"
    ):
        name, options = leaf.relation().fileFormat().toString(), leaf.relation().options()
    else:
        return None
    pairs, values = options.iterator(), {}
    while pairs.hasNext():
        pair = pairs.next()
        values[str(pair._1()).lower()] = str(pair._2())
    return PlannedSource(str(name), values, json.loads(leaf.schema().json()))


def _iterate_texts(plan: Any) -> Iterator[str]:
    """Yield all texts in a plan of Spark Connect."""
    for value in vars(plan).values() if plan is not None else ():
        if isinstance(value, str):
            yield value
        elif type(value).__module__ == type(plan).__module__ and hasattr(value, "__dict__"):
            yield from _iterate_texts(value)
