"""Small faults in muntin that the simulator must catch, and ``python -m tests.simulation.mutants``.

Each changes a line of one function, in this process only. The command runs the simulator with each
of them, and prints the table of ``docs/decisions/simulation.md``.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import FunctionType
from typing import Any

from tests.simulation.cases import HostName, KindName
from tests.simulation.running import Simulation

# A mutant must be caught within so many seconds.
SECONDS = 300.0


@dataclass(frozen=True)
class Mutant:
    """A fault in one function.

    Attributes:
        fault: A description of the fault.
        function: The function, by its module and name.
        old: A part of its source.
        new: The replacement of that part.
        host: The host on which the fault has an effect.
        kind: The kind of queries on which the fault has an effect.
    """

    fault: str
    function: str
    old: str
    new: str
    host: HostName
    kind: KindName

    @property
    def target(self) -> FunctionType:
        """The function."""
        module, _, path = self.function.partition(":")
        owner: Any = import_module(f"muntin.{module}")
        for name in path.split("."):
            owner = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
        assert isinstance(owner, FunctionType)
        return owner

    def mutate(self) -> FunctionType:
        """Return the function with the fault."""
        target = self.target
        source = textwrap.dedent(inspect.getsource(target))
        if source.count(self.old) != 1:
            raise LookupError(f"{self.function} has {self.old!r} {source.count(self.old)} times")
        head, _, body = source.partition("def ")
        changed = "from __future__ import annotations\ndef " + body.replace(self.old, self.new)
        if self.old in head:
            raise LookupError(f"{self.old!r} is a decorator's")
        names: dict[str, Any] = {}
        exec(compile(changed, target.__code__.co_filename, "exec"), target.__globals__, names)
        function = names[target.__name__]
        assert isinstance(function, FunctionType)
        return function

    @contextmanager
    def apply(self) -> Iterator[None]:
        """Apply the fault in this process."""
        target, code = self.target, self.target.__code__
        target.__code__ = self.mutate().__code__
        try:
            yield
        finally:
            target.__code__ = code


_LOG, _CONTENTS = "hosts.local.log:Log", "hosts.local.log_contents:LogContents"
_CHECKPOINT, _LOOP = "hosts.local.checkpoint:LogCheckpoint", "hosts.local.loop:Loop"
_SINKS_FIRST = """\
    unwritable = self._delivery.write(batches, self.phases)
    progress = self.totals.add(batch.number, emitted.progress, unwritable, times)
"""
_COMMIT_FIRST = """\
    progress = self.totals.add(batch.number, emitted.progress, 0)
    self.checkpoint.commit(progress.to_dict(), self._shards)
    self._delivery.write(batches, self.phases)
    return progress, batches
"""

MUTANTS = [
    Mutant("a plan isn't flushed before the sinks see its batch", f"{_CHECKPOINT}.sync_plan",
           "elif self._sync_every == 0:", "elif False:", "local", "counting"),
    Mutant("nobody waits for the plan that is being flushed", f"{_CHECKPOINT}.sync_plan",
           "self._await_sync()", "pass", "local", "counting"),
    Mutant("a new file's entry in the folder isn't flushed", f"{_LOG}._sync_folder",
           "if self._sync:", "if False:", "local", "counting"),
    Mutant("a new file appears before its first record is on disk", f"{_LOG}.begin",
           "self.folder / _NEW_FILE", "self.get_path(file)", "local", "counting"),
    Mutant("a resumed file's entry in the folder isn't flushed", f"{_LOG}.resume",
           "self._sync_folder()", "pass", "local", "counting"),
    Mutant("a log is ended in order after the disk was full", f"{_LOG}.end",
           "if self._has_failed:", "if False:", "local", "counting"),
    Mutant("blobs of old files aren't copied", f"{_CHECKPOINT}._begin_next_file",
           "self._write_blob(key, blob)", "pass", "local", "counting"),
    Mutant("no commit stands behind the blobs that were copied", f"{_CHECKPOINT}._begin_next_file",
           "self._write_commit()", "pass", "local", "counting"),
    Mutant("the checksum of a record isn't compared", "hosts.local.log:_parse_record",
           "or zlib.crc32(body) != checksum", "", "local", "counting"),
    Mutant("a batch that was planned is forgotten", f"{_CONTENTS}._apply",
           "self.planned = _parse_plan(json.loads(record.body))", "pass", "local", "counting"),
    Mutant("a batch that was planned is planned anew", f"{_LOOP}.run_batches",
           "self.checkpoint.planned or self._plan()", "self._plan()", "local", "counting"),
    Mutant("a batch is committed before the sinks have it", f"{_LOOP}._step",
           _SINKS_FIRST, _COMMIT_FIRST, "local", "counting"),
    Mutant("the watermark isn't read from the state", "hosts.local.run:OperatorShards.prepare",
           "self.steps[0].task_watermark or TaskWatermark(False, None)",
           "TaskWatermark(True, None)",
           "local", "counting"),
    Mutant("numbers of blobs are drawn from eight", "state.blobs:draw_number",
           "secrets.randbits(62)", "secrets.randbits(3)", "local", "counting"),
    Mutant("tasks' rows are taken in the order in which they come", "spark.host.task:read_parts",
           'rows_with_header.sort(key=lambda pair: pair[0]["order"])', "pass", "spark", "windows"),
    Mutant("tasks judge by the watermark of two batches before",
           "spark.host.handoff:load_watermark",
           "batch - 1", "batch - 2", "spark", "counting"),
    Mutant("blobs are named alike by every attempt", "state.blobs:draw_number",
           "secrets.randbits(62)", "secrets.randbits(4)", "spark", "windows"),
    Mutant("the watermark is off by one", "engine.state:State.follow",
           "time - spec.lateness", "time - spec.lateness + 1", "local", "windows"),
    Mutant("messages that are replayed count again", "state.offsets:TakenOffsets.find_repeated",
           "again |=", "again &=", "local", "windows"),
    Mutant("offsets that were taken are forgotten", "engine.state:State.__init__",
           "TakenOffsets(manifest.offsets.get(name, ()))", "TakenOffsets(())", "local", "windows"),
    Mutant("the grace is ignored", "engine.windows.shard:WindowShard._begin",
           "self.spec.firing.grace", "0", "local", "windows"),
    Mutant("a message on the edge is late", "engine.admission:admit",
           "messages[columns.TIME] < edge,", "messages[columns.TIME] <= edge,", "local", "windows"),
    Mutant("a message from the future moves the watermark", "engine.admission:moves_watermark",
           "columns.TIME_FLAGS", "(columns.MALFORMED,)", "local", "windows"),
    Mutant("the clock of the last batch isn't stored", "engine.state:State.save",
           "self.wall,", "None,", "local", "windows"),
    Mutant("each new shard has the counts of all old ones", "state.rescale:_merge_manifests",
           "if shard == 0 else ()", "", "local", "windows"),
    Mutant("every new shard has all messages of a join",
           "engine.joins.division:JoinDivision.divide",
           "return split_by_shard(rows, keys, shards)", "return dict.fromkeys(range(shards), rows)",
           "local", "joins"),
]  # fmt: skip


def count_cases_until_caught(
    mutant: Mutant, seconds: float = SECONDS, first: int = 1
) -> int | None:
    """Return the number of cases until one fails, or None if none fails in time."""
    simulation = Simulation(first, hosts=[mutant.host], kinds=[mutant.kind])
    with mutant.apply():
        finding = next(simulation.run(seconds), None)
    return None if finding is None else simulation.cases


def format_table(rows: Sequence[tuple[Mutant, int | None]]) -> Iterator[str]:
    """Yield the lines of the table of mutants."""
    yield "| fault | function | host | queries | cases until caught |"
    yield "| --- | --- | --- | --- | --- |"
    for mutant, cases in rows:
        name = mutant.function.replace(":", ".").replace("<locals>", "")
        count = "not caught" if cases is None else str(cases)
        yield f"| {mutant.fault} | `{name}` | {mutant.host} | {mutant.kind} | {count} |"


def main(arguments: list[str], write: Callable[[str], object] = print) -> int:
    """Run the simulator with mutants; return 1 if it misses one of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each (default 300)")
    parser.add_argument("--only", default="", help="those whose fault has these words")
    options = parser.parse_args(arguments)
    chosen = [mutant for mutant in MUTANTS if options.only in mutant.fault]
    rows = []
    for mutant in chosen:
        rows.append((mutant, count_cases_until_caught(mutant, options.seconds)))
        print(rows[-1][1], mutant.fault, file=sys.stderr, flush=True)
    for line in format_table(rows):
        write(line)
    return 1 if any(cases is None for _, cases in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
