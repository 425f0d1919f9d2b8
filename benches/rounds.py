"""Checks every peer against DuckDB, then times those that agree, round by round in turns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benches import processes, venvs
from benches.progress import Progress
from benches.roster import ORACLE, WRITER, Peer
from benches.workloads import Case, Target, Workload

# A ratio this many times better than its target needs no second round.
CLEAR = 1.5
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Plan:
    """Options of a benchmark run.

    Attributes:
        runs: Number of rounds.
        scale: Factor on the rows of throughput cases and on the keys loaded.
        limit: Seconds after which a single run is killed.
    """

    runs: int = 5
    scale: float = 1.0
    limit: float = 1800.0


@dataclass
class Entry:
    """One peer in one case, with all of its results.

    Attributes:
        case: The case.
        peer: The peer.
        rows: Rows of its full run.
        status: ``ok``, ``wrong``, ``failed`` or ``skipped``.
        reason: Why it is not ``ok``.
        rounds: Figures of each round; ``{}`` for a round that failed.
    """

    case: Case
    peer: Peer
    rows: int
    status: str = "ok"
    reason: str = ""
    rounds: list[dict[str, float]] = field(default_factory=list)

    def give_up(self, status: str, reason: str) -> None:
        """Exclude this peer from the case."""
        self.status, self.reason = status, processes.scrub(reason)


class Track:
    """Runs the programs of one workload."""

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self.plan = plan
        self.progress = progress
        self._expected: dict[tuple[str, int], dict[str, int]] = {}

    def run(self, workload: Workload, peers: Iterable[Peer]) -> list[Entry]:
        """Check and time one workload."""
        scale = self.plan.scale
        entries = [
            Entry(case, peer, case.rows_for(peer.name, peer.family, scale))
            for case in workload.cases
            for peer in peers
            if not {peer.family, peer.name}.isdisjoint(case.families)
        ]
        for entry in entries:
            self._admit(entry)
        for number in range(self.plan.runs):
            turn = number % max(1, len(entries))
            for entry in entries[turn:] + entries[:turn]:
                if entry.status == "ok" and not is_settled(entry, entries, workload.targets):
                    label = f"round {number + 1}/{self.plan.runs}"
                    self._guard(entry, lambda e=entry, at=label: e.rounds.append(self._time(e, at)))
        return entries

    def _admit(self, entry: Entry) -> None:
        """Install a peer, and check its outputs against DuckDB's."""
        if entry.peer.java and not venvs.has_java():
            entry.give_up("skipped", "no Java runtime found")
        else:
            self._guard(entry, lambda: self._check(entry))
        if entry.status != "ok":
            name = f"{entry.case.name} {entry.peer.name}"
            self.progress.say(f"{name}: {entry.status.upper()}: {entry.reason}")

    def _guard(self, entry: Entry, step: Callable[[], None]) -> None:
        """Exclude a peer when a step fails."""
        try:
            step()
        except venvs.CannotInstallError as failure:
            entry.give_up("skipped", f"could not be installed: {failure}")
        except processes.RunError as failure:
            entry.give_up("failed", str(failure))

    def _check(self, entry: Entry) -> None:
        """Count and sum the outputs of the full run."""
        venvs.ensure(entry.peer.venv)
        case = entry.case
        if case.query:
            venvs.jars(entry.peer.venv)
        if case.measure == "latency":
            return
        self._write(case, entry.rows, entry.rows)
        if case.measure == "throughput":
            self._write(case, entry.rows // 10, entry.rows)
        key = (case.name, entry.rows)
        if key not in self._expected:
            oracle = Entry(case, ORACLE, entry.rows)
            answer = self._program(oracle, entry.rows, "--check", "oracle")
            self._expected[key] = answer.line["output"]
        line = self._program(entry, entry.rows, "--check", "check").line
        if line["output"] != self._expected[key]:
            entry.give_up("wrong", f"{line['output']} instead of {self._expected[key]}")
        early = (line["figures"] or {}).get("early")
        if early is not None and case.early != "never":
            least = max(1, case.keys_to_load(self.plan.scale))
            if early < least:
                entry.give_up("wrong", f"{early} early firings where at least {least} are due")

    def _time(self, entry: Entry, label: str) -> dict[str, float]:
        """Return the figures of one round."""
        if entry.case.measure != "throughput":
            done = self._program(entry, entry.rows, "--time", label)
            figures = dict(done.line["figures"])
            if figures.get("wrong_windows"):
                raise processes.RunError(f"{figures['wrong_windows']} windows lack rows")
            figure = figures["p99" if entry.case.measure == "latency" else "batch_median"]
            return {"figure": figure, **figures, "wall": done.wall, "peak_mb": done.peak_mb}
        tenth = self._program(entry, entry.rows // 10, "--time", label)
        full = self._program(entry, entry.rows, "--time", label)
        seconds, less = full.line["seconds"]["query"], tenth.line["seconds"]["query"]
        peak = max(tenth.peak_mb, full.peak_mb)
        return throughput(entry.rows, seconds, less, full.wall) | {"peak_mb": peak}

    def _write(self, case: Case, rows: int, full_rows: int) -> None:
        """Write the files of a stream, once."""
        stream = case.stream(rows, full_rows, self.plan.scale)
        if not all(side.folder.exists() for side in stream.sides):
            writer, module = (WRITER, "generate_auctions") if case.query else (ORACLE, "generate")
            entry = Entry(case, writer, full_rows)
            self._program(entry, rows, "--time", "write files", module=f"benches.{module}")

    def _program(
        self, entry: Entry, rows: int, mode: str, label: str, module: str = ""
    ) -> processes.Finished:
        """Run a program of the benchmark in a peer's environment."""
        peer, plan = entry.peer, self.plan
        python = venvs.ensure(peer.venv)
        module = module or f"benches.peers.{peer.module}"
        command = [str(python), "-m", module, entry.case.name, mode, "--rows", str(rows)]
        command += ["--full-rows", str(entry.rows), "--scale", str(plan.scale), *peer.arguments]
        environment = environment_of(peer)
        name = f"{entry.case.name} {label}: {peer.name}, {rows:,} rows"
        with self.progress.step(name) as tick:
            return processes.run(command, environment, ROOT, plan.limit, tick)


def is_settled(entry: Entry, entries: list[Entry], targets: Iterable[Target]) -> bool:
    """Return whether more rounds with a peer are pointless.

    They are if every ratio with the peer beat its target by ``CLEAR`` in one round, or if no target
    names the peer. Otherwise slow peers would take most of the time.
    """
    if not entry.rounds or entry.peer.own:
        return False
    name, case = entry.peer.name, entry.case.name
    peer_targets = [t for t in targets if (t.other_peer, t.against) == (name, case)]
    ours = {(e.case.name, e.peer.name): e.rounds for e in entries if e.status == "ok"}
    for target in peer_targets:
        for own, theirs in zip(
            ours.get((target.case, target.peer), []), entry.rounds, strict=False
        ):
            ratio = own.get("figure", 0.0) / theirs["figure"] if theirs.get("figure") else 0.0
            if not (
                ratio and target.is_reached(ratio / CLEAR if target.at_least else ratio * CLEAR)
            ):
                return False
    return all((target.case, target.peer) in ours for target in peer_targets)


def environment_of(peer: Peer) -> dict[str, str]:
    """Return the environment of a peer's program."""
    paths = [str(ROOT), str(ROOT / "src")] if peer.own else [str(ROOT)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "LC_ALL": "C.UTF-8"}


def throughput(rows: int, seconds: float, tenth: float, wall: float) -> dict[str, Any]:
    """Return the figures from a full run and a run of a tenth.

    Steady state is the time of the last nine tenths of the rows. Start-up is the time of the whole
    program beyond its rows at that speed.
    """
    steady = seconds - tenth
    figures: dict[str, Any] = {"seconds": seconds, "tenth": tenth, "wall": wall}
    figures["whole_rate"] = rows / wall
    if steady > 0:
        figures["figure"] = (rows - rows // 10) / steady
        figures["start_up"] = max(0.0, wall - rows / figures["figure"])
    return figures
