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
    opened: StateSnapshot, aggregates: Mapping[str, Aggregate] | None = None
) -> OpenWindows | OpenJoin:
    """Return the windows or the join of a snapshot, for `muntin.open_state`.

    Raises:
        OptionError: When it has another kind of state, or was written by another version.
    """
    spec = read_spec(opened)
    if isinstance(spec, JoinSpec):
        return OpenJoin(opened, spec)
    return OpenWindows(opened, with_functions(spec, aggregates or {}))


def read_spec(opened: StateSnapshot) -> WindowSpec | JoinSpec:
    """Return the query of a snapshot.

    Raises:
        OptionError: When it has another kind of state, or was written by another version.
    """
    kind, folder = opened.any_manifest.kind, opened.folder
    if kind == "tables":
        names = ", ".join(map(repr, opened.any_manifest.spec))
        hint = f"write muntin.open_table(checkpoint, name) with one of {names}"
        raise OptionError("CHECKPOINT", folder, "holds tables", hint)
    if kind == "windowing":
        hint = "go on with muntin windowing, whose page shows what it holds"
        raise OptionError("CHECKPOINT", folder, "holds the windowing application's rows", hint)
    return load_spec(opened.any_manifest.spec)


def refuse_table(opened: StateSnapshot, table: str | None) -> None:
    """Refuse the name of a table for state of windows or joins, which have no tables.

    Raises:
        OptionError: When there is a name.
    """
    if table is not None:
        problem = f"isn't in a checkpoint of {opened.any_manifest.kind}"
        raise OptionError("--table", table, problem, "omit it")
