"""The notation of the transcripts: YAML whose rows are read as cells between spaces.

A file is a list of cases. A case has a ``name``, a ``spec`` and ``steps``; with ``wrong: true``
it states something that is not so, and a run of it must be found failing. The spec holds:

- ``windows``: ``tumbling 10 s``, or ``hopping 10 s by 4 s``, with ``from TIME`` for an origin;
- ``columns``: names and types of a row's cells (default ``key:string time value:long``);
- ``keys`` (default ``key``), ``aggregates`` by output name, for example ``max(value)``;
- ``lateness``, ``ahead``, ``grace``, ``keep`` (default: the grace), ``accumulate``;
- ``early`` (default never) and ``late`` (default ``each``): ``each``, ``every 3 rows`` or
  ``every 1 minute``.

A step has the ``wall`` clock, ``messages``, ``final`` where the input ends, and what must come of
it: ``expect`` (the firings, in order), ``rejected`` (in any order) and ``watermark`` (where it
stands after the step; not looked at where it isn't said).

- A message is its cells in order: ``a 3 5``.
- A firing is the key cells, the window, the aggregates, emission and revision:
  ``a 0..10 5 full 0``.
- A rejected message is its cells, the reason and the watermark in force: ``a 3 5 late 20``.

A time is seconds (``7``, ``-2.5``), a time of the first day (``09:00:01``), an ISO time
(``2026-01-01T00:00:00``) or ``null``; anything else in the time column is text that is no time.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.doors import Batch

from muntin.model import aggregates, windows
from muntin.model.aggregates import Aggregate
from muntin.model.axis import SECOND, instant, micros
from muntin.model.policies import Each, Every, EveryRows, Firing, Policy
from muntin.model.spec import WindowSpec
from muntin.model.windows import Windows

_SECONDS = re.compile(r"-?\d+(\.\d+)?")
_CLOCK = re.compile(r"\d\d:\d\d:\d\d(\.\d+)?")
_CONSTANTS = {"null": None, "true": True, "false": False, "nan": math.nan, "inf": math.inf}
_READERS = {
    "string": str,
    "long": int,
    "double": float,
    "boolean": {"true": True, "false": False}.__getitem__,
}


@dataclass(frozen=True)
class Expected:
    """What a step must give; ``watermark`` is ``...`` where the transcript doesn't say."""

    firings: list[dict[str, Any]]
    rejected: list[dict[str, Any]]
    watermark: Any


@dataclass(frozen=True)
class Case:
    """One transcript."""

    name: str
    spec: WindowSpec
    steps: list[Batch]
    expected: list[Expected]
    wrong: bool


def read_cases(folder: Path) -> list[Case]:
    """All cases of a folder, file by file."""
    files = sorted(folder.glob("*.yaml"))
    return [_case(item) for path in files for item in yaml.load(path.read_text(), yaml.BaseLoader)]


def _case(item: dict[str, Any]) -> Case:
    _only_known(item, {"name", "spec", "steps", "wrong"})
    columns = _columns(item["spec"].get("columns", "key:string time value:long"))
    spec = _spec(item["spec"], columns)
    for step in item["steps"]:
        _only_known(step, {"wall", "messages", "final", "expect", "rejected", "watermark"})
    steps = [
        Batch(
            messages=[_message(row, columns) for row in step.get("messages", [])],
            wall=_time(step["wall"]),
            final=step.get("final") == "true",
        )
        for step in item["steps"]
    ]
    expected = [_expected(step, spec, columns) for step in item["steps"]]
    return Case(item["name"], spec, steps, expected, item.get("wrong") == "true")


def _expected(step: dict[str, Any], spec: WindowSpec, columns: dict[str, str]) -> Expected:
    return Expected(
        firings=[_firing(row, spec, columns) for row in step.get("expect", [])],
        rejected=[_rejected(row, columns) for row in step.get("rejected", [])],
        watermark=_time(step["watermark"]) if "watermark" in step else ...,
    )


def _spec(item: dict[str, str], columns: dict[str, str]) -> WindowSpec:
    options = {"windows", "columns", "keys", "aggregates", "lateness", "ahead"}
    _only_known(item, options | {"grace", "keep", "accumulate", "early", "late"})
    grace = item.get("grace", "0 s")
    firing = Firing(
        early=_policy(item["early"]) if "early" in item else None,
        late=_policy(item.get("late", "each")),
        grace=micros("grace", grace),
        retention=micros("keep", item.get("keep", grace)),
        accumulate=item.get("accumulate", "true") == "true",
    )
    return WindowSpec(
        keys=tuple(item.get("keys", "key").split()),
        time="time",
        windows=_windows(item["windows"]),
        aggregates={name: _aggregate(text) for name, text in dict(item["aggregates"]).items()},
        firing=firing,
        lateness=micros("lateness", item.get("lateness", "0 s")),
        max_ahead=micros("ahead", item["ahead"]) if "ahead" in item else None,
        types={name: kind for name, kind in columns.items() if name != "time"},
    )


def _only_known(item: dict[str, Any], known: set[str]) -> None:
    unknown = item.keys() - known
    assert not unknown, f"{sorted(unknown)} means nothing in a transcript"


def _columns(text: str) -> dict[str, str]:
    return dict(f"{cell}:timestamp".split(":")[:2] for cell in text.split())


def _windows(text: str) -> Windows:
    lengths, _, origin = text.partition(" from ")
    start = _time(origin) if origin else 0
    kind, _, rest = lengths.partition(" ")
    if kind == "tumbling":
        return windows.tumbling(rest, origin=start)
    assert kind == "hopping", kind
    size, _, slide = rest.partition(" by ")
    return windows.hopping(size, slide, origin=start)


def _policy(text: str) -> Policy:
    if text == "each":
        return Each()
    period = text.removeprefix("every ")
    assert period != text, text
    if period.endswith(" rows"):
        return EveryRows(int(period.removesuffix(" rows")))
    return Every(micros("every", period))


def _aggregate(text: str) -> Aggregate:
    kind, inside = re.fullmatch(r"(\w+)\((.*)\)", text).groups()
    parts = [part.strip() for part in inside.split(",") if part]
    named = dict(part.split("=") for part in parts if "=" in part)
    names = [part for part in parts if "=" not in part]
    if kind == "product":
        return product(*names)
    return getattr(aggregates, kind)(*names, **{key: float(value) for key, value in named.items()})


def product(column: str) -> Aggregate:
    """A user's aggregate: all values multiplied."""
    return aggregates.aggregate(
        column,
        initializer=lambda: 1.0,
        aggregator=lambda state, value: state * value,
        merger=lambda one, other: one * other,
    )


def _message(row: str, columns: dict[str, str]) -> dict[str, Any]:
    cells = zip(row.split(), columns.items(), strict=True)
    return {name: _cell(text, kind) for text, (name, kind) in cells}


def _cell(text: str, kind: str) -> Any:
    if kind == "timestamp":
        return _time_or_text(text)
    return None if text == "null" else _READERS[kind](text)


def _firing(row: str, spec: WindowSpec, columns: dict[str, str]) -> dict[str, Any]:
    cells = iter(row.split())
    firing = {name: _cell(next(cells), columns[name]) for name in spec.keys}
    start, _, end = next(cells).partition("..")
    firing |= {"window_start": _time(start), "window_end": _time(end)}
    firing |= {name: _value(next(cells)) for name in spec.aggregates}
    firing |= {"emission": next(cells), "revision": int(next(cells))}
    assert not list(cells), f"too many cells in {row!r}"
    return firing


def _rejected(row: str, columns: dict[str, str]) -> dict[str, Any]:
    *cells, reason, watermark = row.split()
    message = _message(" ".join(cells), columns)
    return {**message, "reason": reason, "watermark": _time(watermark)}


def _value(text: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def _time_or_text(text: str) -> int | str | None:
    if text == "null":
        return None
    if _SECONDS.fullmatch(text):
        return round(float(text) * SECOND)
    if _CLOCK.fullmatch(text):
        return instant("time", f"1970-01-01T{text}")
    if "T" in text and text[:4].isdigit():
        return instant("time", text)
    return text


def _time(text: str) -> Any:
    time = _time_or_text(text)
    assert not isinstance(time, str), f"{text!r} is no time"
    return time
