"""Summarizes rounds as medians and ratios, in the document that is stored as JSON."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benches.rounds import Entry, Plan
from benches.workloads import UNITS, Target, Workload

Document = dict[str, Any]


def summarise(workload: Workload, entries: list[Entry], plan: Plan) -> Document:
    """Return all figures of one workload."""
    cases: Document = {}
    for case in workload.cases:
        own = [entry for entry in entries if entry.case.name == case.name]
        cases[case.name] = {
            "title": case.title,
            "measure": case.measure,
            "unit": UNITS[case.measure],
            "peers": {entry.peer.name: _peer(entry) for entry in own},
        }
    return {
        "title": workload.title,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "runs": plan.runs,
        "scale": plan.scale,
        "machine": machine(),
        "cases": cases,
        "targets": [_target(target, entries) for target in workload.targets],
    }


def _peer(entry: Entry) -> Document:
    """Return the medians over the rounds of one peer, and the rounds."""
    names = sorted({name for figures in entry.rounds for name in figures})
    medians = {name: _median(f[name] for f in entry.rounds if name in f) for name in names}
    status, reason = entry.status, entry.reason
    if status == "ok" and "figure" not in medians:
        status, reason = "too short", "no steady state: a tenth of the rows took as long"
    return {
        "status": status,
        "reason": reason,
        "rows": entry.rows,
        "state": entry.peer.state,
        "median": medians,
        "rounds": entry.rounds,
    }


def _target(target: Target, entries: list[Entry]) -> Document:
    """Return a target and the median of its ratio, taken round by round."""
    left = _rounds(entries, target.case, target.peer)
    right = _rounds(entries, target.against, target.other_peer)
    ratio = _ratio(left, right, "figure")
    return {
        "text": target.text(),
        "case": target.case,
        "peer": target.other_peer,
        "against": target.against,
        "bound": target.bound,
        "at_least": target.at_least,
        "ratio": ratio,
        "whole_ratio": _ratio(left, right, "whole_rate"),
        "reached": None if ratio is None else target.is_reached(ratio),
    }


def _rounds(entries: Iterable[Entry], case: str, peer: str) -> list[dict[str, float]]:
    """Return the rounds of one peer in one case; none if its outputs were wrong."""
    for entry in entries:
        if (entry.case.name, entry.peer.name) == (case, peer) and entry.status == "ok":
            return entry.rounds
    return []


def _ratio(left: list[dict[str, float]], right: list[dict[str, float]], name: str) -> float | None:
    """Return the median over rounds of one figure's ratio."""
    pairs = zip(left, right, strict=False)
    return _median(a[name] / b[name] for a, b in pairs if name in a and b.get(name))


def _median(values: Iterable[float]) -> float | None:
    """Return the median; ``None`` without values."""
    present = list(values)
    return statistics.median(present) if present else None


def machine() -> Document:
    """Describe the machine, without names and paths."""
    model = platform.machine()
    memory = 0.0
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemTotal"):
            memory = int(line.split()[1]) / 1_048_576
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory, 1),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def _lines(path: str) -> list[str]:
    """Return the lines of a file, if it can be read."""
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
