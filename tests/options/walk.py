"""Every option of SQL, TOML and sources, with a valid value and one that is refused.

An option without a row here fails ``test_walk.py``, and so does a row without an option.
"""

from __future__ import annotations

from typing import Any

from tests.options.calls import ANY, CALLS

from muntin.model.inputs import DURATIONS

# The options whose values in text differ from those of Python.
_IN_TEXT: dict[str, dict[str, tuple[str, Any]]] = {
    "parquet": {"files": ("2", "two")},
    "postgres": {
        "table": ("t", ""),
        "schema": ("s", ""),
        "history": ("h", "n" * 64),
        "patience": ("2 minutes", "a while"),
        "password": ("secret", ANY),
    },
}


def _list_sink_options(function: str) -> dict[str, tuple[str, Any]]:
    rows = CALLS[function].options.items()
    texts = {
        name: (str(valid), str(bad) if bad not in ("", ANY) else ANY) for name, (valid, bad) in rows
    }
    return texts | _IN_TEXT.get(function.removeprefix("to_"), {})


_SINKS = sorted({name for name in CALLS if name.startswith("to_")} - {"to_kafka", "to_memory"})
SINKS = {name.removeprefix("to_"): _list_sink_options(name) for name in _SINKS}
"""Options of sinks in SQL and TOML, as in Python; those of Kafka have tests of their own."""
NEEDED = {name.removeprefix("to_"): CALLS[name].needed for name in _SINKS}

VALUES = {
    "parse_boolean": ("true", "yes"),
    "parse_whole": ("3", "three"),
    "parse_count": ("3", "0"),
    "parse_number": ("0.5", "half"),
    "parse_bytes": ("4096", "64 megs"),
    "accept_any": ("x", ANY),
    "check_choice": (None, "no such choice"),
}
"""Values of a source's option, by the function that converts it."""
CHOICES = {
    "mode": "FAILFAST",
    "cleanSource": "archive",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "LEGACY",
}

TOML: dict[str, tuple[Any, Any]] = {
    "checkpoint": ("there", 1),
    "trigger": ("5 seconds", "often"),
    "shards": (3, 0),
    "$schema": ("https://there", 1),
    "tables": (None, {}),
    "queries": (None, {}),
    "tables.connector": ("csv", 1),
    "tables.path": ("elsewhere", 1),
    "tables.columns": ({"page": "string", "n": "long", "ts": "timestamp"}, "page string"),
    "tables.computed": ({"m": "n + 1"}, "n + 1"),
    "tables.time": ("at", 1),
    **{f"tables.{d.name}": CALLS["windowed"].options[d.name] for d in DURATIONS},
    "tables.watermark": (["page"], "slowest"),
    "tables.offset": (["partition", "offset"], ["partition"]),
    "tables.clock": ("at", 1),
    "tables.mode": ("batch", "both"),
    "tables.options": ({"multiLine": True}, "multiLine"),
    "queries.from": ("clicks", 1),
    "queries.columns": ({"m": "n + 1"}, "n + 1"),
    "queries.where": ("n > 1", 1),
    "queries.key": (["page", "n"], 1),
    "queries.nulls": ("group", "keep"),
    "queries.sets": ("rollup", "all"),
    "queries.windows": ({"session": "5 minutes"}, {"tumbling": "5 minutes", "step": "1 minute"}),
    "queries.early": ({"each": True}, {"each": True, "rows": 3}),
    "queries.full": (None, {"repeat": "no"}),
    "queries.fill": ({"value": "zero", "up_to": "1 day"}, {"value": "one", "up_to": "1 day"}),
    "queries.late": (None, {"each": True}),
    "queries.grace": ("1 hour", "a while"),
    "queries.keep": ("2 hours", "a while"),
    "queries.deltas": (True, "yes"),
    "queries.agg": ({"total": "sum(n)"}, {"total": "totals(n)"}),
    "queries.having": ("views > 3", 1),
    "queries.into": ("other", "nowhere"),
    "queries.rejected": ("other", "nowhere"),
    "early.each": (True, "yes"),
    "early.rows": (3, 0),
    "early.every": ("5 seconds", "often"),
    "early.at_least": (None, 0),
    "early.after": (None, "soon"),
    "early.since": (None, "middle"),
    "early.when": ("views > 3", "views is large"),
    "early.over": (None, 0),
    "early.stop": (None, "yes"),
    "early.then": (None, {"often": True}),
    "full.repeat": (None, "no"),
    "fill.value": ("null", "one"),
    "fill.values": ({"views": 1}, {"views": [1]}),
    "fill.up_to": ("2 days", "a while"),
    "windows.tumbling": ("5 minutes", "often"),
    "windows.hopping": (None, "often"),
    "windows.cumulating": (None, "often"),
    "windows.sliding": (None, "often"),
    "windows.rolling": (None, "often"),
    "windows.trailing": (None, "often"),
    "windows.every": (None, "often"),
    "windows.session": (None, "often"),
    "windows.longest": (None, "1 minute"),
    "windows.start": (None, "views = 1"),
    "windows.end": (None, "views = 1"),
    "windows.same": (None, "views"),
    "windows.slide": (None, "1 minute"),
    "windows.step": (None, "1 minute"),
    "windows.origin": ("2026-01-01T00:00:30", "some day"),
    "windows.overlap": (None, 0),
    "windows.zone": (None, "Europe/Nowhere"),
    "windows.zone_column": ("page", ""),
    "windows.closed": (None, "left"),
}
"""Keys of a pipeline in TOML, by part; a key with ``None`` is valid only with others."""
