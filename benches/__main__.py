"""Run the benchmark: ``python -m benches W1 W2 --peers muntin,spark --runs 3 --scale 0.1``.

``python -m benches scaling`` measures the cost of a batch as one factor grows.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from benches import venvs
from benches.chart import svg
from benches.progress import Progress
from benches.roster import ORACLE, PEERS
from benches.rounds import Plan, Track
from benches.summary import Document, summarise
from benches.tables import markdown
from benches.workloads import WORKLOADS

RESULTS = Path(__file__).resolve().parent / "results"
CORES = 2


def options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="benches", description=__doc__)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help="default: all")
    parser.add_argument("--peers", help="names, separated by commas; default: all that take part")
    parser.add_argument("--runs", type=int, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on rows (default 1)")
    parser.add_argument("--limit", type=float, default=1800, help="seconds for a single run")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the report")
    parser.add_argument("--list", action="store_true", help="list workloads and peers, and end")
    arguments = parser.parse_args()
    arguments.peers = arguments.peers.split(",") if arguments.peers else list(PEERS)
    for kind, names, choices in (
        ("workload", arguments.workloads, WORKLOADS),
        ("peer", arguments.peers, PEERS),
    ):
        unknown = [name for name in names if name not in choices]
        if unknown:
            parser.error(f"no {kind} {', '.join(unknown)}; there are {', '.join(choices)}")
    return arguments


def show() -> None:
    """List workloads with their targets, and peers."""
    for workload in WORKLOADS.values():
        print(f"{workload.name:5} {workload.title}")
        for target in workload.targets:
            print(f"        {target.text()}")
    print()
    for peer in PEERS.values():
        print(f"{peer.name:20} {peer.state}")


def store_results(folder: Path, name: str, document: Document) -> None:
    """Add the results of a workload to the existing ones, and render the report again."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "latest.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    results[name] = document
    results = {name: results[name] for name in WORKLOADS if name in results}
    path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    (folder / "latest.md").write_text(markdown(results))
    (folder / "latest.svg").write_text(svg(results))


def main() -> int:
    """Run the requested workloads; return 1 if the oracle can't be installed."""
    if sys.argv[1:2] == ["scaling"]:
        from benches.scaling import main as scaling

        return scaling(sys.argv[2:])
    arguments = options()
    if arguments.list:
        show()
        return 0
    progress = Progress()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    try:
        with progress.step("install duckdb, the oracle"):
            venvs.ensure(ORACLE.venv)
    except venvs.CannotInstallError as failure:
        progress.say(f"DuckDB, against which all is checked, could not be installed: {failure}")
        return 1
    track = Track(Plan(arguments.runs, arguments.scale, arguments.limit), progress)
    for name in arguments.workloads or WORKLOADS:
        workload = WORKLOADS[name]
        progress.say(f"{name}: {workload.title}")
        entries = track.run(workload, [PEERS[peer] for peer in arguments.peers])
        store_results(arguments.results, name, summarise(workload, entries, track.plan))
        progress.say(f"{name}: done, see {arguments.results.name}/latest.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
