"""Implements `muntin inspect` and `muntin why` for tables of agents, which only Spark has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muntin.explain.why_tables import TableSeen, explain_table
from muntin.hosts.inspect.report import (
    Sizes,
    StateReport,
    assemble_report,
    collect_runs,
    list_tables,
    to_plain_rows,
)
from muntin.hosts.inspect.why import describe_key, parse_position
from muntin.model.axis import MIN_POSITION, format_time
from muntin.spark.host.checkpoint import Checkpoint
from muntin.spark.inspect.tables import OpenTable, one_table
from muntin.tables.spec import list_facts


def report_tables(opened: Checkpoint, key: Sequence[str], table: str | None) -> StateReport:
    """Report the contents of a checkpoint of tables, as `report_state` does for windows."""
    sizes = opened.measure_blobs()
    rows = None
    if key:
        state = OpenTable(opened, one_table(opened, key, table), None, None)
        rows = to_plain_rows(state.to_frame(state.find_entries(key)[1]))
    return assemble_report(opened, _describe_tables(opened, sizes), sizes, rows)


def explain_tables(
    opened: Checkpoint, key: Sequence[str], at: str | None, table: str | None
) -> list[str]:
    """Explain why a key has a value or a write is rejected, as `explain_state` does for windows."""
    state = OpenTable(opened, one_table(opened, key, table), None, None)
    mark, entries = state.find_entries(key)
    words = [(one.window, repr(one.value)) for one in entries]
    spec = state.spec
    seen = TableSeen(str(spec), spec.windows, spec.expires, mark, words)
    return [describe_key(key), *explain_table(seen, parse_position(at, "time"))]


def _describe_tables(opened: Checkpoint, sizes: Sizes) -> StateReport:
    spec = opened.any_manifest.spec
    tables = [manifest.extra["tables"] for manifest in opened.manifest_by_shard.values()]
    marks = {name: max(one[name]["watermark"] for one in tables) for name in spec}
    return {
        "kind": "tables",
        "spec": {name: _describe_table(table) for name, table in spec.items()},
        "watermark": {
            n: None if mark == MIN_POSITION else format_time(mark) for n, mark in marks.items()
        },
        "tables": list_tables(collect_runs(opened), sizes, lambda *_: None),
    }


def _describe_table(table: Mapping[str, Any]) -> str:
    return ", ".join(one.words for one in list_facts(table).values())
