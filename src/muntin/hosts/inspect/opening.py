"""Opens the windows or the join of a snapshot."""

from __future__ import annotations

from collections.abc import Mapping

from muntin.hosts.inspect.joins import OpenJoin
from muntin.hosts.inspect.snapshot import StateSnapshot
from muntin.hosts.inspect.windows import OpenWindows
from muntin.model.aggregates import Aggregate
from muntin.model.errors import OptionError
from muntin.model.joins import JoinSpec
from muntin.model.recall import load_spec, with_functions
from muntin.model.spec import WindowSpec


def open_snapshot(
    snapshot: StateSnapshot, aggregates: Mapping[str, Aggregate] | None
) -> OpenWindows | OpenJoin:
    """Return the windows or the join of a snapshot, for `muntin.open_state`."""
    spec = read_spec(snapshot)
    if isinstance(spec, JoinSpec):
        return OpenJoin(snapshot, spec)
    return OpenWindows(snapshot, with_functions(spec, aggregates or {}))


def read_spec(snapshot: StateSnapshot) -> WindowSpec | JoinSpec:
    """Return the query of a snapshot."""
    kind, folder = snapshot.any_manifest.kind, snapshot.folder
    if kind == "tables":
        names = ", ".join(map(repr, snapshot.any_manifest.spec))
        hint = f"write muntin.open_table(checkpoint, name) with one of {names}"
        raise OptionError("CHECKPOINT", folder, "holds tables", hint)
    if kind not in ("windows", "join"):
        hint = "use the version that wrote it"
        raise OptionError("CHECKPOINT", folder, f"holds state of another kind, {kind!r}", hint)
    return load_spec(snapshot.any_manifest.spec)


def refuse_table(snapshot: StateSnapshot, table: str | None) -> None:
    """Refuse the name of a table for state of windows or joins, which have no tables."""
    if table is not None:
        problem = f"isn't in a checkpoint of {snapshot.any_manifest.kind}"
        raise OptionError("--table", table, problem, "omit it")
