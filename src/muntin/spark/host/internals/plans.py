"""What Spark's plan of a DataFrame says: what it is made of, and where that comes from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame


@dataclass(frozen=True)
class PlannedSource:
    """Where a plan reads from.

    Attributes:
        name: What the source is called, as by ``format(…)``.
        options: Its options, by names in lower case.
        schema: Its columns, as Spark writes a schema as JSON.
    """

    name: str
    options: Mapping[str, str]
    schema: Any


def remember(frame: DataFrame, name: str, what: Any) -> None:
    """Let a DataFrame object know something for good; what is made of it doesn't."""
    vars(frame)[name] = what


def remembered(frame: DataFrame, name: str) -> Any:
    """What a DataFrame object was given to remember; ``None`` where it was given nothing."""
    return vars(frame).get(name)


def is_seen(frame: DataFrame) -> bool:
    """Whether there is a plan to look at: over Spark Connect there is none."""
    return hasattr(frame, "_jdf")


def reads(frame: DataFrame, name: str) -> bool:
    """Whether a source of a name is somewhere in a plan."""
    if not is_seen(frame):
        return name in _texts(vars(frame).get("_plan"))
    return any(leaf.toString() == name for leaf in _leaves(_analyzed(frame)))


def streams(frame: DataFrame) -> int | None:
    """How many streams a plan reads, each as often as it is read; ``None`` where it isn't seen."""
    if not is_seen(frame):
        return None
    return sum(bool(leaf.isStreaming()) for leaf in _leaves(_analyzed(frame)))


def nodes(frame: DataFrame) -> list[Any] | None:
    """All of a plan as Spark writes it as JSON; ``None`` where it can't be seen."""
    if not is_seen(frame):
        return None
    try:
        found: list[Any] = json.loads(_analyzed(frame).toJSON())
    except (Py4JError, ValueError):
        return None  # It is Spark's own aid for those who look for mistakes, and no interface.
    return found


def sources(frame: DataFrame) -> list[PlannedSource]:
    """The streams and files that a plan reads from, where it can be seen."""
    if not is_seen(frame):
        return []
    try:
        found = [_source(leaf) for leaf in _leaves(_analyzed(frame))]
    except (Py4JError, ValueError):
        return []
    return [one for one in found if one is not None]


def bare_source(frame: DataFrame) -> PlannedSource | None:
    """The stream that a DataFrame is, if it does nothing but name some of its columns."""
    if not is_seen(frame):
        return None
    plan = _analyzed(frame)
    while (kind := plan.getClass().getSimpleName()) in ("SubqueryAlias", "Project"):
        if kind == "Project":
            named = {one.getClass().getSimpleName() for one in _each(plan.projectList())}
            if named != {"AttributeReference"}:
                return None
        plan = plan.child()
    return _source(plan) if kind == "StreamingRelation" else None


def names(frame: DataFrame) -> str:
    """A plan in words, with all the names that are in it."""
    if is_seen(frame):
        return str(_analyzed(frame).toString())
    return " ".join(_texts(vars(frame).get("_plan")))


def _analyzed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _leaves(plan: Any) -> Iterator[Any]:
    return _each(plan.collectLeaves())


def _each(listed: Any) -> Iterator[Any]:
    return (listed.apply(i) for i in range(listed.size()))


def _source(leaf: Any) -> PlannedSource | None:
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
    pairs, found = options.iterator(), {}
    while pairs.hasNext():
        pair = pairs.next()
        found[str(pair._1()).lower()] = str(pair._2())
    return PlannedSource(str(name), found, json.loads(leaf.schema().json()))


def _texts(plan: Any) -> Iterator[str]:
    """All texts in a plan that is sent over a connection."""
    for value in vars(plan).values() if plan is not None else ():
        if isinstance(value, str):
            yield value
        elif type(value).__module__ == type(plan).__module__ and hasattr(value, "__dict__"):
            yield from _texts(value)
