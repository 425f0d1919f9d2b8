"""Options of joins and of their sides, alone and in pairs, and what they change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import combinations
from typing import Any

import polars as pl
from tests.options import pairs
from tests.options.pairs import Stream, list_messages

import muntin as mt
from muntin import testing
from muntin.model.errors import MuntinError

_LEFT = {
    "lateness": "40 seconds",
    "max_ahead": "1 hour",
    "idle": "10 seconds",
    "watermark": ["part"],
    "where": pl.col("n") != 1,
    "clock": "clock",
    "offset": ("part", "n"),
    "key": "part",
    "nulls": "group",
    "shards": 3,
}
_STEPS: dict[str, dict[str, Any]] = {
    "early": {"every": "1 minute"},
    "late": {"grace": "1 hour", "every": "1 minute"},
    "keep": {"retention": "5 minutes"},
    "deltas": {},
}
_JOIN = {
    "how": "left",
    "layout": "keys",
    "shards": 3,
    "nulls": "unmatched",
    "shared_time": True,
    "each_change": True,
}
KINDS: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
    "within": ({"within": "1 minute"}, ()),
    "as of": ({"as_of": True}, ()),
    "as of an age": ({"as_of": "1 hour"}, ()),
    "newest": ({"newest": True}, ()),
    "windows": ({}, ("tumbling", "1 minute")),
    "sliding": ({}, ("sliding", "1 minute")),
    "sessions": ({}, ("session", "30 seconds")),
}


@dataclass(frozen=True)
class Setting:
    """One option of a join or of a side.

    Attributes:
        part: The side, or ``join``.
        option: The option, or the method of a side.
        value: Its value, or the arguments of the method.
    """

    part: str
    option: str
    value: Any = field(hash=False, compare=False)

    def __str__(self) -> str:
        return f"{self.part} {self.option}={self.value!r}"


def _list_settings() -> list[Setting]:
    sides = [
        Setting(side, option, value)
        for side in ("left", "right")
        for option, value in {**_LEFT, **_STEPS}.items()
    ]
    return [*sides, *(Setting("join", option, value) for option, value in _JOIN.items())]


SETTINGS = _list_settings()


def list_pairs() -> list[tuple[Setting, Setting]]:
    """Return all pairs of settings."""
    return list(combinations(SETTINGS, 2))


def build(kind: str, settings: tuple[Setting, ...]) -> Any:
    """Return the join with these settings; it raises an error of muntin if it can't work."""
    bound, windows = KINDS[kind]
    sides = {side: _build_side(windows, [s for s in settings if s.part == side])
             for side in ("left", "right")}  # fmt: skip
    chosen: Mapping[str, Any] = {s.option: s.value for s in settings if s.part == "join"}
    return mt.join(sides["left"], sides["right"], on="page", **bound, **chosen)


def _build_side(windows: tuple[Any, ...], settings: list[Setting]) -> Any:
    options = {s.option: s.value for s in settings if s.option in _LEFT}
    side = mt.windowed(Stream(), time="ts", **options)
    if windows:
        side = getattr(side, windows[0])(*windows[1:])
    for one in settings:
        if one.option in _STEPS:
            side = getattr(side, one.option)(**one.value)
    return side


describe = partial(pairs.describe, build=build)


@cache
def emit(kind: str, settings: tuple[Setting, ...]) -> str | None:
    """Return what a join emits, rejects and counts; ``None`` if it is refused."""
    left = list_messages()
    right = [*left[1:], left[0]]
    try:
        ran = testing.run(build(kind, settings), (left, right), ticks=_list_ticks(), final=False)
    except MuntinError:
        return None
    return str((ran.emissions.rows(), ran.rejected.rows(), ran.progress.counts))


def _list_ticks() -> list[str]:
    clocks = ("00:00:35", "00:00:59", "00:02:00", "00:05:00", "00:16:00", "03:01:00")
    return [f"2026-01-01T{clock}Z" for clock in clocks]
