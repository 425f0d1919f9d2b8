"""Every option of every public function, with a valid value and one that is refused.

An option without a row here fails ``test_calls.py``, and so does a row without an option.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

import muntin as mt
from muntin.model.aggregates.entry import ENTRIES

CLICKS = pl.DataFrame({"page": ["a"], "ts": ["2026-01-01 00:00:00"], "n": [1], "part": [0]})
ANY: Any = object()
"""The function accepts any value of the option's type before the query starts."""
BESIDE: Any = object()
"""The option is valid only with others, or has no visible effect here; other tests cover it."""


@dataclass(frozen=True)
class Call:
    """A public function with the arguments that it needs, and a pair of values for each option.

    Attributes:
        function: The function, whose signature lists the options.
        run: Calls the function with options, and everything that validates them.
        needed: Arguments that all calls need.
        options: By option, a valid value and an invalid one.
        beside: By option, more arguments that it needs.
    """

    function: Callable[..., Any]
    run: Callable[..., Any]
    options: Mapping[str, tuple[Any, Any]]
    needed: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def _make_windows(**options: Any) -> Any:
    return mt.windowed(**{"frame": CLICKS, "key": "page", "time": "ts", **options})


def _make_method_call(method: str) -> Callable[..., Any]:
    def run(**options: Any) -> Any:
        windows = _make_windows()
        if method in ("early", "late", "full", "fill", "keep", "top"):
            windows = windows.tumbling("1 minute")
        # The method that fills all aggregates is positional, since its name may be an aggregate's.
        positional = [options.pop("value")] if method == "fill" else []
        query = getattr(windows, method)(*positional, **options)
        return query if method == "top" else query.agg(views=mt.count(), total=mt.sum("n"))

    return run


def _make_trailing(**options: Any) -> Any:
    return _make_windows().trailing("1 hour", **options).agg(n=mt.count())


def _make_row_windows(**options: Any) -> Any:
    return _make_windows(time=None).tumbling(mt.rows(**options)).agg(n=mt.count())


def _make_aggregate_call(name: str) -> Callable[..., Any]:
    def run(**options: Any) -> Any:
        return _make_windows().tumbling("1 minute").agg(x=getattr(mt, name)(**options))

    return run


def _make_join(**options: Any) -> Any:
    return mt.join(options.pop("left"), options.pop("right"), **options)


_TRIGGER = {
    "each": (BESIDE, "yes"),
    "rows": (3, 0),
    "every": ("5 seconds", "often"),
    "at_least": (3, 0),
    "after": ("5 seconds", "soon"),
    "since": ("last", "middle"),
    "when": ("views > 3", 1),
    "then": ({"every": "1 minute"}, "always"),
}
_OTHERS: dict[str, dict[str, Any]] = {
    "each": {"each": True},
    "every": {"rows": 5},
    "at_least": {"every": "1 second"},
    "after": {"after": "1 second"},
    "since": {"after": "5 seconds"},
    "when": {"when": "views > 1"},
}


def _list_trigger_arguments(**needed: Any) -> dict[str, dict[str, Any]]:
    beside = {option: {**needed, **_OTHERS.get(option, {"each": True})} for option in _TRIGGER}
    return {**beside, "rows": {**needed, "rows": 5}}


_SERVERS = {"servers": "localhost:9092", "topic": "views"}


def _list_sink_calls() -> dict[str, Call]:
    rows: dict[str, tuple[dict[str, Any], dict[str, tuple[Any, Any]]]] = {
        "to_delta": ({"table": "lake/t"}, {"table": ("lake/u", " "), "history": ("lake/h", " ")}),
        "to_duckdb": (
            {"path": "out.duckdb", "table": "t"},
            {"path": ("other.duckdb", ANY), "table": ("u", ""), "history": ("h", "")},
        ),
        "to_iceberg": (
            {"table": "lake.db.t"},
            {"table": ("lake.db.u", "u"), "history": ("lake.db.h", "h")},
        ),
        "to_kafka": (
            _SERVERS,
            {
                "servers": ("other:9092", ""),
                "topic": ("other", ""),
                "key": ("page", 1),
                "format": (BESIDE, "xml"),
                "schema": (BESIDE, "no schema"),
                "registry": (BESIDE, "no address"),
                "options": ({"linger.ms": "5"}, {"linger.sm": "5"}),
                "patience": ("5 minutes", "a while"),
            },
        ),
        "to_memory": ({}, {"history": (True, "yes")}),
        "to_parquet": (
            {"path": "out"},
            {"path": ("other", ANY), "partition_by": ("page", ANY), "files": (2, 0)},
        ),
        "to_print": ({}, {"rows": (5, 0)}),
        "to_postgres": (
            {"dsn": "host=localhost", "table": "t"},
            {
                "dsn": ("host=other", "no address"),
                "table": ("u", ""),
                "schema": ("s", ""),
                "history": ("h", ""),
                "create": ("never", "perhaps"),
                "patience": (BESIDE, "a while"),
                "password": (BESIDE, ANY),
            },
        ),
    }
    return {
        name: Call(getattr(mt, name), getattr(mt, name), options, needed)
        for name, (needed, options) in rows.items()
    }


def _list_aggregate_calls() -> dict[str, Call]:
    special_options: dict[str, tuple[dict[str, Any], dict[str, tuple[Any, Any]]]] = {
        "count": ({}, {}),
        "approx_distinct": ({}, {"lg_k": (10, 99)}),
        "arg_max": ({"by": "n"}, {"by": ("part", 1), "nulls": ("skip", "drop")}),
        "arg_min": ({"by": "n"}, {"by": ("part", 1), "nulls": ("skip", "drop")}),
        "exact_quantile": ({"q": 0.5}, {"q": (0.9, 2)}),
        "first": ({}, {"nulls": ("skip", "drop")}),
        "last": ({}, {"nulls": ("skip", "drop")}),
        "last_values": ({}, {"nulls": ("skip", "drop")}),
        "quantile": ({"q": 0.5}, {"q": (0.9, 2), "k": (100, 1)}),
        "top_k": ({"k": 3}, {"k": (5, 0), "ascending": (True, "yes")}),
    }
    # User-defined functions have tests of their own.
    names = {entry.make.__name__ for entry in ENTRIES.values()} - {"aggregate", "apply"}
    calls = {}
    for name in sorted(names, key=lambda name: (name in special_options, name)):
        needed, options = special_options.get(name, ({}, {}))
        takes_condition = name in ("bool_and", "bool_or", "count_if")
        column = pl.col("n") > 1 if takes_condition else "n"
        other = pl.col("n") > 2 if takes_condition else "part"
        rows = {"column": (other, 1.5), **options}
        needed = needed if name == "count" else {"column": column, **needed}
        calls[name] = Call(getattr(mt, name), _make_aggregate_call(name), rows, needed)
    return calls


CALLS: dict[str, Call] = {
    "windowed": Call(
        mt.windowed,
        lambda **options: _make_windows(**options).tumbling("1 minute").agg(n=mt.count()),
        {
            "frame": (CLICKS.clone().with_columns(x=1), 1),
            "key": (("page", "part"), 1),
            "time": (pl.col("ts"), 1),
            "offset": (("part", "n"), "part"),
            "lateness": ("1 minute", "a while"),
            "max_ahead": ("1 hour", "a while"),
            "idle": ("1 minute", "a while"),
            "watermark": (["page"], "slowest"),
            "where": (pl.col("n") > 1, 1),
            "clock": ("ts", 1),
            "shards": (3, 0),
            "nulls": ("group", "keep"),
            "host": ("local", "flink"),
        },
        beside={"idle": {"frame": mt.files("clicks/*.csv", columns="page string, ts timestamp")}},
    ),
    ".tumbling": Call(
        mt.windowed(CLICKS).tumbling,
        _make_method_call("tumbling"),
        {
            "size": ("1 hour", "a while"),
            "origin": ("2026-01-01T00:00:30", "some day"),
            "zone": ("Europe/Paris", "Europe/Nowhere"),
            "zone_column": ("page", 1),
        },
        {"size": "1 day"},
    ),
    ".hopping": Call(
        mt.windowed(CLICKS).hopping,
        _make_method_call("hopping"),
        {
            "size": ("3 days", "a while"),
            "slide": ("2 days", "3 days"),
            "origin": ("2026-01-01T00:00:30", "some day"),
            "zone": ("Europe/Paris", "Europe/Nowhere"),
            "zone_column": ("page", 1),
            "overlap": (BESIDE, 0),
        },
        {"size": "2 days", "slide": "1 day"},
    ),
    ".cumulating": Call(
        mt.windowed(CLICKS).cumulating,
        _make_method_call("cumulating"),
        {
            "size": ("2 days", "a while"),
            "step": ("12 hours", "2 days"),
            "origin": ("2026-01-01T00:00:30", "some day"),
            "zone": ("Europe/Paris", "Europe/Nowhere"),
            "zone_column": ("page", 1),
            "overlap": (BESIDE, 0),
        },
        {"size": "1 day", "step": "6 hours"},
    ),
    ".sliding": Call(
        mt.windowed(CLICKS).sliding,
        _make_method_call("sliding"),
        {"size": ("1 hour", "a while")},
        {"size": "1 minute"},
    ),
    ".rolling": Call(
        mt.windowed(CLICKS).rolling,
        _make_method_call("rolling"),
        {"size": ("1 hour", "a while"), "closed": ("both", "outside")},
        {"size": "1 minute"},
    ),
    ".trailing": Call(
        mt.windowed(CLICKS).trailing,
        _make_trailing,
        {"every": ("30 seconds", "often"), "origin": ("2026-01-01T00:00:30", "some day")},
        {"every": "1 minute"},
    ),
    ".session": Call(
        mt.windowed(CLICKS).session,
        _make_method_call("session"),
        {
            "gap": ("1 hour", "a while"),
            "closed": ("left", "outside"),
            "by": (BESIDE, 1),
            "longest": ("8 hours", "1 second"),
            "start": ("n = 1", 1),
            "end": ("n = 1", 1),
            "same": ("n", 1),
        },
        {"gap": "1 minute"},
    ),
    ".early": Call(
        mt.windowed(CLICKS).early,
        _make_method_call("early"),
        {**_TRIGGER, "over": (1000, 0), "stop": (True, "yes")},
        beside={
            **_list_trigger_arguments(),
            "over": {"over": 2000},
            "stop": {"over": 1000},
        },
    ),
    ".late": Call(
        mt.windowed(CLICKS).late,
        _make_method_call("late"),
        {"grace": ("2 hours", "a while"), **_TRIGGER},
        {"grace": "1 hour"},
        _list_trigger_arguments(),
    ),
    ".full": Call(
        mt.windowed(CLICKS).full,
        _make_method_call("full"),
        {"repeat": (BESIDE, "no")},
        {"repeat": True},
    ),
    ".fill": Call(
        mt.windowed(CLICKS).fill,
        _make_method_call("fill"),
        {"value": ("null", "one"), "up_to": ("2 days", "a while")},
        {"value": "zero", "up_to": "1 day"},
    ),
    ".keep": Call(
        mt.windowed(CLICKS).keep,
        _make_method_call("keep"),
        {"retention": ("2 hours", "a while"), "rows": (1000, 0)},
        {"retention": "1 hour"},
    ),
    ".top": Call(
        mt.windowed(CLICKS).top,
        _make_method_call("top"),
        {"n": (2, 0), "by": ("part", "no_such_column"), "ascending": (True, "yes")},
        {"n": 1, "by": "n"},
    ),
    "rows": Call(mt.rows, _make_row_windows, {"count": (3, 0)}, {"count": 2}),
    "join": Call(
        mt.join,
        _make_join,
        {
            "left": (mt.windowed(CLICKS, time="ts", lateness="1 second"), CLICKS),
            "right": (mt.windowed(CLICKS, time="ts", lateness="1 second"), CLICKS),
            "on": ("part", "no_such_column"),
            "within": ("2 minutes", "a while"),
            "as_of": (BESIDE, "a while"),
            "newest": (BESIDE, "yes"),
            "how": ("left", "sideways"),
            "suffix": ("_other", ""),
            "layout": (BESIDE, "list"),
            "shards": (3, 0),
            "nulls": (BESIDE, "keep"),
            "shared_time": (BESIDE, "yes"),
            "each_change": (BESIDE, "yes"),
            "host": ("local", "flink"),
        },
        {
            "left": mt.windowed(CLICKS, time="ts"),
            "right": mt.windowed(CLICKS, time="ts"),
            "on": "page",
            "within": "1 minute",
        },
    ),
    "files": Call(
        mt.files,
        mt.files,
        {
            "path": ("other/*.csv", ANY),
            "columns": ("page string, n bigint", "page nothing"),
            "format": ("jsonl", "xml"),
            "header": (True, "yes"),
            "zone": ("Europe/Paris", "Europe/Nowhere"),
            "files_per_batch": (3, 0),
            "bytes_per_batch": ("64 MB", "64 megs"),
            "bad_files": ("skip", "delete"),
        },
        {"path": "clicks/*.csv", "columns": "page string"},
        {"zone": {"columns": "page string, at timestamp"}},
    ),
    "kafka": Call(
        mt.kafka,
        mt.kafka,
        {
            "servers": ("other:9092", ""),
            "topic": (["clicks", "views"], ""),
            "columns": ("page string, n bigint", 1),
            "format": ("csv", "xml"),
            "schema": (BESIDE, "no schema"),
            "starting": ("latest", "whenever"),
            "headers": (True, "yes"),
            "per_batch": (1000, 0),
            "bytes_per_batch": ("64 MB", 0),
            "reader": ("columns", "rows"),
            "registry": (BESIDE, "no address"),
            "options": ({"security.protocol": "SSL"}, {"security.protocl": "SSL"}),
            "patience": ("5 minutes", "a while"),
            "group": (BESIDE, 1),
        },
        {**_SERVERS, "columns": "page string"},
    ),
    "ticks": Call(mt.ticks, mt.ticks, {"rate": (100, 0)}),
    **_list_sink_calls(),
    **_list_aggregate_calls(),
}
